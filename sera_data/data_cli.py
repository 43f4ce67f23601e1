"""`sera data`: look into, seal, verify, snapshot and clean a store.

Invariant: `ls`, `sql`, `describe` and `verify` change nothing. Heavy modules are imported inside the commands.

Run: ``sera data ls STORE``, ``sera data sql STORE "select ..."``.
"""

from __future__ import annotations

import io
import json
import math
import sys
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.errors import StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sera_data.store import Store

GROUP = "sera.data"
app = typer.Typer(
    help="Look into, seal, verify and clean a store.\n\nExample: sera data ls runs/demo/store",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Directory that holds store.json.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Format(StrEnum):
    """Output formats of `sql`."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


class ViewName(StrEnum):
    """Views of a store."""

    live = "live"
    sealed = "sealed"


@app.command()
def ls(store: StorePath, as_json: Json = False) -> None:
    """List plans, their units and seals, and snapshots.

    Example: sera data ls runs/demo/store
    """
    from sera_data.plan import plan_names, read_plan

    opened = _open(store)
    plans = [_plan_facts(opened, read_plan(opened, name)) for name in plan_names(opened)]
    snapshots = sorted(path.stem for path in opened.layout.snapshots.glob("*.json"))
    if as_json:
        _print_json({"store": str(store), "plans": plans, "snapshots": snapshots})
        return
    columns = ("plan", "phase", "run_id", "units", "committed", "state", "nodes", "turns", "bytes", "content_hash")
    rows = [[_short(plan[c]) if c == "content_hash" else plan[c] for c in columns] for plan in plans]
    _print_table(columns, rows, title=f"store {store}: {len(plans)} plans")
    for name in snapshots:
        print(f"snapshot {name}")


@app.command()
def sql(
    store: StorePath,
    query: Annotated[str, typer.Argument(help="A query over the tables and views, or @FILE.sql.")],
    fmt: Annotated[Format, typer.Option("--format", help="How to print the rows.")] = Format.table,
    output: Annotated[Path | None, typer.Option(help="File to write; needed for parquet.")] = None,
    view: Annotated[ViewName, typer.Option(help="live: committed shards too; sealed: sealed only.")] = ViewName.live,
    snapshot: Annotated[str | None, typer.Option(help="Read what this snapshot names.")] = None,
    as_json: Json = False,
) -> None:
    """Run a DuckDB query; `sera data describe` names the tables and views.

    Example: sera data sql runs/demo/store "select epoch, purpose, success from progress order by all" --format csv
    """
    import duckdb
    from polars.exceptions import PolarsError

    from sera_data.damage import require_sound

    text = _query(query)
    fmt = Format.json if as_json else fmt
    if fmt is Format.parquet and output is None:
        msg = "--format parquet needs --output FILE.parquet"
        raise UsageError(msg)
    connection = _open(store).connect(view=view.value, snapshot=snapshot)
    try:
        _require_reading(text)
        frame = connection.sql(text).pl()
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except PolarsError as error:
        msg = f"a column has a type that cannot be shown: {' '.join(str(error).partition('Hint')[0].split())}"
        raise UsageError(msg, hint="cast it to text: select my_column::varchar") from None
    except duckdb.Error as error:
        if not isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
            require_sound(connection)
        msg = f"query failed: {' '.join(str(error).split())}"
        raise UsageError(msg, hint="sera data describe STORE lists tables, views and columns") from None
    _print_rows(frame, fmt, output)


@app.command()
def describe(
    store: Annotated[Path | None, typer.Argument(metavar="[STORE]", help="Count its rows and bytes too.")] = None,
    table: Annotated[str | None, typer.Option(help="Only this table, with all its columns.")] = None,
    as_json: Json = False,
) -> None:
    """Print the tables, what each column means, and (with a store) rows and bytes.

    Example: sera data describe runs/demo/store --table turns
    """
    from schemas import SCHEMA_VERSION, TABLES
    from sera_data.duck import VIEWS, view_sql

    if table is not None and table not in TABLES:
        msg = f"no table {table!r}; allowed: {', '.join(TABLES)}"
        raise UsageError(msg)
    listing = None if store is None else _open(store).listing()
    facts = [_table_facts(TABLES[name], listing) for name in TABLES if table in (None, name)]
    views = [] if table else [{"view": name, "doc": _comment(view_sql(name))} for name in VIEWS]
    if as_json:
        _print_json({"schema_version": SCHEMA_VERSION, "tables": facts, "views": views})
        return
    print(f"schema {SCHEMA_VERSION}")
    for fact in facts:
        counts = "" if listing is None else f" · {fact['rows']} rows · {fact['bytes']} bytes · {fact['files']} files"
        print(f"\n{fact['table']}{counts}\n  {fact['doc']}\n  key: {', '.join(fact['key'])}\n")
        _print_table(
            ("column", "type", "null", "meaning"),
            [[c["column"], c["type"], "yes" if c["nullable"] else "", c["doc"]] for c in fact["columns"]],
        )
    for entry in views:
        print(f"\nview {entry['view']}\n  {entry['doc']}")


@app.command()
def seal(
    store: StorePath,
    plan: Annotated[str | None, typer.Argument(help="Plan, for example e000003; default: every complete one.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Seal without the units that are missing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sealed.")] = False,
    as_json: Json = False,
) -> None:
    """Check, sort and compact a plan's shards into a directory that never changes.

    Example: sera data seal runs/demo/store e000000
    """
    from sera_data.plan import plan_names, read_plan
    from sera_data.sealing import seal as seal_plan

    opened = _open(store)
    if partial and plan is None:
        msg = "--partial needs the name of the plan"
        raise UsageError(msg, hint="sera data ls STORE lists the plans")
    plans = [read_plan(opened, name) for name in ([plan] if plan else plan_names(opened))]
    chosen = [p for p in plans if plan or (not p.sealed() and p.committed() == set(p.unit_ids))]
    done: list[dict[str, Any]] = []
    for each in chosen:
        missing = sorted(set(each.unit_ids) - each.committed())
        if dry_run:
            done.append({"plan": each.name, "missing": missing, "sealed": each.sealed()})
            continue
        result = seal_plan(opened, each.name, partial=partial)
        facts = {"plan": each.name, "missing": list(result.missing), "rows": result.rows}
        done.append({**facts, "content_hash": result.content_hash, "already_sealed": result.already_sealed})
    if as_json:
        _print_json({"dry_run": dry_run, "sealed": done})
        return
    for entry in done:
        what = "would seal" if dry_run else "already sealed" if entry["already_sealed"] else "sealed"
        tail = "" if dry_run else f": {sum(entry['rows'].values())} rows, content {entry['content_hash'][:16]}"
        print(
            f"{what} {entry['plan']}{tail}" + (f", without {', '.join(entry['missing'])}" if entry["missing"] else "")
        )
    if not done:
        print("nothing to seal: no complete plan is unsealed")


@app.command()
def verify(store: StorePath, as_json: Json = False) -> None:
    """Check hashes, sizes, schemas and rows of every published file; exit code 1 when a file is damaged.

    Example: sera data verify runs/demo/store
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from sera_data.verification import verify as verify_store

    opened = _open(store)
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn("verify {task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        found = verify_store(opened, on_problem="report", progress=lambda name: bar.update(task, description=name))
    facts = {"directories": found.directories, "files": found.files, "rows": found.rows, "bytes": found.bytes}
    if as_json:
        problems = [{"path": p.path, "fault": p.fault, "fix": p.fix} for p in found.problems]
        _print_json({**facts, "problems": problems})
    else:
        for problem in found.problems:
            print(problem)
        print(", ".join(f"{value} {name}" for name, value in facts.items()) + f", {len(found.problems)} problems")
    if found.problems:
        msg = f"store {store} has {len(found.problems)} problems, the first: {found.problems[0]}"
        raise StoreError(msg)


@app.command()
def snapshot(
    store: StorePath,
    name: Annotated[str, typer.Argument(help="Name of the snapshot, for example demo-1f2e3d4c-e000003.")],
    directory: Annotated[list[str] | None, typer.Option(help="Sealed directory; repeat it. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Write down, once, which sealed directories a learn phase reads.

    Example: sera data snapshot runs/demo/store mine --directory e000000 --directory e000000.a001
    """
    from sera_data.snapshot import take_snapshot

    opened = _open(store)
    taken = take_snapshot(opened, name, directories=directory or opened.sealed_names())
    if as_json:
        _print_json({"name": taken.name, "sha256": taken.sha256, "directories": taken.directories})
    else:
        print(f"snapshot {taken.path}: {', '.join(taken.directories)}, sha256 {taken.sha256[:16]}")


@app.command()
def gc(
    store: StorePath,
    staging_hours: Annotated[float, typer.Option(help="Remove unfinished work older than this.")] = 24.0,
    sealed_hours: Annotated[float, typer.Option(help="Remove shards sealed for longer than this.")] = 1.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Remove what dead processes left and shards whose rows are sealed; never a sealed directory.

    Example: sera data gc runs/demo/store --dry-run
    """
    from sera_data.garbage import collect_garbage

    gone = collect_garbage(_open(store), staging_hours=staging_hours, sealed_hours=sealed_hours, dry_run=dry_run)
    if as_json:
        facts = {"staging": list(gone.staging), "shards": list(gone.shards), "bytes": gone.bytes, "dry_run": dry_run}
        _print_json(facts)
        return
    for name in [*gone.staging, *gone.shards]:
        print(f"{'would remove' if dry_run else 'removed'} {name}")
    print(f"{len(gone.staging)} unfinished, {len(gone.shards)} sealed shards, {gone.bytes} bytes")


def _add_registered() -> None:
    """Commands that other packages add to `sera data` by the entry-point group `sera.data`."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        app.command(entry.name)(entry.load())


def _open(path: Path) -> Store:
    from sera_data.store import open_store

    return open_store(path)


def _query(query: str) -> str:
    """The text itself, or that of @FILE."""
    if not query.startswith("@"):
        try:
            query.encode()
        except UnicodeEncodeError:
            msg = f"the query must be UTF-8, got {query[:60]!a}"
            raise UsageError(msg) from None
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        msg = f"query file {query[1:]!r} cannot be read: {error}"
        raise UsageError(msg, hint="name a UTF-8 file with one query, or give the query itself") from None


def _require_reading(text: str) -> None:
    """Refuse anything but one query: a COPY or ATTACH would write files, and `sql` changes nothing."""
    import duckdb

    kinds = [str(statement.type).rpartition(".")[2] for statement in duckdb.extract_statements(text)]
    if kinds not in (["SELECT"], ["EXPLAIN"]):
        msg = f"sera data sql takes exactly one query (SELECT, FROM, DESCRIBE, SHOW), got {', '.join(kinds) or 'none'}"
        raise UsageError(msg, hint="to write a file: --format parquet --output FILE")


def _plan_facts(store: Store, plan: Any) -> dict[str, Any]:
    from sera_data.listing import Listing, seal_source, shard_source

    committed = plan.committed()
    sealed = plan.sealed()
    shards = [plan.shard_id(unit) for unit in plan.unit_ids if unit in committed]
    sources = [seal_source(store, plan.name)] if sealed else [shard_source(store, shard) for shard in shards]
    listing = Listing(store.path, tuple(sources))
    tables = {name for source in sources for name, *_ in source.files}
    seal_body = store.seal_document(plan.name) if sealed else {}
    state = "open" if not sealed else "partial" if seal_body["partial"] else "sealed"
    return {
        "plan": plan.name,
        "epoch": plan.epoch,
        "addition": plan.addition,
        "phase": plan.phase,
        "run_id": plan.run_id,
        "units": len(plan.unit_ids),
        "committed": len(committed),
        "missing": sorted(set(plan.unit_ids) - committed),
        "state": state,
        "nodes": listing.rows("nodes"),
        "turns": listing.rows("turns"),
        "bytes": sum(listing.bytes(table) for table in tables),
        "content_hash": seal_body.get("content_hash"),
    }


def _table_facts(table: Any, listing: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"table": table.name, "doc": table.doc.strip().partition("\n")[0]}
    facts["key"] = list(table.key)
    facts["columns"] = [
        {
            "column": c.name,
            "type": str(c.type),
            "nullable": c.nullable,
            "volatile": c.volatile,
            "values": list(c.values),
            "doc": c.doc,
        }
        for c in table.columns
    ]
    if listing is not None:
        counts = {"rows": listing.rows(table.name), "bytes": listing.bytes(table.name)}
        facts.update(counts, files=len(listing.files(table.name)))
    return facts


def _comment(text: str) -> str:
    lines = [line[2:].strip() for line in text.splitlines() if line.startswith("--")]
    return " ".join(lines)


def _print_rows(frame: Any, fmt: Format, output: Path | None) -> None:
    if fmt is Format.parquet and output is not None:
        content = io.BytesIO()  # a disk that is full is then the disk's fault, not one of Parquet
        frame.write_parquet(content, compression="zstd")
        output.write_bytes(content.getvalue())
        return
    if fmt is Format.table:
        rows = [["" if value is None else value for value in row] for row in frame.rows()]
        _print_table(frame.columns, rows, file=output)
        return
    if fmt is Format.csv:
        text = _flat(frame).write_csv()
    else:
        rows = [_finite(row) for row in frame.to_dicts()]
        text = json.dumps(rows, ensure_ascii=False, default=str, indent=1, allow_nan=False) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value


def _flat(frame: Any) -> Any:
    """Nested columns as JSON text, because CSV has no lists."""
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    texts = [
        pl.Series(name, [None if v is None else json.dumps(_plain(v), default=str) for v in frame[name]], pl.String)
        for name in nested
    ]
    return frame.with_columns(texts)


def _plain(value: Any) -> Any:
    return value.to_list() if hasattr(value, "to_list") else value


def _print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None, file: Path | None = None
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(*columns, title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for row in rows:
        shown.add_row(*(Text(f"{v:.4f}" if isinstance(v, float) else "" if v is None else str(v)) for v in row))
    if file is not None:
        with file.open("w", encoding="utf-8") as handle:
            Console(file=handle, width=200).print(shown)
        return
    console = Console()
    Console(width=None if console.is_terminal else 200).print(shown)


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1, default=str))


def _short(value: str | None) -> str:
    return "" if value is None else value[:12]


_add_registered()
