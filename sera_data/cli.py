"""The `sera` command: finds the other packages' commands by entry point and runs one.

Invariant: nothing heavy is imported before a command is chosen, so `--help` and usage errors come at once; a
command whose extra is not installed is listed and says how to install it. Every fault, foreseen or not, is one line on
stderr and an exit code: 0 ok, 1 fault, 2 usage or config, 3 gate failed, 75 preempted (SIGTERM, SIGUSR1), 130 Ctrl-C,
from the first import on. SERA_TRACEBACK=1 shows where an unforeseen one came from.

Run: ``sera --help`` or ``python -m sera_data --help``.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import signal
import sys
import traceback
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

from sera_data.errors import SeraError
from sera_data.stops import Stopped, Stops, announce, stop_message

GROUP = "sera.commands"

ABOUT: dict[str, str] = {
    "demo": "Run the whole loop with the pocket policy on this machine",
    "tasks": "Build or import tasks",
    "worlds": "List the registered worlds",
    "collect": "Collect trees into a store",
    "label": "Add labels of a judge or a program to stored nodes",
    "refresh": "Write rubrics, scores and log-probabilities again for what is stored",
    "eval": "Evaluate a policy on tasks",
    "methods": "List the methods, or show one with its switches",
    "credit": "Show the credit of a store under a method",
    "learn": "Train from a sealed epoch",
    "loop": "Alternate collect and learn phases",
    "plan": "Plan memory, tokens, time and cost of a loop",
    "compare": "Train several methods with one budget and test what differs",
    "audit": "Audit rubric calibration",
    "notebook": "Open a notebook on a store",
    "policy": "Inspect a policy directory",
    "pocket": "Build or check the pocket policy",
    "data": "Look into, exchange, seal, verify and clean a store",
}

EXTRA: dict[str, str] = {
    "torch": "learn",
    "transformers": "learn",
    "tokenizers": "learn",
    "jinja2": "learn",
    "deepspeed": "learn",
    "marimo": "notebook",
    "httpx2": "judge",
    "gguf": "gguf",
    "accelerate": "gguf",
    "huggingface_hub": "hub",
}


READERS = ("duckdb", "_duckdb", "pyarrow", "polars")
"""Libraries that read the store; what they raise unforeseen is most often about a damaged file."""


def commands() -> dict[str, EntryPoint]:
    """Registered commands by name, the built-in ones in the order of ABOUT, then the users' own."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {n: found[n] for n in [*ABOUT, *sorted(set(found) - set(ABOUT))] if n in found}


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    stops = Stops()
    try:
        with stops.active():
            return _flushed(_main(argv, stops))
    except (KeyboardInterrupt, Stopped):
        return _stopped(stops)


def _main(argv: list[str] | None, stops: Stops) -> int:
    args = sys.argv[1:] if argv is None else argv
    table = commands()
    if not args or args[0] in ("--help", "-h", "help"):
        print(_help(table))
        return 0
    if args[0] == "--version":
        print(f"sera-data {version('sera-data')}")
        return 0
    empty = next((i for i, arg in enumerate(args) if not arg.strip() or re.fullmatch(r"--[\w-]+=", arg)), None)
    if empty is not None:  # most often a shell variable that is not set; as a path it would mean this directory
        place = f"after {args[empty - 1]}" if empty and not args[empty].strip() else args[empty] or "first"
        return _fail(f"an argument is empty ({place}) (hint: leave the option out, or give it a value)", 2)
    name, rest = args[0], args[1:]
    if name not in table:
        near = difflib.get_close_matches(name, table, n=1)
        hint = f"did you mean 'sera {near[0]}'?" if near else "'sera --help' lists the commands"
        return _fail(f"no command {name!r}; allowed: {', '.join(table)} (hint: {hint})", 2)
    return _run(name, table[name], rest, stops)


def _run(name: str, entry: EntryPoint, args: list[str], stops: Stops) -> int:
    try:
        app = entry.load()
        result = app(args=args, prog_name=f"sera {name}", standalone_mode=True)
    except Stopped:
        raise
    except SystemExit as stop:  # typer ends by one, and turns Ctrl-C and a closed pipe into one
        if isinstance(stop.__context__, BrokenPipeError):
            return _closed_pipe()
        return _stopped(stops) if stop.code == 130 else _code(stop.code)
    except Exception as error:
        # a library that a signal struck may raise an error of its own, as DuckDB does
        return _fault(name, error) if stops.number is None else _stopped(stops)
    return _code(result)


def _fault(name: str, error: Exception) -> int:
    match error:
        case SeraError():
            return _fail(str(error), error.exit_code)
        case ModuleNotFoundError():
            return _missing(name, error)
        case BrokenPipeError():
            return _closed_pipe()
        case OSError():
            return _fail(_disk(error), 1)
    return _unforeseen(name, error)  # the last line of defence: one line instead of a page of frames


def _flushed(code: int) -> int:
    """The exit code once all output has left; output that cannot leave is a fault like any other."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _closed_pipe()
    except OSError as error:
        _silence()
        return _fail(f"the output was not written: {_disk(error)}", 1)
    return code


def _closed_pipe() -> int:
    """The reader of our output went away, for example `| head`: it has what it wanted."""
    _silence()
    return 0


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _stopped(stops: Stops) -> int:
    return announce(*stop_message(stops.number or signal.SIGINT))


def _disk(error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = " (hint: nothing committed is lost; free space, then run the same command again)" if full else ""
    return (error.strerror or str(error)) + (f": {error.filename}" if error.filename else "") + hint


def _unforeseen(name: str, error: Exception) -> int:
    if os.environ.get("SERA_TRACEBACK"):
        traceback.print_exception(error)
    kind = type(error)
    if kind.__module__.partition(".")[0] in READERS:
        hint = "'sera data verify STORE' names damaged files"
        return _fail(f"a file could not be read or written: {kind.__name__}: {error} (hint: {hint})", 1)
    hint = "this is a fault of the program, please report it with what SERA_TRACEBACK=1 shows"
    return _fail(f"'sera {name}' stopped at an unforeseen {kind.__name__}: {error} (hint: {hint})", 1)


def _missing(name: str, error: ModuleNotFoundError) -> int:
    module = (error.name or "").partition(".")[0]
    extra = EXTRA.get(module)
    if extra is None:
        return _unforeseen(name, error)
    return _fail(f"'sera {name}' needs {module} (hint: pip install 'sera-data[{extra}]')", 1)


def _code(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else 1


def _fail(message: str, code: int) -> int:
    return announce(message, code)


def _help(table: dict[str, EntryPoint]) -> str:
    width = max((len(name) for name in table), default=0)
    lines = [f"  {name:<{width}}  {ABOUT.get(name, 'added by ' + table[name].value)}" for name in table]
    return "\n".join(
        [
            "usage: sera COMMAND [options]",
            "",
            "Offline reinforcement learning for recursive language agents: collect trees into a Parquet store,",
            "learn from sealed epochs, audit the rubrics in SQL.",
            "",
            "commands:",
            *lines,
            "",
            "example: sera demo        then: sera audit runs/demo/store",
            "'sera COMMAND --help' shows a command's options and examples.",
        ]
    )
