"""What crosses the border between a cell of code and this process: calls and answers, faults, and what is left behind.

Invariant: only plain values cross; no object of this process is ever handed to a cell, and what comes from one is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class SandboxDown(Exception):
    """No worker can be started: a fault of this machine, not of a cell."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """What an agent's cells left behind: the interpreter's state as bytes, and the number of its next source."""

    state: bytes
    fed: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call that leaves the sandbox: plain arguments, and its characters in the cell (None: made by older code)."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    call_id: int
    span: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Later:
    """Answer to a call whose value comes when the cell awaits it."""


@dataclass(frozen=True, slots=True)
class Raised:
    """Answer to a call that raises an exception in the cell: a builtin's name and a message."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a cell ended early: the exception's type by name, its message, the line of the cell (from 1) if known."""

    kind: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line is not None else ""
        return f"{self.kind}: {self.message}{where}" if self.message else f"{self.kind}{where}"


@dataclass(frozen=True, slots=True)
class Stop:
    """Answer to a call after which the cell does not go on; `fault` says why, None: it is simply over."""

    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class CellResult:
    """How a cell ended: its output and fault, and the notebook to go on with.

    kept: whether the notebook holds what this cell did to its variables; a cell that hit a limit leaves the notebook
    as it was before.
    """

    notebook: Notebook | None
    output: str
    fault: Fault | None
    kept: bool


class Host(Protocol):
    """What a cell may call.

    names: the functions it sees. anywhere: whether `call` may run on another thread while the cell's own coroutine
    waits; otherwise it is called on the event loop, which costs more.
    """

    names: frozenset[str]
    anywhere: bool

    def call(self, call: Call) -> Any:
        """Plain value of a call, or Later, Raised or Stop. What it raises ends the cell and reaches the caller."""

    async def wait(self, call_ids: Sequence[int]) -> Mapping[int, Any] | Stop:
        """Values of one or more of the calls that were answered with Later; the cell waits and holds no worker."""
