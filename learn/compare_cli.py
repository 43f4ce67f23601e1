"""`sera compare`: train several methods from one start with equal budgets and seeds, and say what differs.

Invariant: the command can be killed at any moment and repeated; the tables are made from what is done, so they are
there after the first cell and say with how many seeds. Claims are in the config and cannot be changed after the start.

Run: ``sera compare --config FILE --out runs/NAME``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from learn.compare_config import CompareConfig
    from learn.comparison import Cell

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def compare(
    *,
    config: Annotated[Path, typer.Option(help="YAML file: loop, rows, seeds, tasks, protocols, probe, contrasts.")],
    out: Annotated[Path, typer.Option(help="Directory of the comparison; made when it is not there.")],
    jobs: Annotated[int, typer.Option(min=1, help="Cells side by side.")] = 1,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override of a setting, a.b=value; may be repeated.")
    ] = None,
    cell: Annotated[str | None, typer.Option(help="Only this cell, ROW.sSEED or start, in this process.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Only tables and page of what is done.")] = False,
    power: Annotated[
        bool, typer.Option("--power", help="Only the smallest difference that this comparison would see.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show config, cells and commands; do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Train methods with one budget and the same seeds, measure all of them alike, and test the claims of the config.

    Example: sera compare --config configs/pocket_table.yaml --out runs/pocket_table --jobs 2

    Before: sera compare --config configs/pocket_table.yaml --out runs/pocket_table --power
    """
    from learn.compare_config import CompareConfig
    from sera_data.config import load_config

    known = load_config(CompareConfig, config, overrides or [])
    _require_files(known)
    if dry_run:
        _show(known, out, as_json=as_json)
    elif power:
        _power(known, out, as_json=as_json)
    elif cell is not None:
        _cell(known, out, cell)
    else:
        _compare(known, out, config, overrides or [], jobs, as_json, only_report=report)


def _require_files(config: CompareConfig) -> None:
    from learn.method import open_method
    from sera_data.errors import ConfigError

    named = {"loop": config.loop, "tasks": config.tasks, "evaluation": config.evaluation}
    named |= {"probe.config": config.probe.config, "probe.tasks": config.probe.tasks} if config.probe else {}
    for key, path in named.items():
        if path is not None and not Path(path).is_file():
            msg = f"{key}: file not found: {path}"
            hint = "'sera tasks build' makes one" if key.endswith("tasks") else "paths are relative to where you are"
            raise ConfigError(msg, hint=hint)
    for row in config.rows.values():
        open_method(row.method)


def _show(config: CompareConfig, out: Path, *, as_json: bool) -> None:
    from learn.comparison import cells, steps

    body = {
        "cells": {
            cell.name: [
                " ".join(map(str, ["sera", *command])) for _, command in steps(config, cell, out, policy="POLICY")
            ]
            for cell in cells(config)
        },
        "config": config.resolved(),
    }
    if as_json:
        typer.echo(json.dumps(body))
        return
    import yaml

    typer.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=1000), nl=False)


def _power(config: CompareConfig, out: Path, *, as_json: bool) -> None:
    from learn.comparison_figures import read_figures
    from learn.power import power_table

    tasks = sum(1 for line in Path(config.tasks).read_text(encoding="utf-8").splitlines() if line.strip())
    body = power_table(config, read_figures(config, out), tasks=tasks)
    if as_json:
        typer.echo(json.dumps(body))
        return
    known = body["spreads"]
    typer.echo(
        f"{body['protocol']}: {body['tasks']} tasks x {body['samples']} samples, {body['contrasts']} contrasts (Holm),"
        f" chance {body['chance']:g}\nspread between seeds {100 * known['seed_sd']:.1f} points, of the effect over"
        f" tasks {100 * known['effect_sd']:.1f}, p (1 - p) {known['within']:.3f} ({known['source']})"
    )
    for row in body["rows"]:
        mark = "  <- planned" if row["planned"] else ""
        typer.echo(f"{row['seeds']:>3} seeds: {100 * row['smallest_effect']:5.1f} points{mark}")


def _cell(config: CompareConfig, out: Path, name: str) -> None:
    from collect.interruption import Interruption
    from learn.comparison import cells, play_cell
    from learn.run_lock import sole_process
    from sera_data.errors import UsageError

    known = {cell.name: cell for cell in cells(config)}
    if name not in known:
        msg = f"no cell {name!r}; allowed: {', '.join(known)}"
        raise UsageError(msg, hint="a cell is ROW.sSEED, or start")
    with Interruption().active(), sole_process(out / name, work="cell"):
        typer.echo(json.dumps(play_cell(config, known[name], out)))


def _compare(
    config: CompareConfig,
    out: Path,
    config_file: Path,
    overrides: list[str],
    jobs: int,
    as_json: bool,
    *,
    only_report: bool,
) -> None:
    from collect.interruption import Interruption
    from learn.comparison import open_comparison, play
    from learn.run_lock import sole_process

    with Interruption().active(), sole_process(out, work="comparison"):
        open_comparison(config, out)
        if not only_report:
            change = _announce(config, out)
            play(config, out, config_file=config_file, overrides=overrides, jobs=jobs, on_change=change)
        body = _report(config, out)
    if as_json:
        typer.echo(json.dumps(body))
        return
    from learn.comparison_page import print_tables

    print_tables(body)
    typer.echo(f"report: {out / 'compare.html'}")


def _report(config: CompareConfig, out: Path) -> dict[str, Any]:
    from learn.comparison_figures import read_figures
    from learn.comparison_page import write_report
    from learn.comparison_table import compare_body

    body = compare_body(config, read_figures(config, out))
    write_report(body, out)
    return body


def _announce(config: CompareConfig, out: Path) -> Callable[[Cell, str], None]:
    """Counts cells on stderr, and makes the report anew after each."""
    from rich.console import Console

    from learn.comparison import cells, finished

    console, all_cells = Console(stderr=True), cells(config)

    def change(cell: Cell, what: str) -> None:
        done = sum(finished(config, each, out) for each in all_cells)
        text = f"[{done}/{len(all_cells)}] {cell.name}: {what}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
        if what == "done":
            _report(config, out)

    return change
