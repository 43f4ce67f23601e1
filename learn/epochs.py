"""Which epochs a learn phase can use.

Invariant: only a sealed epoch of a collect phase is trained from; additions are never epochs.
"""

from __future__ import annotations

from sera_data.errors import StoreError
from sera_data.plan import plan_names, read_plan
from sera_data.store import Store


def collect_epochs(store: Store) -> list[int]:
    """Sealed epochs that a collect phase wrote."""
    plans = [read_plan(store, name) for name in store.sealed_names()]
    return sorted(p.epoch for p in plans if p.addition is None and p.phase == "collect")


def choose_epoch(store: Store, epoch: int | None) -> int:
    """The epoch named, or the newest; StoreError when it is not sealed."""
    epochs = collect_epochs(store)
    if epoch is None and epochs:
        return epochs[-1]
    if epoch is None or epoch not in epochs:
        got = "none is sealed" if epoch is None else f"epoch {epoch} is not among them"
        msg = f"store {store.path}: learning wants a sealed collect epoch, {got}; sealed are: {epochs or 'none'}"
        raise StoreError(msg, hint=_seal_hint(store, epoch))
    return epoch


def _seal_hint(store: Store, epoch: int | None) -> str:
    """The command that makes the epoch a sealed one: of an open plan the newest, or the one named."""
    plans = [read_plan(store, name) for name in plan_names(store)]
    waiting = [p for p in plans if p.addition is None and p.phase == "collect" and not p.sealed()]
    wanted = [p for p in waiting if epoch is None or p.epoch == epoch]
    if not wanted:
        return "collect and seal one: sera collect ... --seal"
    plan = max(wanted, key=lambda p: p.epoch)
    missing = len(set(plan.unit_ids) - plan.committed())
    if missing:
        return f"{missing} units of {plan.name} are not collected: run its sera collect again, with --seal"
    return f"sera data seal {store.path} {plan.name}"
