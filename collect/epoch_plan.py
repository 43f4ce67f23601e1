"""The plan of an epoch that is named beforehand, for jobs that are written before they run.

Invariant: a process that is started again after its epoch was sealed finds that epoch and nothing to do; it never
begins the next one.
"""

from __future__ import annotations

from typing import Any

from sera_data.errors import StoreError
from sera_data.layout import parse_plan_name, plan_name
from sera_data.plan import Plan, claim_plan, plan_names, read_plan
from sera_data.store import Store


def claim_epoch(store: Store, epoch: int | None, **wanted: Any) -> Plan:
    """`claim_plan`; with an epoch, the plan of that one: this run's, sealed or not, or claimed now as the next.

    StoreError when the epoch is another run's, or not the next.
    """
    if epoch is None:
        return claim_plan(store, **wanted)
    names = [name for name in plan_names(store) if parse_plan_name(name)[1] is None]
    if plan_name(epoch) in names:
        plan = read_plan(store, plan_name(epoch))
        differ = [key for key in ("run_id", "phase", "config_hash", "policy_hash") if getattr(plan, key) != wanted[key]]
        if differ:
            told = ", ".join(f"{key} {getattr(plan, key)}, got {wanted[key]}" for key in differ)
            msg = f"epoch {epoch} of store {store.path} belongs to another job: {told}"
            raise StoreError(msg, hint="give the config and the policy that it was begun with, or another --epoch")
        return plan
    following = 1 + max((parse_plan_name(name)[0] for name in names), default=-1)
    claimed = claim_plan(store, **wanted) if epoch == following else None
    if claimed is None or claimed.epoch != epoch:
        found = following if claimed is None else claimed.epoch
        msg = f"epoch {epoch} was asked for, but the one to collect now in store {store.path} is {found}"
        raise StoreError(msg, hint=f"give --epoch {found}, or leave it out")
    return claimed
