"""verify: is every published byte of the store what it was when it was published?

Invariant: reads everything and changes nothing. Each problem names the file, what is wrong and how to fix it.

Run: ``sera data verify STORE``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from schemas import SCHEMA_VERSION, TABLES
from sera_data.canonical import sha256_file
from sera_data.content import directory_hash
from sera_data.errors import StoreError
from sera_data.layout import COMMIT, SEAL, is_plan_name, shard_plan
from sera_data.listing import Source, repair, seal_source, shard_source
from sera_data.place import Place
from sera_data.plan import Plan, plan_names, read_plan
from sera_data.snapshot import read_snapshot

if TYPE_CHECKING:
    from sera_data.store import Store


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: the file, what is wrong with it and how to fix it."""

    path: str
    fault: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}: {self.fault} (fix: {self.fix})"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and the problems found."""

    directories: int
    files: int
    rows: int
    bytes: int
    problems: tuple[Problem, ...]


def verify(
    store: Store,
    *,
    on_problem: Literal["raise", "report"] = "raise",
    progress: Callable[[str], None] = lambda _name: None,
) -> Verification:
    """Check every plan, shard, seal and snapshot; StoreError lists the problems, or they are returned (`report`)."""
    problems = list(_document_problems(store))
    counted = [0, 0, 0, 0]
    for name, read in _published(store):
        progress(name)
        try:
            source = read(store, name)
        except StoreError as error:
            problems.append(Problem(name, error.args[0], error.hint or "restore it from a copy"))
            continue
        counted[0] += 1
        for (table, path, rows, size), sha256 in zip(source.files, source.hashes, strict=True):
            counted[1:] = [counted[1] + 1, counted[2] + rows, counted[3] + size]
            problem = _file_problem(table, path, rows, size, sha256, source)
            problems += [problem] if problem else []
        problems += _stray_problems(store, source)
    if problems and on_problem == "raise":
        msg = f"store {store.path} has {len(problems)} problems: {'; '.join(map(str, problems[:5]))}"
        raise StoreError(msg, hint="sera data verify STORE lists all of them")
    return Verification(counted[0], counted[1], counted[2], counted[3], tuple(problems))


def _published(store: Store) -> Iterator[tuple[str, Callable[[Store, str], Source]]]:
    for name in store.sealed_names():
        yield name, seal_source
    for name in store.shard_ids():
        yield name, shard_source


def _file_problem(table: str, path: Place, rows: int, size: int, sha256: str, source: Source) -> Problem | None:
    fix = repair(source)
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        return Problem(str(path), "is missing", fix)
    if found != size:
        return Problem(str(path), f"is truncated or changed: it has {found} of {size} bytes", fix)
    if sha256_file(path) != sha256:
        return Problem(str(path), f"is changed: its sha256 is not the recorded {sha256[:12]}", fix)
    return _parquet_problem(table, path, rows, source, fix)


def _parquet_problem(table: str, path: Place, rows: int, source: Source, fix: str) -> Problem | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as handle, pq.ParquetFile(handle) as file:
            found, schema = file.metadata.num_rows, file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        return Problem(str(path), f"is not readable Parquet: {' '.join(str(error).split())}", fix)
    if found != rows:
        return Problem(str(path), f"has {found} rows, {source.name} records {rows}", fix)
    for column in TABLES[table].columns:
        index = schema.get_field_index(column.name)
        if index < 0 and (source.schema_version == SCHEMA_VERSION or not column.nullable):
            return Problem(str(path), f"lacks column {column.name!r} of schema {source.schema_version}", fix)
        if index >= 0 and schema.field(index).type != column.type:
            return Problem(str(path), f"column {column.name!r} is {schema.field(index).type}, not {column.type}", fix)
    return None


def _seal_problems(store: Store, plan: Plan) -> Iterator[Problem]:
    """Where a seal, its plan and the commits it compacted do not say the same; each holds a copy of the others."""
    try:
        body = store.seal_document(plan.name)
    except StoreError:
        return  # named with the directory
    seal, restore = str(store.layout.epochs / plan.name / SEAL), "restore it from a copy"
    for key in ("run_id", "phase", "policy_hash", "config_hash"):
        if body.get(key) != getattr(plan, key):
            fault = f"says {key} {body.get(key)!r}, plans/{plan.name}.json says {getattr(plan, key)!r}"
            yield Problem(seal, fault, "restore the changed one of the two from a copy")
    units = sorted([*(shard.rpartition(".")[2] for shard in body["shards"]), *body["missing"]])
    if units != sorted(plan.unit_ids):
        yield Problem(seal, f"does not hold the units of plans/{plan.name}.json", restore)
    if directory_hash({t: facts.get("content_hash") for t, facts in body["tables"].items()}) != body["content_hash"]:
        yield Problem(seal, "has a content_hash that does not follow from those of its tables", restore)
    for shard, sha256 in body.get("commits", {}).items():
        commit = store.layout.shards / shard / COMMIT
        if commit.is_file() and sha256_file(commit) != sha256:
            yield Problem(str(commit), f"is changed: its sha256 is not the one that {plan.name} recorded", restore)


def _stray_problems(store: Store, source: Source) -> list[Problem]:
    """Files in a published directory that its document does not record; a glob would read them."""
    parent = store.layout.epochs if source.kind == "seal" else store.layout.shards
    known = {path.name for _, path, _, _ in source.files} | {SEAL if source.kind == "seal" else COMMIT}
    found = (path.name for path in (parent / source.name).iterdir())
    strays = sorted(name for name in found if name not in known and not store.medium.unfinished(name))
    fault = f"is not recorded by {source.kind} {source.name}, but a glob would read it"
    return [Problem(str(parent / source.name / s), fault, "move it out of the store") for s in strays]


def _document_problems(store: Store) -> Iterator[Problem]:
    plans = {}
    for name in plan_names(store):
        try:
            plans[name] = read_plan(store, name)
        except (StoreError, KeyError) as error:
            yield Problem(str(store.layout.plan_file(name)), str(error), "restore it from a copy")
    for shard in store.shard_ids():
        plan = plans.get(shard_plan(shard))
        if plan is None or shard.rpartition(".")[2] not in plan.unit_ids:
            yield Problem(str(store.layout.shards / shard), "is in no plan", "move it out of the store")
    for name in store.sealed_names():
        if name not in plans:
            yield Problem(str(store.layout.epochs / name), "has no plan", f"restore plans/{name}.json from a copy")
        else:
            yield from _seal_problems(store, plans[name])
    for parent, right in (
        (store.layout.epochs, is_plan_name),
        (store.layout.shards, lambda n: is_plan_name(shard_plan(n))),
    ):
        found: list[Place] = list(parent.iterdir()) if parent.is_dir() else []
        for path in sorted(found, key=str):
            if not right(path.name):
                yield Problem(str(path), "does not belong here, but a glob would read it", "move it out of the store")
    snapshots: list[Place] = list(store.layout.snapshots.glob("*.json"))
    for path in sorted(snapshots, key=str):
        try:
            read_snapshot(store, path.stem)
        except (StoreError, KeyError) as error:
            yield Problem(str(path), str(error), "restore what it names from a copy")
