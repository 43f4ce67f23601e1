"""Sharding: which tasks of an evaluation a process plays, dealt as the published evaluations deal them. Pure functions.

Invariant: for every number of shards each task is in exactly one shard, and neither the sizes of two shards nor their
numbers of tasks of one band differ by more than 1. A shard depends on the order of the tasks and on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from sera_data.errors import UsageError

BAND_ORDER = ("easy", "medium", "hard", "extreme")
T = TypeVar("T")


def deal_shards(items: Sequence[T], bands: Sequence[str], *, of: int) -> tuple[tuple[T, ...], ...]:
    """Items into `of` shards: band after band, round robin, each band starting where the one before it stopped.

    `bands` names the band of each item. Within a shard items keep their order. UsageError for more shards than items.
    """
    if not 1 <= of <= len(items):
        msg = f"{len(items)} tasks can be dealt to 1 to {len(items)} shards, got {of}"
        raise UsageError(msg, hint="use fewer shards")
    shard_of: dict[int, int] = {}
    for position, index in enumerate(_by_band(bands)):
        shard_of[index] = position % of
    shards: list[list[T]] = [[] for _ in range(of)]
    for index, item in enumerate(items):
        shards[shard_of[index]].append(item)
    return tuple(map(tuple, shards))


def _by_band(bands: Sequence[str]) -> list[int]:
    """Indices by band, easiest first; the order within a band is kept."""
    return sorted(range(len(bands)), key=lambda index: band_key(bands[index]))


def band_key(band: str) -> tuple[int, list[tuple[int, int | str]]]:
    """Sort key of band names: easy to extreme, then others with their numbers in numeric order."""
    if band in BAND_ORDER:
        return BAND_ORDER.index(band), []
    parts = re.findall(r"\d+|\D+", band)
    return len(BAND_ORDER), [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def band_counts(bands: Sequence[str]) -> Mapping[str, int]:
    """Number of items per band, easiest first."""
    return {band: bands.count(band) for band in sorted(set(bands), key=band_key)}
