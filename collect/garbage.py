"""Garbage collection while trees are played: rare, and not over what was loaded before.

Invariant: changes when memory comes back, never what is computed; the settings before are there again afterwards. A
job makes many small objects that live as long as a tree, among a million that live for ever (modules, weights, the
tokenizer). Python's own settings go through all of them again and again, an eighth of a job's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (50_000, 20, 20)
"""New containers before a collection of the young, and how many of those make one of the older ones."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Until the block ends what exists now is not looked at, and the rest seldom."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
