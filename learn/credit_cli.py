"""`sera credit`: show the credit of a store under a method; nothing is trained or stored.

Invariant: reads the store only; the same store and method print the same hash. Torch is never imported.

Run: ``sera credit runs/demo/store --method sera``.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sera_data.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from learn.credit import Credit
    from learn.method import Method

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def credit(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Directory that holds store.json.")],
    method: Annotated[
        str, typer.Option(help="sera, rao, their *_shuffled controls, a registered name, or a .yaml or .sql file.")
    ] = "sera",
    credit_file: Annotated[
        Path | None, typer.Option("--credit", help="Your own SQL file in place of the method's rules.")
    ] = None,
    epochs: Annotated[list[int] | None, typer.Option("--epoch", help="Only this epoch; may be repeated.")] = None,
    params: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the SQL, NAME=VALUE, for example lambda=0.4.")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Write the credit rows to this .parquet, .csv or .json file.")
    ] = None,
    sealed: Annotated[bool, typer.Option("--sealed", help="Read sealed epochs only, as a learn phase does.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Show what each stage pays, which groups can train and why the others cannot.

    Example: sera credit runs/demo/store --method rao --epoch 0 --rows credit.parquet
    """
    import sera_data as sd
    from learn.credit import compute_credit
    from learn.credit_summary import summarise

    _check_output(rows)
    chosen = _method(method, credit_file, params or [])
    opened = sd.open(store)
    view: Literal["live", "sealed"] = "sealed" if sealed else "live"
    if epochs:
        _check_epochs(opened.connect(view=view), epochs)
    connection = opened.connect(view=view, epochs=epochs or None, files="own")
    result = compute_credit(connection, chosen)
    summary = {"store": str(store), "epochs": sorted(epochs or []), **summarise(result, chosen.stages)}
    if rows is not None:
        _write_rows(result, rows)
    if as_json:
        print(json.dumps(summary, indent=2, allow_nan=False))
        return
    _print(summary)
    if rows is not None:
        print(f"{len(result.rows)} rows written to {rows}")


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
    from learn.credit import SCHEMA

    frame = result.rows.select(SCHEMA.names)
    content = io.BytesIO()
    if path.suffix == ".parquet":
        frame.write_parquet(content)
    elif path.suffix == ".csv":
        frame.write_csv(content)
    else:
        frame.write_json(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())


def _print(summary: dict[str, Any]) -> None:
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
    console.print(f"rows {summary['rows']}, sha256 {summary['credit_sha256']}", soft_wrap=True)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"
