"""Additions to sealed epochs: rows that a run computes later from what is stored, such as labels or new scores.

Invariant: a run finds the plans that it began by its settings, so the same command continues them, alone or beside
others, and what its plans hold is never planned again; a plan is sealed by whoever commits the last of its units.

Run: ``sera label STORE --judge openai:MODEL@URL`` and ``sera refresh rubrics STORE --policy DIR`` make some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import sera_data
from schemas.words import ShardPhase
from sera_data.errors import StoreError
from sera_data.layout import parse_plan_name
from sera_data.plan import Plan, claim_addition, plan_names, read_plan
from sera_data.store import Store

if TYPE_CHECKING:
    from collect.job import Share

State = Literal["open", "all"]
Units = Sequence[dict[str, Any]]


class Settings(Protocol):
    """What is asked for, by which a run knows its plans."""

    @property
    def run_id(self) -> str:
        """Name of the run."""

    def identity(self) -> str:
        """Hash of what is asked for."""


def sealed_epochs(store: Store, wanted: Sequence[int] | None) -> list[int]:
    """Sealed epochs; an addition may only speak of those. StoreError for a wanted one that is not."""
    sealed = sorted({parse_plan_name(name)[0] for name in store.sealed_names() if parse_plan_name(name)[1] is None})
    missing = sorted(set(wanted or ()) - set(sealed))
    if missing or not sealed:
        have = f"sealed are {', '.join(map(str, sealed))}" if sealed else "none is sealed yet"
        named = f"epoch {', '.join(map(str, missing))}" if missing else "epoch"
        msg = f"store {store.path} has no sealed {named}; {have}"
        raise StoreError(msg, hint=f"finish it first: sera data seal {store.path} PLAN")
    return sealed if wanted is None else sorted(wanted)


def additions(store: Store, *, epoch: int | None = None) -> Iterator[Plan]:
    """Plans of additions, in order."""
    for name in plan_names(store):
        of, addition = parse_plan_name(name)
        if addition is not None and (epoch is None or of == epoch):
            yield read_plan(store, name)


def own_additions(store: Store, settings: Settings, state: State) -> list[Plan]:
    """Plans of this very run, in order: `open` ones or `all`."""
    own = (settings.run_id, settings.identity())
    plans = (plan for plan in additions(store) if (plan.run_id, plan.config_hash) == own)
    return [plan for plan in plans if state == "all" or not plan.sealed()]


def claim_additions(
    store: Store,
    units: Mapping[int, Units],
    *,
    settings: Settings,
    phase: ShardPhase,
    policy_hash: Callable[[int], str | None] = lambda epoch: None,
) -> list[Plan]:
    """A plan for the units of each epoch. policy_hash: of the policies that an epoch's units take."""
    return [
        claim_addition(
            store,
            epoch,
            run_id=settings.run_id,
            phase=phase,
            config_hash=settings.identity(),
            policy_hash=policy_hash(epoch),
            units=planned,
        )
        for epoch, planned in units.items()
    ]


def given_units(plan: Plan) -> list[dict[str, Any]]:
    """The units that a plan has given or will give: of one sealed in part, only those that the seal holds."""
    committed = plan.committed() if plan.sealed() else set(plan.unit_ids)
    return [unit for unit in plan.units if unit["unit_id"] in committed]


def owed_units(plan: Plan, part: Share) -> list[dict[str, Any]]:
    """The units of a process's part that nobody has committed."""
    committed = plan.committed()
    return [unit for unit in plan.units[part.index :: part.of] if unit["unit_id"] not in committed]


def seal_complete(plan: Plan) -> bool:
    """Seal a plan when all its units are there; True when they are."""
    complete = plan.committed() == set(plan.unit_ids)
    if complete:
        sera_data.seal(plan.store, plan.name)
    return complete
