"""The tasks of a job: read from a file or built from parameters, then filtered.

Invariant: every task is of the world and profile that the config names, so no group is played under other rules than
its id stands for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from collect.config import CollectConfig
from collect.task_file import read_tasks
from collect.task_query import chosen_ids, stored_tasks
from collect.textcraft_tasks import build_tasks
from collect.textworld_tasks import TextWorldParams, tasks_of
from collect.world import Task, World
from collect.world_config import WorldConfig
from collect.worlds import open_world
from sera_data.errors import ConfigError


def load_tasks(config: CollectConfig) -> list[Task]:
    """Tasks that the config names and its filters leave."""
    tasks = _all_tasks(config)
    query = config.world.chosen
    if query is None or config.world.tasks is None:
        return tasks
    ids = chosen_ids(query)
    kept = [task for task in tasks if task.task_id in ids]
    if not kept:
        msg = f"none of the {len(tasks)} tasks of world.tasks is among the {len(ids)} that the tasks SQL chose"
        raise ConfigError(msg, hint="leave world.tasks out to play the stored tasks themselves")
    return kept


def _all_tasks(config: CollectConfig) -> list[Task]:
    world = config.world
    if world.tasks is None and world.chosen is not None:
        source = f"tasks SQL on {world.chosen.store}"
        tasks = select_tasks(stored_tasks(world.chosen), world, source=source)
        require_playable(tasks, open_world(world.name, profile=world.profile), source=source)
        return tasks
    if world.tasks is None:
        msg = "no tasks: world.tasks is not set"
        raise ConfigError(msg, hint="give --tasks FILE or --tasks-sql FILE, or set world.tasks to build parameters")
    if isinstance(world.tasks, str):
        tasks = select_tasks(read_tasks(Path(world.tasks), profile=world.profile), world, source=world.tasks)
        require_playable(tasks, open_world(world.name, profile=world.profile), source=world.tasks)
        return tasks
    if isinstance(world.tasks, TextWorldParams):
        return select_tasks(tasks_of(world.tasks, profile=world.profile), world, source="world.tasks")
    return select_tasks(build_tasks(world.tasks.resolved()), world, source="world.tasks")


def require_playable(tasks: Iterable[Task], world: World[Any], *, source: str) -> None:
    """Refuse a task whose spec the world cannot start from, before a plan is claimed for it."""
    for task in tasks:
        try:
            world.reset(task)
        except ValueError as error:
            msg = f"{source}: task {task.task_id} cannot be played in {task.world}/{task.profile}: {error}"
            raise ConfigError(msg, hint="leave the task out; 'sera tasks build' makes tasks that fit") from None


def select_tasks(tasks: Iterable[Task], world: WorldConfig, *, source: str) -> list[Task]:
    """Tasks of the config's split and bands; refuses tasks of another world or profile."""
    chosen = []
    for task in tasks:
        if (task.world, task.profile) != (world.name, world.profile):
            msg = (
                f"{source}: task {task.task_id} is of {task.world}/{task.profile},"
                f" the config wants {world.name}/{world.profile}"
            )
            raise ConfigError(msg, hint=f"set world.name={task.world} and world.profile={task.profile}")
        wanted = world.difficulties is None or task.difficulty in world.difficulties
        if wanted and (world.split is None or task.split == world.split):
            chosen.append(task)
    if not chosen:
        msg = f"{source}: no task is left by world.split={world.split} and world.difficulties={world.difficulties}"
        raise ConfigError(msg, hint="leave them out to take all tasks")
    return chosen
