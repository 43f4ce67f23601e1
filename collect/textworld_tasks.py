"""TextWorld-Sync tasks from records, and the parameters by which a job's configuration asks for such tasks.

Invariant: a record that does not fit the published form becomes no task. Records say nothing of the rules, so the same
record gives one task per profile; a task's id is the hash of its world, profile and spec, and the record's own id is
kept as `upstream_id`.

Run: ``sera tasks import textworld test.jsonl --profile strict --out tasks.jsonl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from collect.textworld_bands import Difficulty, Family, Split
from collect.textworld_foods import open_foods
from collect.textworld_form import check_record
from collect.textworld_records import build_records
from collect.world import Task
from sera_data.canonical import sha256_json
from sera_data.config import Config
from sera_data.errors import UsageError

WORLD = "textworld"
SYNC = "sync-v9"  # the profile of records whose reader names none: they are published under these rules
SPEC_FIELDS = ("game_params", "dishes", "parallelism", "task_descriptions", "source_fold")


class TextWorldParams(Config):
    """Tasks to build, as a job's configuration names them; `generator: textworld` tells them from other worlds'."""

    generator: Literal["textworld"]
    split: Split = Field(default="train", description="Seeds and fold of the foods.")
    food_db: str | None = Field(default=None, description="File, wheel or 'installed'; null = our own foods.")
    per_cell: int | None = Field(
        default=None, ge=1, description="Tasks of each difficulty and family; null: published."
    )
    difficulties: tuple[Difficulty, ...] | None = Field(
        default=None, min_length=1, description="Only these; null = those of the published split."
    )
    families: tuple[Family, ...] | None = Field(default=None, min_length=1, description="Only these; null = all seven.")
    limit: int | None = Field(default=None, ge=1, description="Only the first so many; null = all.")


def records_of(params: TextWorldParams) -> list[dict[str, Any]]:
    """The records that the parameters ask for, in the published order; never none."""
    foods = open_foods(params.food_db)
    records = build_records(
        params.split,
        foods,
        per_cell=params.per_cell,
        difficulties=params.difficulties,
        families=params.families,
        limit=params.limit,
    )
    return list(records)


def build_tasks(params: Mapping[str, Any]) -> list[Task]:
    """Tasks from plain build parameters: those of `TextWorldParams` and `profile` (sync-v9)."""
    fields = {name: value for name, value in params.items() if name != "profile"}
    try:
        checked = TextWorldParams.model_validate({"generator": WORLD, **fields})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"]))
        msg = f"task parameter {key!r}: {fault['msg']}, got {fault['input']!r}"
        raise UsageError(msg, hint=f"allowed: profile, {', '.join(TextWorldParams.model_fields)}") from None
    return tasks_of(checked, profile=params.get("profile", SYNC))


def tasks_of(params: TextWorldParams, *, profile: str) -> list[Task]:
    """The same as tasks that are played under a profile's rules."""
    return [task_of(record, profile=profile) for record in records_of(params)]


def is_record(body: Any) -> bool:
    """Whether a parsed line means to be a record and not one of our tasks."""
    return isinstance(body, dict) and "world" not in body and ("game" in body or "task_family" in body)


def task_of(record: Any, *, profile: str) -> Task:
    """The task of a record under a profile; raises ValueError naming the field that does not fit the form."""
    check_record(record)
    sampled = record["generation"].get("v7_sampled_parameters") or {}
    spec = {name: record[name] for name in SPEC_FIELDS} | {"inventory_capacity": sampled.get("inventory_capacity")}
    return Task(
        task_id="t" + sha256_json([WORLD, profile, spec])[:16],
        world=WORLD,
        profile=profile,
        split=record["split"],
        difficulty=record["difficulty"],
        goal=record["task_description"],
        spec=spec,
        family=record["task_family"],
        seed=record["seed"],
        upstream_id=record["task_id"],
    )
