"""The sandbox: cells of model-written Python, run by an interpreter of their own in worker processes.

Invariant: nothing of a cell runs in this process and nothing of this process is reachable from a cell. The interpreter
(Monty) knows no file, network, process or environment; a worker has an empty environment, an allocator that ends it at
the memory limit, and a watchdog. Only plain values cross, so a tool has no attributes that lead anywhere. A cell holds
a worker only while its own code runs: when it waits for something slow it is frozen to bytes and the worker goes to
the next cell, so that a few workers serve any number of agents. What an agent's cells leave behind (its notebook) is
bytes as well.

Use: ``await open_sandbox(settings).run(code, notebook=None, host=host, seed=1)``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from collect.settings import SandboxSettings
from sera_data.errors import UsageError

if TYPE_CHECKING:
    import pydantic_monty as monty

PRELUDE = "import asyncio"
GRACE_S = 0.5  # what the watchdog waits beyond the time limit
CHECKOUT_S = 600.0  # longest wait for a free worker; reached only when workers cannot be started
STATE_BYTES = 1 << 20  # largest notebook that is kept between two cells
UNLIMITED_SUSPENSIONS = 1 << 30  # the host counts calls itself, so that a limit ends the cell by its own name
LOST = ("feed time limit exceeded", "turn time limit exceeded", "memory limit exceeded", "the worker exceeded its")


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
class Stop:
    """Answer to a call after which the cell does not go on; `fault` says why, None: it is simply over."""

    fault: Fault | None = None


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
class CellResult:
    """How a cell ended: notebook to go on with (the one before it when a limit was hit), what it showed, its fault."""

    notebook: Notebook | None
    output: str
    fault: Fault | None
    kept: bool


class Host(Protocol):
    """What a cell may call. `names` are the functions it sees."""

    names: frozenset[str]

    def call(self, call: Call) -> Any:
        """Plain value of a call, or Later, Raised or Stop. What it raises ends the cell and reaches the caller."""

    async def wait(self, call_ids: Sequence[int]) -> Mapping[int, Any] | Stop:
        """Values of one or more of the calls that were answered with Later; the cell waits and holds no worker."""


@dataclass(slots=True)
class Printed:
    """What a cell printed: the first and last characters up to `shown`, and how many there were."""

    shown: int
    limit: int
    count: int = 0
    head: list[str] = field(default_factory=list)
    tail: str = ""
    room: int = 0

    def __post_init__(self) -> None:
        self.room = self.shown - self.shown // 4

    def take(self, _: str, text: str) -> None:
        """Take in more; raises MemoryError, which ends the cell, beyond the limit."""
        self.count += len(text)
        if self.count > self.limit:
            msg = f"more than {self.limit} characters printed"
            raise MemoryError(msg)
        if self.room > 0:
            self.head.append(text[: self.room])
            text, self.room = text[self.room :], self.room - len(text)
        if text:
            self.tail = (self.tail + text)[-(self.shown // 4) :] if self.shown >= 4 else ""

    def text(self) -> str:
        """The text, with a marker in place of the characters left out."""
        head = "".join(self.head)
        left_out = self.count - len(head) - len(self.tail)
        marker = f"\n[{left_out} characters left out]\n" if left_out > 0 else ""
        return head + marker + self.tail


class Sandbox:
    """A pool of workers with one set of limits, shared by all trees of the process; started when first used."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._pool: monty.AsyncMonty | None = None

    async def run(self, code: str, *, notebook: Notebook | None, host: Host, seed: int) -> CellResult:
        """Run one cell after the ones that the notebook stands for; what `host` raises passes through."""
        run = _Run(self._settings, code, notebook, host)
        pool = await self._opened()
        while run.result is None:
            async with pool.checkout(
                limits={
                    "max_feed_duration_secs": self._settings.seconds,
                    "max_memory": self._settings.memory_mb << 20,
                    "max_recursion_depth": self._settings.recursion,
                    "max_suspensions": UNLIMITED_SUSPENSIONS,
                },
                os_policy={"sleep": "zero", "random_start": {"seed": seed}},
            ) as session:
                await run.advance(session)
            if run.result is None:
                await run.wait()
        return run.result

    async def _opened(self) -> monty.AsyncMonty:
        if self._pool is None:
            pool = _monty().AsyncMonty(
                min_processes=0,
                max_processes=self._settings.workers or max(2, os.cpu_count() or 2),
                checkout_timeout=CHECKOUT_S,
                request_timeout=self._settings.seconds + GRACE_S,
                feed_duration_limit_grace=None,
            )
            await pool.__aenter__()
            if self._pool is None:  # another coroutine may have been first
                self._pool = pool
            else:
                await pool.__aexit__(None, None, None)
        return self._pool


