"""`sera credit`: show the credit of a store under a method; nothing is trained or stored.

Invariant: reads the store only; the same store and method print the same hash. Torch is never imported.

Run: ``sera credit runs/demo/store --method sera``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.errors import UsageError
from sera_data.place import place

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from learn.credit import Credit
    from learn.method import Method
    from sera_data.store import Store, View

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def credit(
    store: Annotated[
        Path | None,
        typer.Argument(parser=place, metavar="STORE", help="Directory that holds store.json.", show_default=False),
    ] = None,
    method: Annotated[
        str, typer.Option(help="A name of `sera methods`, NAME:recommended, or a .yaml or .sql file; list: show all.")
    ] = "sera",
    credit_file: Annotated[
        Path | None, typer.Option("--credit", help="Your own SQL file in place of the method's rules.")
    ] = None,
    where_file: Annotated[
        Path | None, typer.Option("--where", help="SQL file that says what of the credit is trained.")
    ] = None,
    beside: Annotated[
        list[str] | None, typer.Option("--with", help="A further store, PATH or PATH@EPOCH; may be repeated.")
    ] = None,
    epochs: Annotated[list[int] | None, typer.Option("--epoch", help="Only this epoch; may be repeated.")] = None,
    params: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the SQL, NAME=VALUE, for example lambda=0.4.")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Write the credit rows to this .parquet, .csv or .json file.")
    ] = None,
    head: Annotated[int, typer.Option(min=0, max=10_000, help="Also print the first rows.")] = 0,
    groups: Annotated[bool, typer.Option("--groups", help="Name every dropped group with its reason.")] = False,
    sealed: Annotated[bool, typer.Option("--sealed", help="Read sealed epochs only, as a learn phase does.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Show what each stage pays, which groups can train and why the others cannot.

    Example: sera credit runs/demo/store --method rao --epoch 0 --rows credit.parquet
    """
    if method == "list":
        from learn.methods_cli import methods

        methods(None, as_json=as_json)
        return
    if store is None:
        msg = "no store given"
        raise UsageError(msg, hint="sera credit STORE --method NAME, or sera credit --method list")
    import sera_data as sd
    from learn.credit import compute_credit
    from learn.credit_summary import summarise
    from learn.store_needs import require_collected
    from learn.untrainable import untrainable
    from learn.where import read_where
    from sera_data.damage import blaming

    _check_output(rows)
    chosen = _method(method, credit_file, params or [])
    where = None if where_file is None else read_where(where_file)
    opened = sd.open(store)
    view: View = "sealed" if sealed else "live"
    if epochs:
        _check_epochs(opened.connect(view=view), epochs)
    connection = _connect(opened, view, epochs or None, beside or [])
    with blaming(connection):
        require_collected(connection, chosen)
        result = compute_credit(connection, chosen, where=where)
    summary = {"store": str(store), "epochs": sorted(epochs or []), **summarise(result, chosen.stages)}
    summary["untrainable"] = [str(one) for one in untrainable(result) if one.stage in chosen.stages]
    if where is not None:
        summary["where_sha256"] = where.sha256
    if rows is not None:
        _write_rows(result, rows)
    if as_json:
        print(json.dumps(summary, indent=2, allow_nan=False))
        return
    _print(summary, groups=groups)
    if head:
        _print_rows(result, head)
    if rows is not None:
        print(f"{summary['rows']} rows written to {rows}")


def _connect(opened: Store, view: View, epochs: list[int] | None, beside: list[str]) -> DuckDBPyConnection:
    """A confined connection to the store and further ones."""
    from learn.stores import further_stores, require_different_trees
    from sera_data.duck import confine, connect
    from sera_data.listing import list_beside

    if not beside:
        return opened.connect(view=view, epochs=epochs, files="own")
    listing = list_beside(opened.listing(view=view, epochs=epochs), further_stores(beside))
    connection = connect(listing)
    confine(connection, listing)
    require_different_trees(connection)
    return connection


