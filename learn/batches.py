"""Batches: which groups each update of a learn phase trains on.

Invariant: a pure function of (groups, seed, epoch, stage, updates). The order of groups comes from a hash and never
from the order of files or rows; within a phase every group is used `reuse` times, never twice in one update, and the
updates of a stage differ by at most one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from learn.schedule import Schedule
from schemas.words import Stage
from sera_data.canonical import sha256_json


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups of the update that takes `version` to `version + 1`. Empty groups: the stage has none left."""

    version: int
    stage: Stage
    group_ids: tuple[str, ...]


def order_groups(groups: Iterable[str], *, seed: int, epoch: int, stage: Stage, reuse: int = 1) -> tuple[str, ...]:
    """The sequence in which a phase consumes the groups of a stage: `reuse` passes, each in a hashed order."""
    if reuse < 1:
        msg = f"reuse must be 1 or more, got {reuse}"
        raise ValueError(msg)
    distinct = sorted(set(groups))
    return tuple(
        group
        for turn in range(reuse)
        for group in sorted(distinct, key=lambda g: sha256_json([seed, epoch, stage, turn, g]))
    )


def next_groups(sequence: Sequence[str], *, consumed: int, updates_left: int) -> tuple[str, ...]:
    """The next update's groups: an even share of what is left over the phase's remaining updates of the stage.

    `consumed` counts the elements of `sequence` taken by earlier updates or skips. Fewer are taken where a second
    pass would put a group twice into one update.
    """
    if updates_left < 1:
        msg = f"updates_left must be 1 or more, got {updates_left}"
        raise ValueError(msg)
    rest = sequence[consumed:]
    share = rest[: -(-len(rest) // updates_left)]
    for index, group in enumerate(share):
        if group in share[:index]:
            return tuple(share[:index])
    return tuple(share)


def plan_batches(
    schedule: Schedule,
    groups: Mapping[Stage, Iterable[str]],
    *,
    version: int,
    n_updates: int,
    seed: int,
    epoch: int,
    reuse: int = 1,
) -> list[Batch]:
    """Batches of the updates `version .. version + n_updates - 1` when none is skipped."""
    left = schedule.updates(version, n_updates)
    order = {s: order_groups(groups.get(s, ()), seed=seed, epoch=epoch, stage=s, reuse=reuse) for s in left}
    consumed: dict[Stage, int] = dict.fromkeys(left, 0)
    batches = []
    for v in range(version, version + n_updates):
        stage = schedule.stage_at(v)
        chosen = next_groups(order[stage], consumed=consumed[stage], updates_left=left[stage])
        batches.append(Batch(v, stage, chosen))
        consumed[stage] += len(chosen)
        left[stage] -= 1
    return batches
