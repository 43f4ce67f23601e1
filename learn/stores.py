"""Further stores of a learn phase: what `--with PATH[@EPOCH]` names.

Invariant: of each store one sealed collect epoch is read, the newest unless one is named, with the labels and refreshes
sealed for it so far; trees that two stores share are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

import sera_data
from learn.epochs import choose_epoch
from learn.registered import query
from sera_data.beside import Beside, put_beside
from sera_data.errors import StoreError
from sera_data.plan import plan_names, read_plan
from sera_data.store import Store


def further_stores(texts: Sequence[str]) -> tuple[Beside, ...]:
    """The stores that the texts name, PATH or PATH@EPOCH; StoreError for one without such a sealed epoch."""
    return put_beside([_directories(text) for text in texts])


def _directories(text: str) -> tuple[Store, list[str]]:
    match = re.fullmatch(r"(.+)@([0-9]{1,6})", text)
    store = sera_data.open(match[1] if match else text)
    epoch = choose_epoch(store, int(match[2]) if match else None)
    return store, [f"e{epoch:06d}", *added(store, epoch)]


def added(store: Store, epoch: int) -> list[str]:
    """Sealed additions of an epoch that hold labels or refreshed rubrics and scores."""
    plans = [read_plan(store, name) for name in plan_names(store)]
    return [
        plan.name
        for plan in plans
        if plan.epoch == epoch and plan.addition is not None and plan.phase in ("label", "refresh") and plan.sealed()
    ]


def require_different_trees(connection: duckdb.DuckDBPyConnection) -> None:
    """StoreError when a tree is there twice, as it is when two stores were written by the same run."""
    for tree, count in connection.sql(query("trees_twice")).fetchall():
        msg = f"tree {tree} is in {count} of the stores: they were written by the same run and hold the same trees"
        raise StoreError(msg, hint="leave one of the stores out")
