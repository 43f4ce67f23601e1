"""Dealing: tasks of an epoch into groups, groups into work units, units to processes. Pure functions.

Invariant: a group (one task with all its samples) never crosses a unit, a task occurs at most once in an epoch, and
the deal depends only on config, task set and epoch, so that every process of a job and every restart agrees on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collect.config import GroupCount
from collect.world import Task
from schemas.words import Purpose
from sera_data.canonical import sha256_json
from sera_data.errors import UsageError


@dataclass(frozen=True, slots=True)
class UnitSlot:
    """A unit before its tasks are known: what the plan in the store names."""

    unit_id: str
    purpose: Purpose
    n_groups: int


@dataclass(frozen=True, slots=True)
class Group:
    """All samples of one task at one policy version."""

    task: Task
    purpose: Purpose
    n_samples: int


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """Groups that one collector plays and commits as one shard."""

    unit_id: str
    purpose: Purpose
    groups: tuple[Group, ...]


def resolve_counts(counts: Mapping[Purpose, GroupCount], *, n_tasks: int) -> dict[Purpose, int]:
    """Numbers of groups with 'all' replaced by the tasks left; refuses more groups than tasks."""
    fixed = sum(count for count in counts.values() if count != "all")
    if fixed > n_tasks or not n_tasks:
        wanted = ", ".join(f"{purpose}={count}" for purpose, count in counts.items() if count)
        msg = f"too few tasks: {wanted} wants at least {max(fixed, 1)} different tasks, got {n_tasks}"
        raise UsageError(msg, hint="ask for fewer groups, or give more tasks (sera tasks build)")
    return {purpose: n_tasks - fixed if count == "all" else count for purpose, count in counts.items()}


def lay_out(counts: Mapping[Purpose, int], *, groups_per_unit: int) -> tuple[UnitSlot, ...]:
    """Units in order of purpose, each of one purpose only; the last of a purpose may be smaller."""
    sizes = [
        (purpose, min(groups_per_unit, count - start))
        for purpose, count in counts.items()
        for start in range(0, count, groups_per_unit)
    ]
    return tuple(UnitSlot(f"u{index:04d}", purpose, size) for index, (purpose, size) in enumerate(sizes))


def task_set_hash(tasks: Sequence[Task]) -> str:
    """Hash of the tasks a job may draw from, whatever their order."""
    return sha256_json(sorted(task.task_id for task in tasks))[:16]


def draw_tasks(tasks: Sequence[Task], n: int, *, seed: int, epoch: int) -> tuple[Task, ...]:
    """`n` different tasks by a keyed hash: another epoch or seed draws anew, the order given does not matter."""
    if n > len(tasks):
        msg = f"too few tasks: wants {n} different tasks, got {len(tasks)}"
        raise UsageError(msg, hint="ask for fewer groups, or give more tasks (sera tasks build)")
    return tuple(sorted(tasks, key=lambda task: sha256_json([seed, epoch, task.task_id]))[:n])


def deal(slots: Sequence[UnitSlot], tasks: Sequence[Task], *, n_samples: int) -> tuple[WorkUnit, ...]:
    """Hand the drawn tasks to the units in order."""
    rest = iter(tasks)
    return tuple(
        WorkUnit(
            slot.unit_id,
            slot.purpose,
            tuple(Group(next(rest), slot.purpose, n_samples) for _ in range(slot.n_groups)),
        )
        for slot in slots
    )


def share(units: Sequence[WorkUnit], *, index: int, of: int) -> tuple[WorkUnit, ...]:
    """Units of process `index` of `of`; every unit belongs to exactly one process."""
    return tuple(units[index::of])
