"""Writing imported episodes into a store: read everything, check everything, then one epoch of its own.

Invariant: nothing is written before every file was read and every row checked; the same files with the same options are
imported once, however often the command runs; a killed import is continued by the same command.

Run: ``sera data import STORE FILES --from chat``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from schemas import SCHEMA_VERSION, TABLES
from sera_data.canonical import canonical_json, sha256_file, sha256_json
from sera_data.episode import Episode, fault
from sera_data.import_chat import LOST as CHAT_LOST
from sera_data.import_chat import read_chat
from sera_data.import_inspect import LOST as INSPECT_LOST
from sera_data.import_inspect import read_inspect
from sera_data.import_rows import ImportOptions, Rows, episode_rows, task_row
from sera_data.import_trajectory import LOST as TRAJECTORY_LOST
from sera_data.import_trajectory import read_trajectory
from sera_data.import_verifiers import LOST as VERIFIERS_LOST
from sera_data.import_verifiers import read_verifiers
from sera_data.losses import Losses
from sera_data.plan import Plan, claim_plan, plan_names, read_plan
from sera_data.progress import counted
from sera_data.rows import to_arrow
from sera_data.sealing import seal
from sera_data.store import Store, create_store, open_store
from sera_data.tokens import require_token_rule
from sera_data.writer import ShardWriter

Reader = Callable[[Path, Losses], Iterator[Episode]]
FORMS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "chat": (read_chat, CHAT_LOST),
    "verifiers": (read_verifiers, VERIFIERS_LOST),
    "inspect": (read_inspect, INSPECT_LOST),
    "trajectory": (read_trajectory, TRAJECTORY_LOST),
}
ASSUMED = "sampling parameters (temperature 1 and top_p 1 stand where a file names none), seeds, states of the world"
UNIT_EPISODES = 512
MOST_SAMPLES = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did. plan: the epoch's name, or None for a dry run; already: it had been done before."""

    plan: str | None
    already: bool
    episodes: int
    tasks: int
    turns: int
    turns_with_ids: int
    trainable_turns: int
    verdicts: int
    lost: list[str]


def import_files(path: Path, files: Sequence[Path], options: ImportOptions, *, dry_run: bool = False) -> Imported:
    """Import files into a store, made when there is none; ImportFault or RowError comes before anything is written."""
    read, always = FORMS[options.form]
    losses = Losses(*always, ASSUMED)
    groups: dict[str, list[Episode]] = {}
    read_all = (episode for file in files for episode in read(file, losses))
    for episode in counted(read_all, "episodes read"):
        groups.setdefault(episode.key, []).append(episode)
    if not groups:
        fault(", ".join(map(str, files)), "no episode in it")
    config = {"files": [{"name": f.name, "sha256": sha256_file(f)} for f in files], **asdict(options)}
    run_id = f"import-{sha256_json(config)[:8]}"
    units = _units(groups)
    checked = [_unit_rows(unit, options, config, run_id=run_id, epoch=0) for unit in units]
    for rows in checked:
        _require_sound(rows)
    if dry_run:
        return _result(None, False, checked, losses)
    store = open_store(path) if (path / "store.json").exists() else create_store(path)
    done = _done(store, run_id)
    if done is not None:
        return _result(done, True, checked, losses)
    plan = claim_plan(
        store,
        run_id=run_id,
        phase="collect",
        config_hash=sha256_json(config),
        units=[{"unit_id": f"u{n:04d}", "purpose": options.purpose} for n in range(len(units))],
        about={"imported": options.form},
    )
    for unit_id, unit in zip(plan.unit_ids, units, strict=True):
        _commit(store, plan, unit_id, _unit_rows(unit, options, config, run_id=run_id, epoch=plan.epoch))
    seal(store, plan.name)
    return _result(plan.name, False, checked, losses)


def _units(groups: dict[str, list[Episode]]) -> list[list[list[Episode]]]:
    """Tasks with all their samples, in units of about as many episodes; a task is never cut."""
    units: list[list[list[Episode]]] = [[]]
    size = 0
    for episodes in groups.values():
        if len(episodes) > MOST_SAMPLES:
            fault(episodes[MOST_SAMPLES].place, f"the {MOST_SAMPLES + 1}th episode of task {episodes[0].key[:60]!r}")
        if size and size + len(episodes) > UNIT_EPISODES:
            units.append([])
            size = 0
        units[-1].append(episodes)
        size += len(episodes)
    return units


def _unit_rows(unit: list[list[Episode]], options: ImportOptions, config: Any, *, run_id: str, epoch: int) -> Rows:
    rows: Rows = {name: [] for name in ("runs", "tasks", "nodes", "turns", "labels")}
    models: set[str] = set()
    for episodes in unit:
        task = task_row(episodes[0], options)
        rows["tasks"].append(task)
        for sample, episode in enumerate(episodes):
            made = episode_rows(episode, options, run_id=run_id, epoch=epoch, task_id=task["task_id"], sample=sample)
            for table, more in made.items():
                rows[table] += more
            models |= {turn["policy"] for turn in made["turns"]}
    rows["runs"].append(
        {
            "phase": "collect",
            "schema_version": SCHEMA_VERSION,
            "code_version": version("sera-data"),
            "config": canonical_json(config),
            "config_hash": sha256_json(config),
            "policies": [{"role": "act", "name": m, "engine": "imported", "version": 0} for m in sorted(models)],
        }
    )
    return rows


def _require_sound(rows: Rows) -> None:
    """What a commit would refuse, before anything is claimed; RowError names the row."""
    provenance = {"run_id": "import", "epoch": 0, "shard_id": "import"}
    for name, found in rows.items():
        to_arrow(TABLES[name], [{**provenance, **row} for row in found])
    optional = {c.name: None for c in TABLES["turns"].columns if c.nullable}
    require_token_rule({**optional, **row} for row in rows["turns"])


def _done(store: Store, run_id: str) -> str | None:
    """The sealed plan of this very import, if there is one."""
    plans = [read_plan(store, name) for name in plan_names(store)]
    return next((plan.name for plan in plans if plan.run_id == run_id and plan.sealed()), None)


def _commit(store: Store, plan: Plan, unit_id: str, rows: Rows) -> None:
    if plan.has_committed(unit_id):
        return
    with ShardWriter(store, plan, unit_id) as writer:
        for table, found in rows.items():
            writer.extend(table, found)
        writer.commit()


def _result(plan: str | None, already: bool, checked: list[Rows], losses: Losses) -> Imported:
    turns = [turn for rows in checked for turn in rows["turns"]]
    return Imported(
        plan=plan,
        already=already,
        episodes=sum(len(rows["nodes"]) for rows in checked),
        tasks=sum(len(rows["tasks"]) for rows in checked),
        turns=len(turns),
        turns_with_ids=sum(turn["completion_ids"] is not None for turn in turns),
        trainable_turns=sum(turn["trainable"] for turn in turns),
        verdicts=sum(len(rows["labels"]) for rows in checked),
        lost=losses.lines(),
    )
