"""The trajectory store: `import sera_data as sd; store = sd.open(path); store.nodes.pl()`.

Invariant: importing this package is cheap; PyArrow, DuckDB and Polars load when a name that needs them is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sera_data.content import content_hash
    from sera_data.garbage import collect_garbage
    from sera_data.plan import Plan, claim_addition, claim_plan, read_plan
    from sera_data.sealing import SealResult, seal
    from sera_data.snapshot import Snapshot, read_snapshot, take_snapshot
    from sera_data.store import Store
    from sera_data.store import create_store as create
    from sera_data.store import open_store as open
    from sera_data.verification import verify
    from sera_data.writer import CommitResult, ShardWriter

_PLACES = {
    "open": ("sera_data.store", "open_store"),
    "create": ("sera_data.store", "create_store"),
    "Store": ("sera_data.store", "Store"),
    "Plan": ("sera_data.plan", "Plan"),
    "claim_plan": ("sera_data.plan", "claim_plan"),
    "claim_addition": ("sera_data.plan", "claim_addition"),
    "read_plan": ("sera_data.plan", "read_plan"),
    "ShardWriter": ("sera_data.writer", "ShardWriter"),
    "CommitResult": ("sera_data.writer", "CommitResult"),
    "seal": ("sera_data.sealing", "seal"),
    "SealResult": ("sera_data.sealing", "SealResult"),
    "take_snapshot": ("sera_data.snapshot", "take_snapshot"),
    "read_snapshot": ("sera_data.snapshot", "read_snapshot"),
    "Snapshot": ("sera_data.snapshot", "Snapshot"),
    "verify": ("sera_data.verification", "verify"),
    "collect_garbage": ("sera_data.garbage", "collect_garbage"),
    "content_hash": ("sera_data.content", "content_hash"),
}

__all__ = [
    "CommitResult",
    "Plan",
    "SealResult",
    "ShardWriter",
    "Snapshot",
    "Store",
    "claim_addition",
    "claim_plan",
    "collect_garbage",
    "content_hash",
    "create",
    "open",
    "read_plan",
    "read_snapshot",
    "seal",
    "take_snapshot",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        msg = f"module 'sera_data' has no attribute {name!r}"
        raise AttributeError(msg)
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
