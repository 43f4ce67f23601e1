"""A counter on stderr for work over rows whose number is not known.

Invariant: it never touches stdout, and shows nothing where stderr is no terminal.

Run: ``for row in counted(rows, "chats"): ...``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def counted(rows: Iterable[T], what: str) -> Iterator[T]:
    """The same rows; how many have passed is shown while they do."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{what} {{task.completed:,.0f}}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        for row in rows:
            yield row
            bar.advance(task)
