"""Given log-probabilities: those of a recomputation run, in place of the ones that the engine stored.

Invariant: a phase takes all of them from the one run that is named, or none; a trained turn without one is refused by
name before the first update. The run is part of the config and of the snapshot's hashes, so a replay takes them again.

Run: ``sera learn --logprobs logprobs-1f2e3d4c --store STORE --from POLICY --out DIR``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb
import pyarrow as pa

from learn.credit import Credit
from learn.logprobs_config import PREFIX
from learn.registered import Registered, query
from schemas.words import Stage
from sera_data.errors import StoreError
from sera_data.plan import plan_names, read_plan
from sera_data.store import Store

AGAIN = "run its sera refresh logprobs command again: it computes what is missing"


def require_run(store: Store, run_id: str | None, epoch: int) -> None:
    """StoreError unless the epoch has a sealed addition of that recomputation run; None asks for none."""
    if run_id is None:
        return
    plans = [read_plan(store, name) for name in plan_names(store)]
    plans = [plan for plan in plans if plan.epoch == epoch and plan.run_id.startswith(f"{PREFIX}-")]
    own = [plan for plan in plans if plan.run_id == run_id]
    unfinished = [plan.name for plan in own if not plan.sealed()]
    if own and not unfinished:
        return
    if own:
        msg = f"recomputation {run_id} of epoch {epoch} is not finished: plan {unfinished[0]} is not sealed"
        raise StoreError(msg, hint=AGAIN)
    found = ", ".join(sorted({plan.run_id for plan in plans if plan.sealed()})) or "none"
    msg = f"store {store.path} has no recomputed log-probabilities {run_id!r} of epoch {epoch}; finished runs: {found}"
    raise StoreError(msg, hint="sera refresh logprobs STORE --policy behaviour computes some and prints their name")


def require_given(credit: Credit, run_id: str | None, groups: Mapping[Stage, Iterable[str]]) -> None:
    """StoreError that names a turn which the groups train and the run has no log-probabilities for."""
    if run_id is None:
        return
    pairs = [(stage, group) for stage, names in groups.items() for group in sorted(set(names))]
    trained = pa.table(
        {name: pa.array([pair[i] for pair in pairs], pa.string()) for i, name in enumerate(("stage", "group_id"))}
    )
    with Registered(credit.connection, "trained", trained):
        rows = credit.connection.execute(query("logprobs_missing"), {"run_id": run_id}).fetchall()
    if rows:
        parts = [
            f"{n} {'turn' if n == 1 else 'turns'} of stage {stage}, the first is {turn}" for stage, n, turn in rows
        ]
        msg = f"recomputation {run_id} has no log-probabilities for {'; '.join(parts)}"
        raise StoreError(msg, hint=f"{AGAIN}; or leave these turns out with --where")


def given_logprobs(
    connection: duckdb.DuckDBPyConnection, run_id: str | None, turn_ids: Iterable[str]
) -> pa.Table | None:
    """The run's log-probabilities of some turns: turn_id and logprobs, a row per turn it has; None without a run."""
    if run_id is None:
        return None
    wanted = pa.table({"turn_id": pa.array(sorted(set(turn_ids)), pa.string())})
    with Registered(connection, "wanted", wanted):
        return connection.sql(query("logprobs_given"), params={"run_id": run_id}).to_arrow_table()