def _method(name: str, credit_file: Path | None, params: list[str]) -> Method:
    from learn.method import open_method

    method = open_method(name)
    if credit_file is not None:
        method = method.with_credit(credit_file)
    values: dict[str, float | str] = {}
    for text in params:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            msg = f"--set wants NAME=VALUE, got {text!r}"
            raise UsageError(msg, hint="for example --set lambda=0.4")
        values[key.strip()] = _value(value.strip())
    allowed = {name for rule in method.rules for name in rule.param_names()}
    unknown = sorted(set(values) - allowed)
    if unknown:
        msg = f"--set {unknown[0]}: no such parameter; allowed: {', '.join(sorted(allowed)) or 'none'}"
        raise UsageError(msg)
    return method.with_params(values)


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _check_epochs(connection: DuckDBPyConnection, epochs: list[int]) -> None:
    from learn.registered import query

    known = [epoch for (epoch,) in connection.sql(query("epochs")).fetchall()]
    missing = sorted(set(epochs) - set(known))
    if missing:
        msg = f"--epoch {missing[0]}: the store has no nodes of that epoch; it has {known}"
        raise UsageError(msg)


def _check_output(path: Path | None) -> None:
    if path is not None and path.suffix not in (".parquet", ".csv", ".json"):
        msg = f"--rows wants a .parquet, .csv or .json file, got {path}"
        raise UsageError(msg)


def _write_rows(result: Credit, path: Path) -> None:
    """Stream the rows into the file, written aside and renamed."""
    from sera_data.output import output_file

    with output_file(path) as aside:
        _stream_rows(result, aside, path.suffix)


def _stream_rows(result: Credit, aside: Path, suffix: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from learn.credit import SCHEMA

    if suffix == ".parquet":
        with pq.ParquetWriter(aside, SCHEMA) as writer:
            for batch in result.batches():
                writer.write_batch(batch.cast(SCHEMA))
    elif suffix == ".csv":
        from pyarrow import csv

        with csv.CSVWriter(aside, SCHEMA) as table:
            for batch in result.batches():
                table.write_batch(batch.cast(SCHEMA))
    else:
        with aside.open("w", encoding="utf-8") as handle:
            separator = "["
            for batch in result.batches():
                for row in pa.RecordBatch.to_pylist(batch):
                    handle.write(separator + json.dumps(row))
                    separator = ",\n"
            handle.write("[]" if separator == "[" else "]")


def _print(summary: dict[str, Any], *, groups: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"credit of {summary['store']}, method {summary['method']}", soft_wrap=True)
    table = Table(box=None, padding=(0, 1, 0, 0))
    names = ("stage", "depth", "trajectories", "rows", "tokens", "reward", "advantage", "|advantage|")
    for name in names:
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage, facts in summary["stages"].items():
        for line in facts["by_depth"]:
            means = (_number(line[m]) for m in ("mean_reward", "mean_advantage", "mean_abs_advantage"))
            counts = (str(line[c]) for c in ("depth", "trajectories", "rows", "tokens"))
            table.add_row(stage, *counts, *means)
        if not facts["by_depth"]:
            table.add_row(stage, *["-"] * (len(names) - 1))
    console.print(table)
    for stage, facts in summary["stages"].items():
        console.print(f"{stage}: {facts['groups_used']} groups can train, {facts['groups_dropped']} dropped")
        for reason, count in facts["reasons"].items():
            console.print(f"  {count} x {reason}", soft_wrap=True)
    for text in summary["untrainable"]:
        console.print(f"cannot be trained: {text}", soft_wrap=True)
    if groups:
        _print_groups(console, summary)
    console.print(f"rows {summary['rows']}, sha256 {summary['credit_sha256']}", soft_wrap=True)


def _print_rows(result: Credit, n: int) -> None:
    from learn.registered import query

    relation = result.connection.sql(query("credit_head"), params={"n": n})
    for row in relation.fetchall():
        facts = dict(zip(relation.columns, row, strict=True))
        span = f"[{facts['token_start']}, {facts['token_end']})"
        paid = f"{_number(facts['reward'])} - {_number(facts['baseline'])} -> {_number(facts['advantage'])}"
        trained = "" if facts["trained"] else "  not trained"
        print(f"{facts['stage']}  {facts['group_id']}  {facts['turn_id']} {span}  {paid}{trained}")


def _print_groups(console: Any, summary: dict[str, Any]) -> None:
    for dropped in summary["dropped"]:
        console.print(f"  {dropped['stage']} {dropped['group_id']}: {dropped['reason']}", soft_wrap=True)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"
