"""A rehearsal of a learn phase: the batches that each update would get, without torch and without a trace.

Invariant: reads the store only, through the same credit, schedule and batches as the phase; a stage that would end the
phase is shown with its reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sera_data
from collect.policy_directory import read_policy_directory
from learn.config import LearnConfig
from learn.epochs import choose_epoch
from learn.feed import Feed, schedule_of
from learn.given_logprobs import require_run
from learn.refreshed import require_refresh
from learn.rule import Method
from learn.stores import further_stores
from sera_data.config import run_id
from sera_data.duck import confine, connect
from sera_data.listing import list_beside


def rehearse(store: Path, config: LearnConfig, method: Method, policy: Path, epoch: int | None) -> dict[str, Any]:
    """What a phase would do, as plain JSON values."""
    opened = sera_data.open(store)
    parent = read_policy_directory(policy)
    chosen = choose_epoch(opened, epoch)
    require_refresh(opened, config.refresh, chosen)
    require_run(opened, config.logprobs, chosen)
    listing = list_beside(opened.listing(view="sealed", epochs=[chosen]), further_stores(config.stores))
    with connect(listing) as connection:
        confine(connection, listing)
        feed = Feed(
            connection,
            config=config,
            method=method,
            epoch=chosen,
            start=parent.version,
            tokenizer_sha256=parent.tokenizer_sha256,
            policy=parent.path,
        )
        updates = _updates(feed, config, parent.version)
    return {
        "run_id": run_id(config.name, config),
        "epoch": chosen,
        "policy": {"path": str(policy), "version": parent.version},
        "schedule": str(schedule_of(config, method)),
        "updates": updates,
        "dropped": {s: sum(d.stage == s for d in feed.credit.dropped) for s in method.stages},
        "config": config.resolved(),
    }


def _updates(feed: Feed, config: LearnConfig, version: int) -> list[dict[str, Any]]:
    consumed: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    while len(rows) < config.updates_per_collect:
        meal = feed.next(version=version, done=len(rows), consumed=consumed)
        stage = "joint" if meal.joint else meal.stage
        row = {"version": version, "stage": stage, "groups": len(meal.groups), "datums": len(meal.datums)}
        tokens = {"tokens": sum(map(len, meal.datums)), "trained": sum(d.n_trained for d in meal.datums)}
        rows.append({**row, **tokens, **({"skip_reason": meal.skip_reason} if meal.skip_reason else {})})
        for stage, n in meal.taken.items():
            consumed[stage] = consumed.get(stage, 0) + n
        version += bool(meal.datums)
        if meal.exhausted:
            break
    return rows
