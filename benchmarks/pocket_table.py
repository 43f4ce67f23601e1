"""The pocket table: the paper's rows with the pocket policy, equal updates, five seeds, held-out worlds.

Builds the held-out task files once, then runs `sera compare` on configs/pocket_table.yaml; in TextWorld-Sync on configs
of that world, with the same seeds, the nine rows and ten claims that were written down first. Resumable: killed at any
moment and started again it continues, and the tables of what is done are there after every cell. First it says whether
there is headroom: verified rewards (RAO) must beat the shipped rubric's rewards by 10 points.

Run: ``python benchmarks/pocket_table.py [OUT] [JOBS] [--world textworld]`` (default runs/pocket_table 2, or
runs/pocket_textworld 2); ``--report`` only reads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import yaml

CONFIG = Path(__file__).parents[1] / "configs" / "pocket_table.yaml"
SERA = [sys.executable, "-m", "sera_data"]
TEXTCRAFT = ["textcraft", "--worlds", "8000-8199", "--items-per-tier", "8", "--max-tier", "3", "--split", "test"]
TEXTWORLD = ["textworld", "--split", "test", "--difficulty", "easy"]
TASKS = {
    "textcraft": {
        "held_out.jsonl": [*TEXTCRAFT, "--n", "200", "--seed", "7"],
        "probe.jsonl": [*TEXTCRAFT, "--n", "100", "--seed", "9"],
    },
    "textworld": {
        "held_out.jsonl": [*TEXTWORLD, "--per-cell", "20"],
        "probe.jsonl": [*TEXTWORLD, "--per-cell", "10"],
    },
}
NAMES = {"textcraft": "pocket_table", "textworld": "pocket_textworld"}
CHANGES = {
    "textcraft": (),
    "textworld": (
        "name=pocket-textworld",
        "loop=configs/pocket_textworld_loop.yaml",
        "evaluation=configs/pocket_textworld_eval.yaml",
        "probe.config=configs/pocket_textworld_probe.yaml",
        "probe.set=[]",
        "protocols.at8.rows=[start, rao]",
    ),
}
"""What another world changes in the config; seeds and protocols stay, and rows and claims that are not of one world."""
OF_THE_WORLD = ("collect.world.", "learn.updates_per_collect")
"""Settings of a row that hold in the config's own world only: its tasks, and how many updates its loop makes."""
HEADROOM = 0.10


def build(out: Path, world: str) -> None:
    """Tasks of worlds, or of foods, that no training uses."""
    out.mkdir(parents=True, exist_ok=True)
    for name, arguments in TASKS[world].items():
        if not (out / name).is_file():
            command = [*SERA, "tasks", "build", *arguments, "--out", str(out / name)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def common() -> tuple[str, str]:
    """Overrides that leave only the rows that are the same in every world, and the claims about them."""
    config = yaml.safe_load(CONFIG.read_text())
    own = {key for key, row in config["rows"].items() if any(name in str(row.get("set")) for name in OF_THE_WORLD)}
    rows = {key: row for key, row in config["rows"].items() if key not in own}
    known = {*rows, "start"}
    claims = [claim for claim in config["contrasts"] if {claim["better"], claim["worse"]} <= known]
    return f"rows={json.dumps(rows)}", f"contrasts={json.dumps(claims)}"


def headroom(body: dict) -> str:
    """How much verified rewards win over the shipped rubric's, from the finished cells."""
    rows = {row["row"]: next(iter(row["success"].values())) for row in body["rows"]}
    verified, rubric = rows.get("rao"), rows.get("rubric_reward")
    if not verified or not rubric:
        return "headroom: not known yet (needs cells of rao and rubric_reward)"
    gap = verified["value"] - rubric["value"]
    word = "enough" if gap >= HEADROOM else "too little: the shipped rubric's gates must be worse"
    return f"headroom: RAO {verified['value']:.3f} - rubric reward {rubric['value']:.3f} = {gap:+.3f}, {word}"


def main() -> int:
    """Build, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("jobs", type=int, nargs="?", default=2)
    parser.add_argument("--world", choices=tuple(NAMES), default="textcraft")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    out = given.out or Path("runs") / NAMES[given.world]
    build(out, given.world)
    kept = common() if CHANGES[given.world] else ()
    changes = [*CHANGES[given.world], *kept, f"tasks={out / 'held_out.jsonl'}", f"probe.tasks={out / 'probe.jsonl'}"]
    files = [part for change in changes for part in ("--set", change)]
    place = ["--config", str(CONFIG), "--out", str(out / "compare"), "--jobs", str(given.jobs)]
    command = [*SERA, "compare", *place, *files, *(["--report"] if given.report else []), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return done.returncode
    print(headroom(json.loads(done.stdout)))
    print((out / "compare" / "compare.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
