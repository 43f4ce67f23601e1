"""`WorldConfig`: which world is played, and where its tasks come from.

Invariant: the keys of a task source say which kind it is, so a key that this kind has not is refused by its name.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from collect.textcraft_tasks import PoolParams, PublishedParams
from collect.textworld_tasks import TextWorldParams
from sera_data.config import Config


def _kind_of_source(value: Any) -> str:
    if isinstance(value, TextWorldParams) or (isinstance(value, dict) and "generator" in value):
        return "textworld"
    if isinstance(value, PoolParams) or (isinstance(value, dict) and "worlds" in value):
        return "pool"
    return "published" if isinstance(value, (dict, PublishedParams)) else "path"


TaskSource = Annotated[
    Annotated[str, Tag("path")]
    | Annotated[PoolParams, Tag("pool")]
    | Annotated[PublishedParams, Tag("published")]
    | Annotated[TextWorldParams, Tag("textworld")],
    Discriminator(_kind_of_source),
]


class TaskQuery(Config):
    """Tasks chosen by SQL on a store."""

    sql: str = Field(description="One query that returns a column task_id; --tasks-sql FILE puts a file's text here.")
    store: str = Field(description="Store that it reads, sealed epochs only.")


class WorldConfig(Config):
    """Which world, and where its tasks come from."""

    name: str = Field(default="textcraft", description="Registered world; 'sera worlds' lists them.")
    profile: str = Field(default="rao-42", description="Rule profile of the world.")
    tasks: TaskSource | None = Field(
        default=None,
        description="Path of a task JSONL file, or build parameters (`worlds: ...` for a pool of TextCraft tasks,"
        " `generator: textworld` for TextWorld-Sync). null: give --tasks.",
    )
    chosen: TaskQuery | None = Field(
        default=None, description="Only tasks that this SQL names; without `tasks` they are read back from its store."
    )
    split: str | None = Field(default=None, description="Only tasks of this split; null = all.")
    difficulties: tuple[str, ...] | None = Field(default=None, description="Only tasks of these bands; null = all.")
