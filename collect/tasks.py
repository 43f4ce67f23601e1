"""Task files: one task as a JSON object per line.

Invariant: a task's id is the hash of its content, checked on reading, so that a file edited by hand cannot pass off
another problem under a known id. A malformed line is an error that names file and line.

Run: ``sera tasks build textcraft ...`` and ``sera tasks import textcraft FILE`` write such files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from collect.world import Task
from sera_data.canonical import canonical_json, sha256_json
from sera_data.errors import UsageError

TEXTS = ("task_id", "world", "profile", "split", "difficulty", "goal")
NULLABLE_TEXTS = ("family", "upstream_id")
KEYS = tuple(field.name for field in fields(Task))


class TaskFileError(UsageError):
    """A task file that cannot be used; the message begins with file and line."""


def content_id(world: str, profile: str, spec: Mapping[str, Any]) -> str:
    """Id of a task: 't' + 16 hex digits of the hash of world, profile and spec."""
    return "t" + sha256_json([world, profile, spec])[:16]


def task_line(task: Task) -> str:
    """One line of a task file, without the newline."""
    return canonical_json(asdict(task))


def read_tasks(path: Path) -> list[Task]:
    """All tasks of a file in its order; refuses malformed lines, wrong ids and tasks that occur twice."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        msg = f"task file not found: {path}"
        raise TaskFileError(msg, hint="write one with 'sera tasks build textcraft' or 'sera tasks import'") from None
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read task file {path}: {' '.join(str(error).split())}"
        raise TaskFileError(msg, hint="a task file is UTF-8 text, one JSON object per line") from None
    tasks: dict[str, Task] = {}
    for number, task in _parsed(path, text):
        if task.task_id in tasks:
            msg = f"{path}:{number}: task {task.task_id} occurs twice"
            raise TaskFileError(msg, hint="remove the line")
        tasks[task.task_id] = task
    if not tasks:
        msg = f"task file {path} has no tasks"
        raise TaskFileError(msg, hint="one JSON object per line; 'sera tasks build' writes them")
    return list(tasks.values())


def select_tasks(
    tasks: Iterable[Task],
    *,
    world: str,
    profile: str,
    split: str | None = None,
    difficulties: Sequence[str] | None = None,
) -> list[Task]:
    """Tasks of a split and of some bands; refuses tasks of another world or profile."""
    chosen = []
    for task in tasks:
        if (task.world, task.profile) != (world, profile):
            msg = f"task {task.task_id} is of {task.world}/{task.profile}, the config wants {world}/{profile}"
            raise TaskFileError(msg, hint="set world.name and world.profile, or give tasks of that world")
        if (split is None or task.split == split) and (difficulties is None or task.difficulty in difficulties):
            chosen.append(task)
    return chosen


def _parsed(path: Path, text: str) -> Iterator[tuple[int, Task]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, parse_task(line)
            except ValueError as error:
                hint = "'sera tasks import textcraft FILE' reads the published format" if '"misc"' in line else None
                msg = f"{path}:{number}: {error}"
                raise TaskFileError(msg, hint=hint or f"a line has the keys {', '.join(KEYS)}") from None


def parse_task(line: str) -> Task:
    """One line as a task; ValueError says what is wrong with it."""
    body = _object(line)
    unknown, missing = sorted(set(body) - set(KEYS)), [key for key in (*TEXTS, "spec") if key not in body]
    if missing or unknown:
        msg = "not a task: " + "; ".join(
            [f"missing {', '.join(missing)}"] * bool(missing) + [f"unknown {', '.join(unknown)}"] * bool(unknown)
        )
        raise ValueError(msg)
    for key in (*TEXTS, *NULLABLE_TEXTS):
        value = body.get(key)
        if not isinstance(value, str) and not (value is None and key in NULLABLE_TEXTS):
            msg = f"{key} must be text, got {value!r}"
            raise ValueError(msg)
    seed = body.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, (int, type(None))):
        msg = f"seed must be a whole number or null, got {seed!r}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a line is a ValueError
    if not isinstance(body["spec"], dict):
        msg = f"spec must be an object, got {body['spec']!r}"
        raise ValueError(msg)  # noqa: TRY004
    expected = content_id(body["world"], body["profile"], body["spec"])
    if body["task_id"] != expected:
        msg = f"task_id {body['task_id']!r} is not the id of this content, which is {expected!r}"
        raise ValueError(msg)
    return Task(**body)


def _object(line: str) -> dict[str, Any]:
    try:
        body = json.loads(line, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        msg = f"not JSON: {error.msg} at column {error.colno}"
        raise ValueError(msg) from None
    if not isinstance(body, dict):
        msg = f"a line is one JSON object, got {type(body).__name__}"
        raise ValueError(msg)  # noqa: TRY004
    return body


def _refuse_constant(name: str) -> Any:
    msg = f"not JSON: {name} is not a number"
    raise ValueError(msg)
