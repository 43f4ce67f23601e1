"""Which delegations a refresh still owes: those that match, less those that its own plans hold.

Invariant: the same settings choose the same delegations whenever they are asked, so a repeated command adds only what
was collected or labelled since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collect.addition import given_units, own_additions, sealed_epochs
from collect.policy import Policy
from collect.refresh_config import RefreshConfig
from collect.reselect import query
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
    own = own_additions(store, config, "all")
    held = {name for plan in own for unit in given_units(plan) for _, name in unit["delegations"]}
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
