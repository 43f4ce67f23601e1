"""The `sera notebook` command: opens one of the packaged marimo notebooks on a store.

Invariant: packaged notebooks are never edited in place; `--edit` works on a copy; the exit code is marimo's.
Run: ``sera notebook calibration runs/demo/store``
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from sera_data.errors import SeraError, UsageError
from sera_data.place import place

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def notebook(
    name: Annotated[str, typer.Argument(help="Notebook: calibration, trees, learning or cost.")],
    store: Annotated[
        Path,
        typer.Argument(parser=place, metavar="STORE", help="Store to open it on: the directory that holds store.json."),
    ],
    run: Annotated[bool, typer.Option("--run", help="Run as a script: print the summary, open nothing.")] = False,
    edit: Annotated[
        Path | None, typer.Option("--edit", help="Copy the notebook to this file and open it in the editor.")
    ] = None,
    credit: Annotated[
        Path | None,
        typer.Option("--credit", help="trees: rows of `sera credit STORE --rows FILE`, to mark trained spans."),
    ] = None,
    ratios: Annotated[
        Path | None,
        typer.Option("--ratios", help="trees: file of turn_id and ratios (list), to colour tokens by ratio."),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", help="trees: policy directory whose tokenizer.json gives tokens' text."),
    ] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port of the app or editor.")] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser; print the address.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print as JSON what would start, and start nothing; with --run: its output.")
    ] = False,
) -> None:
    """Open a notebook on a store as an app, in the editor, or as a script. It uses the audit's own SQL files.

    Examples:  sera notebook trees examples/store   ·   sera notebook calibration STORE --edit mine.py
    """
    import sera_data as sd

    source = _notebook(name)
    sd.open(store)
    if find_spec("marimo") is None:
        msg = "'sera notebook' needs marimo, which is not installed"
        raise SeraError(
            msg, hint="pip install 'sera-data[notebook]'; 'sera audit STORE' shows the same numbers without it"
        )
    if edit is not None and edit.exists():
        msg = f"{edit} exists and would be overwritten"
        raise UsageError(msg, hint=f"name a new file, or open yours: marimo edit {edit} -- --store {store}")
    extra = _extra(name, credit=credit, ratios=ratios, tokenizer=tokenizer)
    command = _command(source, store, extra, mode="script" if run else "app", edit=edit)
    if not run:
        command[5:5] = [*(["--headless"] if headless else []), *(["--port", str(port)] if port is not None else [])]
    if as_json:
        raise typer.Exit(_describe(name, store, command, run=run))
    if edit is not None and not run:
        edit.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    raise typer.Exit(subprocess.call(command))


def _extra(name: str, **files: Path | None) -> list[str]:
    """Arguments that only the tree explorer takes; UsageError for another notebook or a file that is not there."""
    given = {key: path for key, path in files.items() if path is not None}
    for key, path in given.items():
        if name != "trees":
            msg = f"--{key} belongs to the notebook trees, got {name!r}"
            raise UsageError(msg, hint=f"sera notebook trees STORE --{key} {path}")
        if not path.exists():
            msg = f"--{key}: {path} does not exist"
            raise UsageError(msg)
    return [part for key, path in given.items() for part in (f"--{key}", str(path.resolve()))]


def _command(
    source: Path, store: Path, extra: list[str], *, mode: Literal["script", "app"], edit: Path | None
) -> list[str]:
    arguments = ["--", "--store", str(store.resolve()), *extra]
    if mode == "script":
        return [sys.executable, str(source), *arguments]
    what = ["edit", str(edit)] if edit is not None else ["run", str(source)]
    return [sys.executable, "-m", "marimo", *what, *([] if edit is not None else ["--include-code"]), *arguments]


def _describe(name: str, store: Path, command: list[str], *, run: bool) -> int:
    """Print one JSON object; returns the script's exit code, 0 when nothing ran."""
    facts: dict[str, object] = {"notebook": name, "store": str(store.resolve()), "command": command}
    code = 0
    if run:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
        code = done.returncode
        facts |= {"exit_code": code, "output": done.stdout}
    print(json.dumps(facts, ensure_ascii=False, indent=1))
    return code


def _notebook(name: str) -> Path:
    directory = Path(__file__).parent / "notebooks"
    known = sorted(path.stem for path in directory.glob("*.py") if path.stem != "__init__")
    if name not in known:
        msg = f"no notebook {name!r}; allowed: {', '.join(known)}"
        raise UsageError(msg)
    return directory / f"{name}.py"
