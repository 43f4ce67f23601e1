"""Plans: which work units an epoch, or an addition to it, consists of.

Invariant: epoch numbers belong to the store. A plan is claimed by creating its file, which succeeds for one process
only; every other process of the same run finds that plan, so a restart and a second collector continue it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from schemas.words import SHARD_PHASES
from sera_data.documents import dump_document, read_document, require_shape
from sera_data.errors import StoreError
from sera_data.layout import is_plan_name, parse_plan_name, plan_name, require_unit_id, shard_plan
from sera_data.place import Place
from sera_data.store import Store


@dataclass(frozen=True)
class Plan:
    """One plan as stored. `units` are the planner's own dicts, each with a `unit_id`.

    about: what the planner says of itself, so that a mismatch can be explained; it names nothing.
    """

    store: Store
    name: str
    epoch: int
    addition: int | None
    run_id: str
    phase: str
    policy_hash: str | None
    config_hash: str
    units: tuple[dict[str, Any], ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Place:
        """The plan's file."""
        return self.store.layout.plan_file(self.name)

    @cached_property
    def unit_ids(self) -> tuple[str, ...]:
        """Unit ids in planned order."""
        return tuple(unit["unit_id"] for unit in self.units)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.unit_ids)

    def shard_id(self, unit_id: str) -> str:
        """Shard that commits a unit; StoreError for a unit outside the plan."""
        if unit_id not in self._known:
            msg = f"plan {self.name} has no unit {unit_id!r}; it has {_shown(self.unit_ids)}"
            raise StoreError(msg, hint="commit units of the plan, or claim a plan that names this one")
        return f"{self.name}.{unit_id}"

    def sealed(self) -> bool:
        """True when the plan's directory in `epochs/` exists; it takes no more units then."""
        return self.store.medium.published(self.store.layout.epochs / self.name)

    def committed(self) -> set[str]:
        """Units whose shards are committed, here or in the seal."""
        if self.sealed():
            shards = self.store.seal_document(self.name)["shards"]
        else:
            shards = [shard for shard in self.store.shard_ids() if shard_plan(shard) == self.name]
        return {shard.rpartition(".")[2] for shard in shards}

    def has_committed(self, unit_id: str) -> bool:
        """True when that unit is committed; cheaper than `committed()` for one unit of many."""
        shard = self.shard_id(unit_id)
        if self.sealed():
            return shard in self.store.seal_document(self.name)["shards"]
        return self.store.medium.published(self.store.layout.shards / shard)

    def lock(self, mode: Literal["shared", "exclusive"]) -> AbstractContextManager[None]:
        """Keep the plan's commits (shared) and its seal (exclusive) apart, where the medium has locks."""
        return self.store.medium.lock(self.path, mode)


def claim_plan(
    store: Store,
    *,
    run_id: str,
    phase: str,
    config_hash: str,
    units: Sequence[Mapping[str, Any]],
    policy_hash: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> Plan:
    """Claim the store's next epoch, or return this run's plan that is not sealed yet.

    >>> plan = claim_plan(store, run_id="demo-1f2e3d4c", phase="collect", policy_hash="ab..", config_hash="cd..",
    ...                   units=[{"unit_id": "u0000", "purpose": "execution"}])   # doctest: +SKIP
    """
    body = _body(run_id=run_id, phase=phase, policy_hash=policy_hash, config_hash=config_hash, units=units)
    body["about"] = dict(about or {})
    while True:
        names = [name for name in plan_names(store) if parse_plan_name(name)[1] is None]
        own = _own_plan(store, names, body)
        if own is not None:
            return own
        epoch = 1 + max((parse_plan_name(name)[0] for name in names), default=-1)
        claimed = _claim(store, plan_name(epoch), body)
        if claimed is not None:
            return claimed


def claim_addition(
    store: Store,
    epoch: int,
    *,
    run_id: str,
    phase: str,
    config_hash: str,
    units: Sequence[Mapping[str, Any]],
    policy_hash: str | None = None,
) -> Plan:
    """Claim the next addition `e000003.a001` to an epoch, or return this run's one that is not sealed yet.

    Rows that come after the seal (labels, refreshed rubrics and scores, updates, evals) are additions.
    """
    body = _body(run_id=run_id, phase=phase, policy_hash=policy_hash, config_hash=config_hash, units=units)
    if not store.layout.plan_file(plan_name(epoch)).exists():
        msg = f"store {store.path} has no epoch {epoch}; an addition needs the epoch it adds to"
        raise StoreError(msg, hint="sera data ls STORE lists the epochs")
    while True:
        names = [n for n in plan_names(store) if parse_plan_name(n)[0] == epoch and parse_plan_name(n)[1] is not None]
        own = _own_plan(store, names, body)
        if own is not None:
            return own
        addition = 1 + max((parse_plan_name(name)[1] or 0 for name in names), default=0)
        claimed = _claim(store, plan_name(epoch, addition), body)
        if claimed is not None:
            return claimed


def plan_names(store: Store) -> list[str]:
    """Names of all plans, in order of epoch and addition."""
    names = [path.stem for path in store.layout.plans.glob("*.json") if is_plan_name(path.stem)]
    return sorted(names, key=lambda name: (parse_plan_name(name)[0], parse_plan_name(name)[1] or 0))


def read_plan(store: Store, name: str) -> Plan:
    """The plan of that name."""
    epoch, addition = parse_plan_name(name)
    path = store.layout.plan_file(name)
    body = read_document(path, kind="plan", hint="sera data ls STORE lists the plans")
    require_shape(body, path, kind="plan")
    return Plan(
        store=store,
        name=name,
        epoch=epoch,
        addition=addition,
        run_id=body["run_id"],
        phase=body["phase"],
        policy_hash=body["policy_hash"],
        config_hash=body["config_hash"],
        units=tuple(body["units"]),
        about=body.get("about", {}),
    )


def _body(
    *, run_id: str, phase: str, policy_hash: str | None, config_hash: str, units: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    if phase not in SHARD_PHASES:
        msg = f"phase {phase!r} is not one of {', '.join(SHARD_PHASES)}"
        raise StoreError(msg)
    ids = [require_unit_id(str(unit.get("unit_id", ""))) for unit in units]
    if not ids or len(set(ids)) != len(ids):
        msg = f"a plan needs at least one unit and distinct unit ids, got {_shown(ids)}"
        raise StoreError(msg)
    return {
        "run_id": run_id,
        "phase": phase,
        "policy_hash": policy_hash,
        "config_hash": config_hash,
        "units": [dict(unit) for unit in units],
    }


def _own_plan(store: Store, names: Sequence[str], body: Mapping[str, Any]) -> Plan | None:
    for name in names:
        plan = read_plan(store, name)
        same = all(getattr(plan, key) == body[key] for key in ("run_id", "phase", "config_hash"))
        if not same or plan.sealed():
            continue
        if plan.policy_hash != body["policy_hash"]:
            msg = (
                f"plan {name} of run {plan.run_id} is not sealed and was made for policy {plan.policy_hash},"
                f" got policy {body['policy_hash']}: two policies must not share an epoch"
            )
            raise StoreError(
                msg, hint=f"finish it with its own policy, or close it: sera data seal STORE {name} --partial"
            )
        return plan
    return None


def _claim(store: Store, name: str, body: Mapping[str, Any]) -> Plan | None:
    document = {**body, "name": name, "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    taken = not store.medium.publish_file(store.layout.plan_file(name), dump_document(document))
    return None if taken else read_plan(store, name)


def _shown(ids: Sequence[str]) -> str:
    return ", ".join(ids[:8]) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "") or "none"
