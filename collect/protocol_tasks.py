"""The tasks of a protocol: from a file or built, filtered and put in the published order.

Invariant: what a protocol plays is checked against the published set it names: other numbers of tasks per band are
refused; the same goals with other inventories, and other goals in the same numbers, are played and said to be so.

Run: ``sera eval run --protocol textcraft-632 --tasks textcraft_synth_val.jsonl --policy pocket --store S --dry-run``.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from collect.dealing import task_set_hash
from collect.protocol import Protocol
from collect.sharding import band_counts
from collect.task_file import import_published, read_tasks
from collect.tasks import require_playable, select_tasks
from collect.world import Task, World
from collect.world_config import WorldConfig
from collect.worlds import open_world
from sera_data.canonical import sha256_text
from sera_data.errors import UsageError

BUILDERS: Mapping[str, str] = {
    "textcraft": "collect.textcraft_tasks:build_tasks",
    "textworld": "collect.textworld_tasks:build_tasks",
}
Source = Literal["published", "same goals", "own"]


@dataclass(frozen=True, slots=True)
class ProtocolTasks:
    """The tasks that are played, and how they stand to the published set: the same, the same goals, or our own.

    bands: band of the report by task id. true_depths: by task id; None where the world has no measure.
    """

    tasks: tuple[Task, ...]
    source: Source
    task_set: str
    bands: Mapping[str, str]
    true_depths: Mapping[str, int | None]

    def counts(self) -> Mapping[str, int]:
        """Tasks per band, easiest first."""
        return band_counts(list(self.bands.values()))


def protocol_tasks(protocol: Protocol, path: Path | None) -> ProtocolTasks:
    """Tasks of a protocol from a file, or built; UsageError when they are not the ones that the protocol names."""
    found = _given(protocol, path)
    source = _source(protocol, found, path)
    depths = true_depths(found, world=open_world(protocol.world, profile=protocol.profile))
    chosen = _chosen(protocol, found, depths)
    if not chosen:
        msg = f"protocol {protocol.name}: its filters leave no task of {path or 'those built'}"
        raise UsageError(msg, hint="'sera eval protocols --json' shows the filters")
    return dealt_tasks(chosen, source=source, bands=protocol.tasks.bands, depths=depths)


def dealt_tasks(
    tasks: Sequence[Task],
    *,
    source: Source,
    bands: Literal["difficulty", "true_depth"] = "difficulty",
    depths: Mapping[str, int | None],
) -> ProtocolTasks:
    """Chosen tasks with their bands and depths."""
    by_depth = bands == "true_depth"
    named = {task.task_id: f"depth {depths[task.task_id]}" if by_depth else task.difficulty for task in tasks}
    kept = {task.task_id: depths[task.task_id] for task in tasks}
    return ProtocolTasks(tuple(tasks), source, task_set_hash(tasks), named, kept)


def build_for(world: str, params: Mapping[str, Any]) -> list[Task]:
    """Tasks built by a world's own builder; UsageError for a world without one."""
    if world not in BUILDERS:
        msg = f"tasks of world {world!r} cannot be built here; allowed: {', '.join(BUILDERS)}"
        raise UsageError(msg, hint="give --tasks FILE")
    module, _, name = BUILDERS[world].partition(":")
    build: Callable[[Mapping[str, Any]], list[Task]] = getattr(import_module(module), name)
    return build(params)


def read_any(path: Path, *, profile: str | None = None) -> list[Task]:
    """Tasks of a file in our form, or of a published file as it is; records become tasks of `profile`."""
    try:
        with path.open("rb") as handle:
            first = json.loads(next((line for line in handle if line.strip()), b"null"))
    except (OSError, ValueError, RecursionError):
        return read_tasks(path, profile=profile)  # says what is wrong, with the line
    if isinstance(first, dict) and "misc" in first:
        return import_published(path)
    return read_tasks(path, profile=profile)


