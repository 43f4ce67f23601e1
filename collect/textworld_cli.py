"""`sera tasks build textworld` and `sera tasks import textworld`.

Invariant: the same options give the same files, byte for byte; nothing is written when an option or a line is wrong.

Run: ``sera tasks build textworld --split test --out test.jsonl``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Out = Annotated[Path | None, typer.Option(help="File to write; without it only the summary is shown.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Record = dict[str, Any]


def build(
    *,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "train",
    food_db: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="cooking_world.json or the wheel of textworld-express 1.1.0, or 'installed' (ours: no file needed).",
        ),
    ] = None,
    per_cell: Annotated[
        int | None, typer.Option(help="Tasks of each difficulty and family, instead of the published counts.")
    ] = None,
    difficulty: Annotated[
        str | None, typer.Option(help="Only these, like easy,medium; train has easy tasks with --per-cell only.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="Only these families, like conflict,hierarchical.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many.")] = None,
    out: Out = None,
    manifest: Annotated[Path | None, typer.Option(help="Manifest to write, in the published form.")] = None,
    as_json: Json = False,
) -> None:
    """Build the records of a TextWorld-Sync split; `sera collect` plays them under the profile of its configuration.

    With the food database of textworld-express 1.1.0 the whole split is the published file, byte for byte.

    Example: sera tasks build textworld --split test --out test.jsonl

    Example: sera tasks build textworld --split train --food-db installed --out train.jsonl --manifest train.json

    Example: sera tasks build textworld --split train --difficulty easy --per-cell 20 --out easy.jsonl
    """
    from collect.textworld_foods import open_foods
    from collect.textworld_manifest import write_manifest
    from collect.textworld_tasks import records_of
    from sera_data.errors import UsageError

    if out is not None and out == manifest:
        msg = f"--out and --manifest name the same file: {out}"
        raise UsageError(msg, hint="records and manifest are two files")
    params = _params(
        split=split,
        food_db=food_db,
        per_cell=per_cell,
        difficulties=None if difficulty is None else difficulty.split(","),
        families=None if family is None else family.split(","),
        limit=limit,
    )
    records, foods = records_of(params), open_foods(food_db)
    if out is not None:
        _write_lines(out, records)
    if manifest is not None:
        write_manifest(manifest, records, foods)
    facts = summary(records, {"foods": foods.name, "foods_sha256": foods.sha256})
    _show(facts | {"out": _name(out), "manifest": _name(manifest)}, as_json=as_json)


def import_file(
    file: Annotated[Path, typer.Argument(help="Published JSONL file of records, or a manifest.")],
    *,
    profile: Annotated[str, typer.Option(help="Rules that the tasks are played under: sync-v9 or strict.")] = "sync-v9",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Import published TextWorld-Sync records or a manifest as tasks of a profile; every field is checked.

    Example: sera tasks import textworld textworld_test.jsonl --profile strict --out tasks.jsonl
    """
    from collect.task_file import read_records, write_tasks
    from collect.tasks import require_playable
    from collect.textworld_tasks import WORLD, task_of
    from collect.worlds import open_world

    world = open_world(WORLD, profile=profile)
    records = read_records(file)
    tasks = [task_of(record, profile=profile) for record in records]
    require_playable(tasks, world, source=str(file))
    if out is not None:
        write_tasks(out, tasks)
    _show(summary(records, {"profile": profile}) | {"out": _name(out)}, as_json=as_json)


def summary(records: Sequence[Mapping[str, Any]], more: Mapping[str, Any]) -> dict[str, Any]:
    """Counts and digests of records, and whether they are a whole published split."""
    from collections import Counter

    from collect.textworld_manifest import SOURCES, source_sha256
    from collect.textworld_records import records_sha256

    splits = sorted({record["split"] for record in records})
    digest = source_sha256(splits[0], records) if len(splits) == 1 else None
    return {
        "world": "textworld",
        "split": ", ".join(splits),
        **more,
        "n_tasks": len(records),
        "difficulties": dict(Counter(record["difficulty"] for record in records)),
        "families": dict(Counter(record["task_family"] for record in records)),
        "jsonl_sha256": records_sha256(records),
        "source_sha256": digest,
        "published": digest is not None and digest == SOURCES[splits[0]],
    }


def _params(**given: Any) -> Any:
    """Checked parameters; the fault of a wrong option says what is allowed."""
    from pydantic import ValidationError

    from collect.textworld_tasks import TextWorldParams
    from sera_data.errors import UsageError

    options = {"difficulties": "--difficulty", "families": "--family"}
    try:
        return TextWorldParams.model_validate({"generator": "textworld", **given})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = str(fault["loc"][0])
        option = options.get(name, "--" + name.replace("_", "-"))
        msg = f"{option}: {fault['msg']}, got {fault['input']!r}"
        raise UsageError(msg, hint="sera tasks build textworld --help shows examples") from None


def _write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    from collect.textworld_records import record_line
    from sera_data.output import write_output

    write_output(path, "".join(map(record_line, records)))


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _show(facts: Mapping[str, Any], *, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps(facts))
        return
    bands = ", ".join(f"{name} {count}" for name, count in facts["difficulties"].items())
    families = ", ".join(f"{name} {count}" for name, count in facts["families"].items())
    rules = f"profile {facts['profile']}" if "profile" in facts else f"foods {facts['foods']}"
    typer.echo(f"textworld, split {facts['split']}, {rules}")
    typer.echo(f"tasks          {facts['n_tasks']} ({bands})")
    typer.echo(f"families       {families}")
    typer.echo(f"jsonl sha256   {facts['jsonl_sha256']}")
    if facts["source_sha256"] is not None:
        same = "the published split" if facts["published"] else "not a published split"
        typer.echo(f"source sha256  {facts['source_sha256']} ({same})")
    for key, label in (("out", "written to"), ("manifest", "manifest")):
        if facts.get(key) is not None:
            typer.echo(f"{label:<13}  {facts[key]}")
