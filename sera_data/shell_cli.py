"""`sera data shell`: SQL over a store at a prompt with history and completion, or from a pipe.

Invariant: the shell changes nothing in the store. At a prompt a fault is printed and the next statement is awaited; a
script from a pipe ends at its first fault with that fault's exit code. Ctrl-C at the prompt drops the line, during a
query it ends that query.

Run: ``sera data shell STORE``, or ``sera data shell STORE < questions.sql``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sera_data.errors import SeraError
from sera_data.sql_cli import ViewName
from sera_data.store_argument import StorePath, open_path

if TYPE_CHECKING:
    import duckdb

    from sera_data.shell import Shell

T = TypeVar("T")
POLL_S = 0.05
"""How often a waiting prompt looks for Ctrl-C while a query runs."""


def shell(
    store: StorePath,
    view: Annotated[ViewName, typer.Option(help="live: committed shards too; sealed: sealed only.")] = ViewName.live,
    snapshot: Annotated[str | None, typer.Option(help="Read what this snapshot names.")] = None,
    history: Annotated[Path | None, typer.Option(help="File that keeps what was typed.")] = None,
) -> None:
    """Ask a store in SQL, statement by statement; `.help` lists the commands, `.quit` leaves.

    Example: sera data shell runs/demo/store
    """
    from sera_data.query import run_query
    from sera_data.shell import Shell, feed_all

    connection = open_path(store).connect(view=view.value, snapshot=snapshot)
    if not sys.stdin.isatty():
        feed_all(Shell(connection, name=store), sys.stdin)
        return
    asked = Shell(
        connection,
        name=store,
        run=lambda text: interruptible_call(connection, lambda: run_query(connection, text, path=store)),
    )
    print(f"store {store}: SQL ends in ';'. .tables lists what there is, .help the commands, .quit leaves.")
    with _own_signals():
        converse(asked, prompt(asked, history or _history_file()))


def converse(asked: Shell, read: Callable[[str], str]) -> None:
    """Read and run until `.quit` or the end of the input; faults are printed. read: takes the prompt, gives a line."""
    while asked.open:
        try:
            asked.feed(read("...> " if asked.waiting else "sera> "))
        except KeyboardInterrupt:
            asked.drop()
        except EOFError:
            return
        except SeraError as error:
            asked.drop()
            print(f"error: {error}", file=sys.stderr)


def prompt(asked: Shell, history: Path, **terminal: Any) -> Callable[[str], str]:
    """A line reader with history, completion and colours; terminal: input and output of prompt_toolkit."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    history.parent.mkdir(parents=True, exist_ok=True)
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(history)),
        completer=WordCompleter(asked.words(), ignore_case=True, WORD=False),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        **terminal,
    )
    return session.prompt


def interruptible_call(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """The result of `work`, run beside this thread, so that Ctrl-C reaches it at once and ends only this query."""
    done: list[T] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def target() -> None:
        try:
            done.append(work())
        except BaseException as error:  # carried over to the thread that asked
            failed.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=target, daemon=True)
    try:
        thread.start()
        while not ended.wait(POLL_S):  # not join: Python 3.11 takes a thread for dead when Ctrl-C strikes during it
            pass
    except BaseException:
        while thread.ident is not None and not ended.wait(POLL_S):
            connection.interrupt()
        raise
    if failed:
        raise failed[0]
    return done[0]


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """At a prompt Ctrl-C ends a query, not the command, so it must not wake what ends every query of a command."""
    before = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "sera" / "sql_history"
