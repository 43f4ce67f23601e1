"""A stored run repeated from its snapshots: the same updates on the same data, compared column by column.

Invariant: nothing is written to the store; the weights and checkpoints of a replay lie in a directory of their own. The
phases of a run are repeated in order, because the optimizer of one goes on in the next. On CPU with one rank every
measured column is bitwise that of the run. A run whose snapshot, policy, method, config or code is another one now is
refused, with all that differs.

Run: ``sera learn --replay RUN_ID --store STORE --from POLICY --out DIR``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from collect.interruption import Interruption
from collect.policy_directory import PolicyDirectory, is_policy_directory, read_policy_directory
from collect.provenance import code_version
from learn.config import LearnConfig
from learn.phase import export, phase_hashes, snapshot_name, train
from learn.ranks import Ranks
from learn.record import Phase
from learn.refreshed import method_of
from learn.registered import query
from learn.stopping import Stopping
from schemas import TABLES
from sera_data.config import checked
from sera_data.errors import SeraError, StoreError, UsageError
from sera_data.snapshot import Snapshot, read_snapshot
from sera_data.store import Store

Code = Literal["same", "any"]


class ReplayDiffersError(SeraError):
    """The repeated updates are not those of the run."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Replayed:
    """One repeated phase. differences: 'update 3: loss 0.1 instead of 0.2', in order; empty = bitwise the same."""

    epoch: int
    version: int
    updates: int
    differences: tuple[str, ...]
    policy: Path


def run_named(text: str) -> str:
    """The run id: the text itself, or of a run's directory the one that its policies name."""
    path = Path(text)
    if not path.is_dir():
        return text
    found = sorted(entry for entry in (path / "policies").glob("v*") if is_policy_directory(entry))
    run_id = read_policy_directory(found[-1], verify=False).run_id if found else None
    if run_id is None:
        msg = f"{path} is no directory of a learn run: it has no policies/v000001 that names one"
        raise UsageError(msg, hint="give the run id; 'select distinct run_id from updates' lists them")
    return run_id


def replay_run(
    store: Store,
    run_id: str,
    *,
    policy: Path,
    out: Path,
    ranks: Ranks,
    code: Code = "same",
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
    interruption: Interruption | None = None,
) -> list[Replayed]:
    """Repeat all phases of a run from the policy that it started from."""
    done: list[Replayed] = []
    parent = read_policy_directory(policy)
    for stored in _phases(store, run_id):
        phase, snapshot = _open(store, stored, parent, out, code=code)
        torch.set_num_threads(phase.config.engine.threads)
        connection = store.connect(view="sealed", snapshot=snapshot.name, files="own")
        try:
            engine, state = train(phase, connection, snapshot, ranks, on_row, Stopping(ranks, interruption))
        finally:
            connection.close()
        path = export(phase, engine, state, ranks)
        differences = tuple(compare(stored["rows"], state.rows))
        done.append(Replayed(phase.epoch, state.version, len(state.rows), differences, path))
        if differences:
            break
        parent = read_policy_directory(path)
    return done


def _phases(store: Store, run_id: str) -> list[dict[str, Any]]:
    """What the store holds of each phase of a run, with its rows."""
    with store.connect(view="sealed") as connection:
        found = connection.sql(query("replay_phases"), params={"run_id": run_id}).to_arrow_table().to_pylist()
        for phase in found:
            values = {"run_id": run_id, "shard": phase["shard_id"]}
            phase["rows"] = connection.sql(query("phase_updates"), params=values).to_arrow_table().to_pylist()
        runs = [name for (name,) in connection.execute(query("learn_runs")).fetchall()]
    if not found:
        msg = f"store {store.path} has no finished learn phase of run {run_id!r}; its runs: {', '.join(runs) or 'none'}"
        raise UsageError(msg, hint="a run is named by its config and hash, for example learn-1f2e3d4c")
    return found


def _open(
    store: Store, stored: Mapping[str, Any], parent: PolicyDirectory, out: Path, *, code: Code
) -> tuple[Phase, Snapshot]:
    """The phase as it was, or a StoreError that names all that is not."""
    config = checked(LearnConfig, json.loads(stored["config"]))
    phase = Phase(store, config, method_of(config), parent, out, stored["epoch"])
    first = stored["rows"][0]
    differs = []
    if config.hash() != stored["config_hash"]:
        differs.append("config: this release reads the stored one differently")
    if phase.parent.version != stored["version"]:
        differs.append(f"policy: the phase began at version {stored['version']}, this is version {parent.version}")
        raise _refused(phase, differs)
    snapshot = read_snapshot(store, snapshot_name(phase))
    if snapshot.sha256 != first["snapshot_sha256"]:
        differs.append(f"snapshot: {first['snapshot_sha256'][:12]} then, {snapshot.sha256[:12]} now")
    for name, now in phase_hashes(phase).items():
        then = snapshot.hashes.get(name)
        if then != now:
            word = {"credit_hash": "method", "policy_hash": "policy"}.get(name, name.removesuffix("_hash"))
            differs.append(f"{word}: {str(then)[:12]} then, {str(now)[:12]} now")
    if stored["code_version"] != code_version() and code == "same":
        differs.append(f"code: {stored['code_version']} then, {code_version()} now")
    if differs:
        raise _refused(phase, differs)
    return phase, snapshot


def _refused(phase: Phase, differs: Sequence[str]) -> StoreError:
    msg = f"the phase of epoch {phase.epoch} cannot be repeated as it ran; what differs: {'; '.join(differs)}"
    only_code = all(text.startswith("code") for text in differs)
    hint = "check that code out, or give --other-code to see whether this code does the same"
    return StoreError(msg, hint=hint if only_code else "give the --from and the store that the run had")


def compare(stored: Sequence[Mapping[str, Any]], repeated: Sequence[Mapping[str, Any]]) -> list[str]:
    """Differences between two lists of `updates` rows, timings and provenance left out."""
    columns = [c.name for c in TABLES["updates"].columns if not c.volatile and c.name not in ("run_id", "shard_id")]
    found = []
    if len(stored) != len(repeated):
        found.append(f"{len(repeated)} rows instead of {len(stored)}")
    for old, new in zip(stored, repeated, strict=False):
        for name in columns:
            if name in new and new[name] != old[name]:
                found.append(f"update {old['update']}: {name} {_short(new[name])} instead of {_short(old[name])}")
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
