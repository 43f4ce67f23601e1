"""Overlap of evaluation tasks with training tasks: what the policy may have seen. Pure functions.

Invariant: a recipe is the same only when item, ingredients and yield are, so equal names in other worlds are no
overlap. For worlds without recipes only equal tasks are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from collect.planner import consumers_first
from collect.protocol import Protocol
from collect.protocol_tasks import build_for, read_any
from collect.recipes import RecipeBook, WorldKey, recipe_book
from collect.textcraft import book_of
from collect.world import Task
from sera_data.errors import UsageError

Recipe = tuple[str, int, tuple[tuple[str, int], ...]]


def overlap_of(evaluated: Sequence[Task], training: Sequence[Task]) -> dict[str, Any]:
    """Counts of shared tasks, goals and recipes, as plain JSON values.

    recipes_seen / recipes: recipes below the evaluated targets that lie below some training target too. targets_seen:
    evaluated target items that a training task makes on its way or wants. all_recipes_seen: tasks all of whose recipes
    are seen. Recipe figures are None for worlds without recipes.
    """
    seen_tasks = {task.task_id for task in training}
    body: dict[str, Any] = {
        "tasks": len(evaluated),
        "training_tasks": len(seen_tasks),
        "same_tasks": sum(task.task_id in seen_tasks for task in evaluated),
    }
    if not all(_has_recipes(task) for task in [*evaluated, *training]):
        return body | dict.fromkeys(("same_goals", "targets", "targets_seen", "recipes", "recipes_seen"))
    known = _known(training)
    own = {task.task_id: recipes_below(task) for task in evaluated}
    targets = {recipe for task in evaluated for recipe in own[task.task_id] if recipe[0] in task.spec["targets"]}
    goals = {_goal(task) for task in training}
    every = set().union(*own.values()) if own else set()
    return body | {
        "same_goals": sum(_goal(task) in goals for task in evaluated),
        "targets": len(targets),
        "targets_seen": len(targets & known),
        "recipes": len(every),
        "recipes_seen": len(every & known),
        "all_recipes_seen": sum(own[task.task_id] <= known for task in evaluated),
    }


def recipes_below(task: Task) -> set[Recipe]:
    """Every recipe that making the task's targets may use."""
    return _below(book_of(task.spec), task.spec["targets"])


def _known(training: Sequence[Task]) -> set[Recipe]:
    """Recipes below any training target; each world is walked once."""
    wanted: dict[WorldKey, set[str]] = {}
    for task in training:
        wanted.setdefault(book_of(task.spec).key, set()).update(task.spec["targets"])
    return set().union(*(_below(recipe_book(*key), items) for key, items in wanted.items()))


def _below(book: RecipeBook, targets: Iterable[str]) -> set[Recipe]:
    items = consumers_first(book.recipes, sorted(targets))
    return {_recipe(book.key, item) for item in items if item in book.recipes}


@lru_cache(maxsize=65_536)
def _recipe(key: WorldKey, item: str) -> Recipe:
    recipe = recipe_book(*key).recipes[item]
    return item, recipe.makes, tuple(sorted(recipe.needs.items()))


def overlap_words(body: Mapping[str, Any] | None) -> str:
    """One sentence for people."""
    if body is None:
        return "Overlap with training: unknown (give --train FILE or STORE)."
    if body["recipes"] is None:
        return f"Overlap with {body['training_tasks']} training tasks: {body['same_tasks']} of {body['tasks']} tasks."
    return (
        f"Overlap with {body['training_tasks']} training tasks: {body['same_tasks']} of {body['tasks']} tasks are the"
        f" same; {body['targets_seen']} of {body['targets']} target items and {body['recipes_seen']} of"
        f" {body['recipes']} recipes were seen in training; {body['all_recipes_seen']} tasks use seen recipes only."
    )


def training_tasks(path: Path | None, *, protocol: Protocol | None) -> list[Task] | None:
    """Tasks of a training file or store, else those that the protocol names; None when neither is known."""
    if path is not None and path.is_dir():
        return _of_store(path)
    if path is not None:
        return read_any(path)
    if protocol is None or protocol.training is None:
        return None
    return build_for(protocol.world, protocol.training)


def _of_store(path: Path) -> list[Task]:
    import json

    import sera_data

    query = files("collect").joinpath("sql", "training_tasks.sql").read_text(encoding="utf-8")
    rows = sera_data.open(path).sql(query).pl().to_dicts()
    if not rows:
        msg = f"store {path} holds no task of a training purpose"
        raise UsageError(msg, hint="give the store that was collected for training, or its task file")
    return [Task(**{**row, "spec": json.loads(row["spec"])}) for row in rows]


def _has_recipes(task: Task) -> bool:
    return isinstance(task.spec.get("targets"), Mapping) and "world_seed" in task.spec


def _goal(task: Task) -> tuple[Any, ...]:
    spec = task.spec
    key = (spec["world_seed"], spec["items_per_tier"], spec["max_tier"])
    return (*key, tuple(sorted(spec["targets"].items())))