def goal_hash(tasks: Sequence[Task]) -> str:
    """Hash of the goals of tasks with typed targets, whatever their inventories; of their goal texts otherwise."""
    lines = []
    for task in tasks:
        targets = task.spec.get("targets")
        if isinstance(targets, Mapping):
            lines += [f"{item} {count}" for item, count in targets.items()]
        else:
            lines.append(task.goal)
    return sha256_text("\n".join(sorted(lines)))


def true_depths(tasks: Sequence[Task], *, world: World[Any]) -> dict[str, int | None]:
    """True depth by task id; None where the world has no measure."""
    measure: Callable[[Task], int | None] | None = getattr(world, "true_depth", None)
    return {task.task_id: None if measure is None else measure(task) for task in tasks}


def _given(protocol: Protocol, path: Path | None) -> list[Task]:
    world = WorldConfig(name=protocol.world, profile=protocol.profile)
    if path is not None:
        tasks = select_tasks(read_any(path, profile=protocol.profile), world, source=str(path))
        require_playable(tasks, open_world(world.name, profile=world.profile), source=str(path))
        return _in_order(tasks)
    if protocol.tasks.build is None:
        msg = f"protocol {protocol.name} has no tasks of its own"
        raise UsageError(msg, hint="give --tasks FILE")
    tasks = select_tasks(build_for(protocol.world, protocol.tasks.build), world, source=f"protocol {protocol.name}")
    return _in_order(tasks)


def _in_order(tasks: Sequence[Task]) -> list[Task]:
    """By the index in published ids like `set.val.12` where all have one, else as given."""
    found = [re.fullmatch(r"[^.]+\.[^.]+\.(\d+)", task.upstream_id or "") for task in tasks]
    if not all(found):
        return list(tasks)
    return sorted(tasks, key=lambda task: int((task.upstream_id or "").rpartition(".")[2]))


def _source(protocol: Protocol, tasks: Sequence[Task], path: Path | None) -> Source:
    """How the tasks stand to the published ones; other numbers per band than published are refused."""
    published = protocol.tasks.published
    if published is None:
        return "own"
    if published.task_set is not None and task_set_hash(tasks) == published.task_set:
        return "published"
    if published.goal_set is not None and goal_hash(tasks) == published.goal_set:
        return "same goals"
    counts = dict(band_counts([task.difficulty for task in tasks]))
    if counts == published.bands:
        return "own"
    have, want = (", ".join(f"{band} {n}" for band, n in each.items()) for each in (counts, published.bands))
    where = str(path) if path else f"protocol {protocol.name}"
    ours = f"{published.n_tasks} of protocol {protocol.name} ({want})"
    msg = f"{where}: these {len(tasks)} tasks ({have}) are not the {ours}"
    raise UsageError(msg, hint="give the published file, or evaluate these tasks without --protocol")


def _chosen(protocol: Protocol, tasks: list[Task], depths: Mapping[str, int | None]) -> list[Task]:
    rule = protocol.tasks
    if rule.difficulties is not None:
        tasks = [task for task in tasks if task.difficulty in rule.difficulties]
    if rule.per_true_depth is not None or rule.bands == "true_depth":
        tasks = _per_depth(protocol, tasks, depths)
    if rule.shuffle_seed is not None:
        tasks = list(tasks)
        random.Random(rule.shuffle_seed).shuffle(tasks)
    return tasks if rule.first is None else tasks[: rule.first]


def _per_depth(protocol: Protocol, tasks: list[Task], depths: Mapping[str, int | None]) -> list[Task]:
    """At most `per_true_depth` tasks of each true depth, in order."""
    if None in depths.values():
        msg = f"protocol {protocol.name} selects by true depth, which world {protocol.world!r} does not measure"
        raise UsageError(msg)
    seen: Counter[int | None] = Counter()
    kept = []
    for task in tasks:
        depth = depths[task.task_id]
        seen[depth] += 1
        if protocol.tasks.per_true_depth is None or seen[depth] <= protocol.tasks.per_true_depth:
            kept.append(task)
    return kept
