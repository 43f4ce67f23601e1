"""Training the rubric stage on refreshed rubrics, and the delegations that are kept for the audit.

Invariant: refreshed rubrics are read only when their run is named, and then nothing else is; rubrics of one delegation
compete with each other. A task is held out by its id alone, so no delegation of it is ever trained, whichever run wrote
its rubrics.

Run: ``sera learn --stage rubric --refresh rubrics-1f2e3d4c --store STORE --from POLICY --out DIR``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb

from learn.config import LearnConfig
from learn.method import open_method
from learn.registered import query
from learn.rule import Method, Rule
from sera_data.errors import ConfigError, StoreError
from sera_data.plan import plan_names, read_plan
from sera_data.store import Store


def method_of(config: LearnConfig) -> Method:
    """The method of a learn phase, with its own credit file and refresh run."""
    method = open_method(config.method)
    method = method.with_credit(Path(config.credit)) if config.credit else method
    return on_refreshed(method, config.refresh) if config.refresh else method


def on_refreshed(method: Method, run_id: str) -> Method:
    """The same method whose rubric stage is paid by the rubrics and scores of a refresh run."""
    if not any("refresh" in dict(rule.params) for rule in method.rules):
        msg = f"method {method.name!r} has no rubric credit that reads refreshed rubrics"
        raise ConfigError(msg, hint="methods with the shipped rubric rule do, for example --method sera")
    return replace(method, rules=tuple(_refreshed(rule, run_id) for rule in method.rules))


def _refreshed(rule: Rule, run_id: str) -> Rule:
    params = dict(rule.params)
    if "refresh" not in params:
        return rule
    return replace(rule, params=tuple(sorted({**params, "refresh": run_id, "baseline": "delegation"}.items())))


def require_refresh(store: Store, run_id: str | None, epoch: int) -> None:
    """StoreError unless the epoch has a sealed addition of that refresh run; None asks for none."""
    if run_id is None:
        return
    plans = [read_plan(store, name) for name in plan_names(store)]
    plans = [plan for plan in plans if plan.phase == "refresh" and plan.epoch == epoch]
    own = [plan for plan in plans if plan.run_id == run_id]
    if any(plan.sealed() for plan in own):
        return
    if own:
        msg = f"refresh {run_id} of epoch {epoch} is not finished: plan {own[0].name} is not sealed"
        raise StoreError(msg, hint="run its sera refresh command again")
    found = sorted({plan.run_id for plan in plans if plan.sealed() and plan.run_id.startswith("rubrics-")})
    msg = f"store {store.path} has no refresh {run_id!r} of epoch {epoch}; finished ones: {', '.join(found) or 'none'}"
    raise StoreError(msg, hint="sera refresh rubrics STORE --policy POLICY --k 4 makes one and prints its name")


def held_out(connection: duckdb.DuckDBPyConnection, share: float) -> frozenset[str]:
    """Ids of the tasks of a snapshot that a share holds out."""
    if not share:
        return frozenset()
    return frozenset(task for (task,) in connection.execute(query("held_out"), {"share": share}).fetchall())
