"""Which delegations a refresh still owes: those that match, less those that its own plans hold.

Invariant: the same settings choose the same delegations whenever they are asked, so a repeated command adds only what
was collected or labelled since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collect.label_selection import sealed_epochs
from collect.policy import Policy
from collect.refresh_config import RefreshConfig
from collect.reselect import query
from sera_data.layout import parse_plan_name
from sera_data.plan import Plan, plan_names, read_plan
from sera_data.store import Store


@dataclass(frozen=True, slots=True)
class RefreshSelection:
    """What is to be judged again. units: by epoch; a unit is {unit_id, delegations: [[tree, delegation], ...]}."""

    delegations: int
    branches: int
    units: Mapping[int, list[dict[str, Any]]]


def select_delegations(store: Store, config: RefreshConfig, scorer: Policy) -> RefreshSelection:
    """The delegations that are owed now."""
    epochs = sealed_epochs(store, config.epochs)
    values = {
        "epochs": epochs,
        "purposes": list(config.purposes),
        "work": config.work,
        "only": config.only,
        "rubrics_of": config.rubrics_of,
        "scorer": scorer.identity.name,
        "version": scorer.identity.version,
    }
    connection = store.connect(epochs=epochs, queries=[query("refresh_pool")])
    try:
        rows = connection.execute(query("refresh_pool"), values).fetchall()
    finally:
        connection.close()
    held = {
        name for plan in own_plans(store, config, "all") for unit in _given(plan) for _, name in unit["delegations"]
    }
    waiting: dict[int, list[tuple[str, str]]] = {}
    branches = 0
    for epoch, tree, delegation, count in rows:
        if delegation not in held:
            waiting.setdefault(epoch, []).append((tree, delegation))
            branches += count
    size = config.delegations_per_unit
    units = {
        epoch: [
            {"unit_id": f"u{start // size:05d}", "delegations": [list(pair) for pair in pairs[start : start + size]]}
            for start in range(0, len(pairs), size)
        ]
        for epoch, pairs in waiting.items()
    }
    return RefreshSelection(sum(map(len, waiting.values())), branches, units)


def own_plans(store: Store, config: RefreshConfig, state: str) -> list[Plan]:
    """Plans of this very run, in order: `open` ones or `all`."""
    names = [name for name in plan_names(store) if parse_plan_name(name)[1] is not None]
    plans = [read_plan(store, name) for name in names]
    own = [plan for plan in plans if (plan.run_id, plan.config_hash) == (config.run_id, config.identity())]
    return [plan for plan in own if state == "all" or not plan.sealed()]


def _given(plan: Plan) -> list[dict[str, Any]]:
    """The units that a plan has given or will give: of one sealed in part, only those that the seal holds."""
    committed = plan.committed() if plan.sealed() else set(plan.unit_ids)
    return [unit for unit in plan.units if unit["unit_id"] in committed]