class _Run:
    """One cell from its first to its last segment; between two segments it is `frozen` bytes."""

    def __init__(self, settings: SandboxSettings, code: str, notebook: Notebook | None, host: Host) -> None:
        self._settings, self._code, self._notebook, self._host = settings, code, notebook, host
        self._printed = Printed(settings.output_chars, settings.print_chars)
        self._fed = notebook.fed if notebook else 1
        self._frozen: bytes | None = None
        self._pending: list[int] = []
        self._answers: Mapping[int, Any] = {}
        self.result: CellResult | None = None

    async def advance(self, session: monty.AsyncMontySession) -> None:
        """Run until the cell ends or waits."""
        module = _monty()
        try:
            await self._load(session)
        except module.MontyError as error:
            self._end(Fault("MemoryError", f"the variables of earlier cells are lost: {_one_line(str(error))}"))
            return
        try:
            snapshot = await self._started(session)
            while not isinstance(snapshot, (module.MontyComplete, module.AsyncFutureSnapshot)):
                answered = await self._answer(snapshot)
                if answered is None:
                    return
                snapshot = answered
            if isinstance(snapshot, module.AsyncFutureSnapshot):
                self._frozen, self._pending = snapshot.dump(), sorted(snapshot.pending_call_ids)
                return
            self._show(snapshot.output)
            await self._keep(session, None, ran=True)
        except module.MontyError as error:
            await self._fail(session, error)

    async def wait(self) -> None:
        """Let the host answer what the frozen cell waits for."""
        answers = await self._host.wait(self._pending)
        if isinstance(answers, Stop):
            self._end(answers.fault)
        else:
            self._answers = {call_id: {"return_value": value} for call_id, value in answers.items()}

    async def _load(self, session: monty.AsyncMontySession) -> None:
        if self._frozen is not None:
            return
        if self._notebook is None:
            await session.feed_run(PRELUDE)
        else:
            notebook, self._notebook = self._notebook, None  # one that cannot be read must not come back
            await session.load_session(notebook.state)
            self._notebook = notebook

    async def _started(self, session: monty.AsyncMontySession) -> monty.AsyncSnapshot:
        if self._frozen is None:
            return await session.feed_start(self._code, print_callback=self._printed.take)
        snapshot = await session.load_snapshot(self._frozen, print_callback=self._printed.take)
        assert isinstance(snapshot, _monty().AsyncFutureSnapshot)
        return await snapshot.resume(dict(self._answers))

    async def _answer(self, snapshot: Any) -> monty.AsyncSnapshot | None:
        """Answer a name that the cell does not define, or a call; None when the cell is not to go on."""
        if isinstance(snapshot, _monty().AsyncNameLookupSnapshot):
            known = snapshot.variable_name in self._host.names
            return await (snapshot.resume(value=_function(snapshot.variable_name)) if known else snapshot.resume())
        if snapshot.is_os_function:
            return await snapshot.resume_not_handled()
        name = str(snapshot.function_name)
        if name not in self._host.names:
            return await snapshot.resume({"exc_type": "NameError", "message": f"name '{name}' is not defined"})
        value = self._host.call(
            Call(name, snapshot.args, snapshot.kwargs, snapshot.call_id, self._span(snapshot.position))
        )
        if isinstance(value, Stop):
            self._end(value.fault)
            return None
        if isinstance(value, Raised):
            answer = {"exc_type": value.kind, "message": value.message}
        else:
            answer = {"future": ...} if isinstance(value, Later) else {"return_value": value}
        return await snapshot.resume(answer)

    def _span(self, position: monty.SourceRange) -> tuple[int, int] | None:
        """Characters of the cell; positions come as bytes of the piece of source that they lie in."""
        if position.filename != f"<python-input-{self._fed}>":
            return None
        source = self._code.encode()
        start = len(source[: position.start].decode(errors="ignore"))
        return start, start + len(source[position.start : position.end].decode(errors="ignore"))

    def _show(self, value: Any) -> None:
        """Print the value of the last expression, as a notebook does."""
        if value is None:
            return
        try:
            text = value if isinstance(value, str) else repr(value)
        except (RecursionError, ValueError) as error:  # nested too deeply, or a number of too many digits
            text = f"[a value that cannot be shown: {error}]"
        try:
            self._printed.take("stdout", text + "\n")
        except MemoryError:
            self._printed.count -= len(text) + 1
            self._printed.take("stdout", f"[a value of {len(text)} characters]\n")

    async def _keep(self, session: monty.AsyncMontySession, fault: Fault | None, *, ran: bool) -> None:
        """Freeze what the cell left behind; source that did not even parse (`ran` False) gets no number."""
        state = await session.dump()
        if len(state) > STATE_BYTES:
            self._end(Fault("MemoryError", f"variables take more than {STATE_BYTES >> 20} MB between cells"))
        else:
            fed = self._fed + 1 if ran else self._fed
            self.result = CellResult(Notebook(state, fed), self._printed.text(), fault, kept=True)

    async def _fail(self, session: monty.AsyncMontySession, error: monty.MontyError) -> None:
        module = _monty()
        if isinstance(error, module.MontyCrashedError):
            kind = "TimeoutError" if error.timed_out else "SandboxError"
            self._end(Fault(kind, self._too_long() if error.timed_out else "the interpreter broke down"))
            return
        inner = error.exception()
        kind, message = type(inner).__name__, _one_line(str(inner))
        if message.startswith(LOST):
            self._end(Fault(kind, self._too_long() if kind == "TimeoutError" else self._too_large()))
        elif self._printed.count > self._settings.print_chars:
            self._end(Fault("OutputLimitError", f"more than {self._settings.print_chars} characters printed"))
        else:
            frames = error.traceback() if hasattr(error, "traceback") else []
            ran = any(frame.function_name is not None for frame in frames)
            await self._keep(session, Fault(kind, message, self._line(frames)), ran=ran)

    def _line(self, frames: Sequence[monty.Frame]) -> int | None:
        own = [frame.line for frame in frames if frame.filename == f"<python-input-{self._fed}>"]
        return own[-1] if own else None

    def _too_long(self) -> str:
        return f"the cell ran longer than {self._settings.seconds:g} s"

    def _too_large(self) -> str:
        return f"the cell used more than {self._settings.memory_mb} MB"

    def _end(self, fault: Fault | None) -> None:
        """End without what the cell did to its variables: the notebook stays as it was before."""
        self.result = CellResult(self._notebook, self._printed.text(), fault, kept=False)


_SANDBOXES: dict[tuple[int, SandboxSettings], Sandbox] = {}


def open_sandbox(settings: SandboxSettings) -> Sandbox:
    """The process's sandbox with these limits; its workers end with the process. UsageError when Monty is missing."""
    key = (os.getpid(), settings)
    if key not in _SANDBOXES:
        _monty()
        _SANDBOXES[key] = Sandbox(settings)
    return _SANDBOXES[key]


def _monty() -> Any:
    try:
        import pydantic_monty
    except ImportError as error:
        msg = f"the dialect code needs pydantic-monty: {error}"
        raise UsageError(msg, hint="pip install 'sera-data[code]'") from None
    return pydantic_monty


def _function(name: str) -> Any:
    """Stands for a host function of that name; it is never called here."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "..."
