"""The `sera notebook` command: opens one of the packaged marimo notebooks on a store.

Invariant: packaged notebooks are never edited in place; `--edit` works on a copy; the exit code is marimo's.
Run: ``sera notebook calibration runs/demo/store``
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from sera_data.errors import SeraError, UsageError

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.command()
def notebook(
    name: Annotated[str, typer.Argument(help="Notebook: calibration.")],
    store: Annotated[Path, typer.Argument(help="Store to open it on: the directory that holds store.json.")],
    run: Annotated[bool, typer.Option("--run", help="Run as a script: print the summary, open nothing.")] = False,
    edit: Annotated[
        Path | None, typer.Option("--edit", help="Copy the notebook to this file and open it in the editor.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port of the app or editor.")] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser; print the address.")] = False,
) -> None:
    """Open a notebook on a store as an app, in the editor, or as a script. It uses the audit's own SQL files.

    Examples:  sera notebook calibration examples/store   ·   sera notebook calibration STORE --edit mine.py
    """
    import sera_data as sd

    source = _notebook(name)
    sd.open(store)
    if find_spec("marimo") is None:
        msg = "'sera notebook' needs marimo, which is not installed"
        raise SeraError(
            msg, hint="pip install 'sera-data[notebook]'; 'sera audit STORE' shows the same numbers without it"
        )
    arguments = ["--", "--store", str(store.resolve())]
    if run:
        raise typer.Exit(subprocess.call([sys.executable, str(source), *arguments]))
    if edit is not None:
        if edit.exists():
            msg = f"{edit} exists and would be overwritten"
            raise UsageError(msg, hint=f"name a new file, or open yours: marimo edit {edit} -- --store {store}")
        edit.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
        command = ["edit", str(edit)]
    else:
        command = ["run", str(source), "--include-code"]
    command += ["--headless"] if headless else []
    command += ["--port", str(port)] if port is not None else []
    raise typer.Exit(subprocess.call([sys.executable, "-m", "marimo", *command, *arguments]))


def _notebook(name: str) -> Path:
    directory = Path(__file__).parent / "notebooks"
    known = sorted(path.stem for path in directory.glob("*.py") if path.stem != "__init__")
    if name not in known:
        msg = f"no notebook {name!r}; allowed: {', '.join(known)}"
        raise UsageError(msg)
    return directory / f"{name}.py"
