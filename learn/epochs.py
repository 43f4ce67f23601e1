"""Which epochs a learn phase can use.

Invariant: only a sealed epoch of a collect phase is trained from; additions are never epochs.
"""

from __future__ import annotations

from sera_data.errors import StoreError
from sera_data.plan import read_plan
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
        raise StoreError(msg, hint="collect and seal one: sera collect ... --seal")
    return epoch
