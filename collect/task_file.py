"""Task files: JSON lines of tasks or of TextWorld-Sync records, and the import of published TextCraft-Synth files.

Invariant: a line that is not a task stops the reading with the file and line number; nothing is skipped.

Run: ``sera tasks import textcraft textcraft_synth_val.jsonl --out val.jsonl``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from collect.planner import plan
from collect.recipes import RecipeBook, recipe_book
from collect.textcraft import check_stock, check_targets
from collect.textcraft_tasks import BANDS, RAO, spec_of, textcraft_task
from collect.textworld_form import check_record
from collect.textworld_manifest import read_manifest
from collect.textworld_tasks import SYNC, is_record, task_of
from collect.world import Task
from sera_data.canonical import canonical_json, sha256_json
from sera_data.errors import UsageError
from sera_data.output import write_output

TEXT_FIELDS = ("task_id", "world", "profile", "split", "difficulty", "goal")
OPTIONAL: Mapping[str, type] = {"family": str, "seed": int, "upstream_id": str}


def write_tasks(path: Path, tasks: Sequence[Task]) -> None:
    """One canonical JSON object per line, written aside and renamed."""
    write_output(path, "".join(canonical_json(asdict(task)) + "\n" for task in tasks))


def read_tasks(path: Path, *, profile: str | None = None) -> list[Task]:
    """Tasks of a file; raises UsageError naming file:line for anything that is not a task or occurs twice.

    A line may also be a published TextWorld-Sync record, which becomes a task of `profile` (sync-v9 when it is None);
    the profile of lines that are tasks is their own.
    """
    tasks: list[Task] = []
    seen: dict[str, int] = {}
    for number, body in _lines(path):
        _refuse_published(path, number, body)
        task = _located(path, number, _task_or_record, body, profile or SYNC)
        if task.task_id in seen:
            msg = f"{path}:{number}: task {task.task_id} occurs already in line {seen[task.task_id]}"
            raise UsageError(msg)
        seen[task.task_id] = number
        tasks.append(task)
    return tasks


def import_published(path: Path, *, world_seed: int = 42, items_per_tier: int = 25) -> list[Task]:
    """Tasks of a published JSONL file, inventories and ids as published; each is checked to be solvable."""
    book = recipe_book(world_seed, items_per_tier)
    tasks = []
    for number, body in _lines(path):
        _refuse_task(path, number, body)
        tasks.append(_located(path, number, _published_from, body, book))
    seen: dict[str | None, int] = {}
    for number, task in enumerate(tasks, start=1):
        if task.upstream_id in seen:
            msg = f"{path}: {task.upstream_id} is the id of record {seen[task.upstream_id]} and of record {number}"
            raise UsageError(msg)
        seen[task.upstream_id] = number
    return tasks


def read_records(path: Path) -> list[dict[str, Any]]:
    """Checked TextWorld-Sync records of a JSONL file or a manifest; UsageError with the place of the first fault."""
    if _is_manifest(path):
        manifest = read_manifest(path)
        for record in manifest.records:
            _located(path, record["task_id"], check_record, record)
        return list(manifest.records)
    records: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for number, body in _lines(path):
        _located(path, number, check_record, body)
        if body["task_id"] in seen:
            msg = f"{path}:{number}: record {body['task_id']} occurs already in line {seen[body['task_id']]}"
            raise UsageError(msg)
        seen[body["task_id"]] = number
        records.append(body)
    return records


def _is_manifest(path: Path) -> bool:
    """Whether the whole file is one JSON object with tasks; whatever else it is, reading its lines says."""
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(body, dict) and "tasks" in body


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    found = 0
    try:
        with path.open("rb") as handle:
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    found += 1
                    yield number, _decoded(path, number, line)
    except FileNotFoundError:
        msg = f"task file not found: {path}"
        raise UsageError(msg, hint="'sera tasks build' makes one") from None
    except OSError as error:
        msg = f"task file {path} cannot be read: {error.strerror or error}"
        raise UsageError(msg, hint="name a file of JSON lines; 'sera tasks build' makes one") from None
    if not found:
        msg = f"{path} holds no task"
        raise UsageError(msg, hint="one JSON object per line; 'sera tasks build' makes such a file")


def _decoded(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        msg = f"{path}:{number}: not a JSON object: {error}"
        raise UsageError(msg, hint="one JSON object per line") from None


def _refuse_constant(name: str) -> None:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


def _located(path: Path, place: int | str, read: Any, *args: Any) -> Any:
    try:
        return read(*args)
    except ValueError as error:
        msg = f"{path}:{place}: {error}"
        raise UsageError(msg) from None


def _refuse_published(path: Path, number: int, body: Any) -> None:
    """A published TextCraft-Synth record where a task is wanted."""
    if isinstance(body, dict) and "id" in body and "misc" in body:
        msg = f"{path}:{number}: a record of a published TextCraft-Synth file, not a task"
        raise UsageError(msg, hint=f"sera tasks import textcraft {path} --out tasks.jsonl, then name tasks.jsonl")


def _refuse_task(path: Path, number: int, body: Any) -> None:
    """A task, or a record of the other world, where a published TextCraft-Synth record is wanted."""
    if is_record(body):
        msg = f"{path}:{number}: a TextWorld-Sync record, not one of TextCraft-Synth"
        raise UsageError(msg, hint=f"sera tasks import textworld {path}")
    if isinstance(body, dict) and "task_id" in body and "spec" in body:
        msg = f"{path}:{number}: a task already, nothing to import"
        raise UsageError(msg, hint=f"play it: sera collect --tasks {path} --store STORE")


def _task_or_record(body: Any, profile: str) -> Task:
    return task_of(body, profile=profile) if is_record(body) else _task_from(body)


def _task_from(body: Any) -> Task:
    _is_object(body)
    unknown = sorted(set(body) - {*TEXT_FIELDS, *OPTIONAL, "spec"})
    if unknown:
        msg = f"unknown field {unknown[0]!r}; allowed: {', '.join([*TEXT_FIELDS, 'spec', *OPTIONAL])}"
        raise ValueError(msg)
    for name in TEXT_FIELDS:
        if not isinstance(body.get(name), str) or not body[name]:
            msg = f"field {name!r} must be a non-empty text, got {body.get(name)!r}"
            raise ValueError(msg)
        _require_storable(name, body[name])
    if not isinstance(body.get("spec"), dict):
        msg = f"field 'spec' must be an object, got {type(body.get('spec')).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a line is a ValueError
    for name, kind in OPTIONAL.items():
        value = body.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            msg = f"field {name!r} must be {kind.__name__} or null, got {value!r}"
            raise ValueError(msg)
        _require_storable(name, value)
    expected = "t" + sha256_json([body["world"], body["profile"], body["spec"]])[:16]
    if body["task_id"] != expected:
        msg = f"task_id {body['task_id']} is not the hash of the content, which is {expected}"
        raise ValueError(msg)
    return Task(**{name: body[name] for name in (*TEXT_FIELDS, "spec")}, **{name: body.get(name) for name in OPTIONAL})


def _require_storable(name: str, value: object) -> None:
    """Refuse what a Parquet column cannot hold: half a surrogate pair, or an integer beyond 64 bits."""
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        msg = f"field {name!r} holds half a surrogate pair, which is no Unicode text: {value!r}"
        raise ValueError(msg)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        msg = f"field {name!r} must fit in 64 bits, got {value}"
        raise ValueError(msg)


def _published_from(body: Any, book: RecipeBook) -> Task:
    _is_object(body)
    upstream, misc = body.get("id"), body.get("misc")
    if not isinstance(upstream, str) or not isinstance(misc, dict):
        msg = "a published record has a text 'id' and an object 'misc'"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a line is a ValueError
    difficulty = misc.get("difficulty")
    if not isinstance(difficulty, str) or difficulty not in BANDS:
        msg = f"misc.difficulty must be one of {', '.join(BANDS)}, got {difficulty!r}"
        raise ValueError(msg)
    targets = check_targets(book, misc.get("target_items"))
    stock = check_stock(book, misc.get("initial_inventory"))
    lacking = plan(book, stock, targets).missing
    if lacking:
        msg = f"{upstream} cannot be solved in world {tuple(book.key)}, lacking {dict(lacking)}"
        raise ValueError(msg)
    parts = upstream.split(".")
    split = parts[1] if len(parts) == 3 else "unknown"
    spec = spec_of(book, targets, stock)
    return textcraft_task(spec, profile=RAO, split=split, difficulty=difficulty, seed=None, upstream_id=upstream)


def _is_object(body: Any) -> None:
    if not isinstance(body, dict):
        msg = f"a task is a JSON object, got {type(body).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a line is a ValueError
