"""The pocket table: the paper's rows with the pocket policy, equal updates, five seeds, held-out worlds.

Builds the held-out task files once, then runs `sera compare` on configs/pocket_table.yaml. Resumable: killed at any
moment and started again it continues, and the tables of what is done are there after every cell. First it says
whether there is headroom: verified rewards (RAO) must beat the shipped rubric's rewards by 10 points.

Run: ``python benchmarks/pocket_table.py [OUT] [JOBS]`` (default runs/pocket_table 2); ``--report`` only reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CONFIG = Path(__file__).parents[1] / "configs" / "pocket_table.yaml"
SERA = [sys.executable, "-m", "sera_data"]
TASKS = {"held_out.jsonl": ("200", "7"), "probe.jsonl": ("100", "9")}
WORLDS = ["--worlds", "8000-8199", "--items-per-tier", "8", "--max-tier", "3"]
HEADROOM = 0.10


def build(out: Path) -> None:
    """Tasks of worlds that no training uses."""
    out.mkdir(parents=True, exist_ok=True)
    for name, (n, seed) in TASKS.items():
        if not (out / name).is_file():
            command = ["tasks", "build", "textcraft", *WORLDS, "--n", n, "--seed", seed, "--split", "test"]
            command += ["--out", str(out / name)]
            subprocess.run([*SERA, *command], check=True, stdout=subprocess.DEVNULL)


def headroom(body: dict) -> str:
    """How much verified rewards win over the shipped rubric's, from the finished cells."""
    rows = {row["row"]: next(iter(row["success"].values())) for row in body["rows"]}
    verified, rubric = rows.get("rao"), rows.get("rubric_reward")
    if not verified or not rubric:
        return "headroom: not known yet (needs cells of rao and rubric_reward)"
    gap = verified["value"] - rubric["value"]
    word = "enough" if gap >= HEADROOM else "too little: the shipped rubric's gates must be worse"
    return f"headroom: RAO {verified['value']:.3f} - rubric reward {rubric['value']:.3f} = {gap:+.3f}, {word}"


def main(arguments: list[str]) -> int:
    """Build, run, print."""
    named = [a for a in arguments if not a.startswith("-")]
    out, jobs = Path(named[0] if named else "runs/pocket_table"), named[1] if len(named) > 1 else "2"
    build(out)
    files = ["--set", f"tasks={out / 'held_out.jsonl'}", "--set", f"probe.tasks={out / 'probe.jsonl'}"]
    place = ["--config", str(CONFIG), "--out", str(out / "compare"), "--jobs", jobs]
    command = [*SERA, "compare", *place, *files, *(["--report"] if "--report" in arguments else []), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return done.returncode
    print(headroom(json.loads(done.stdout)))
    print((out / "compare" / "compare.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
