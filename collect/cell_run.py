"""One cell in the interpreter, segment by segment: it runs until it ends or waits, then it is bytes.

Invariant: a segment holds a worker from its start to its end and nothing after; whatever the cell does, a segment ends
by the limits of its session or the watchdog of the pool. An exception keeps what the cell did to its variables,
a limit does not. Runs on a thread of the sandbox, never on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pydantic_monty as monty

from collect.crossing import Call, CellResult, Fault, Later, Notebook, Raised, SandboxDown, Stop
from collect.printed import Printed
from collect.settings import SandboxSettings
from collect.shown import shown

PRELUDE = "import asyncio"
STATE_BYTES = 1 << 20  # largest notebook that is kept between two cells
LIMITS = ("feed time limit exceeded", "turn time limit exceeded", "memory limit exceeded", "the worker exceeded its")
MESSAGE_CHARS = 300

Snapshot = monty.SyncSnapshot


class CellRun:
    """One cell from its first to its last segment. `pending`: calls it waits for; `result`: set when it has ended."""

    def __init__(
        self, settings: SandboxSettings, code: str, *, notebook: Notebook | None, names: frozenset[str]
    ) -> None:
        self._settings, self._code, self._notebook, self._names = settings, code, notebook, names
        self._printed = Printed(settings.output_chars, settings.print_chars)
        self._fed = notebook.fed if notebook else 1
        self._frozen: bytes | None = None
        self._lost = False
        self.pending: list[int] = []
        self.result: CellResult | None = None

    def advance(
        self, session: monty.MontySession, serve: Callable[[Call], Any], answers: Mapping[int, Any] | None
    ) -> None:
        """Run one segment in a fresh session; `answers` to what the cell waits for, None for its first segment."""
        try:
            self._load(session)
        except monty.MontyError as error:
            if self._notebook is None and self._frozen is None and not self._lost:
                raise SandboxDown(str(error)) from error
            self._end(Fault("MemoryError", f"the variables of earlier cells are lost: {_one_line(str(error))}"))
            return
        try:
            snapshot = self._entered(session, answers)
            while not isinstance(snapshot, (monty.MontyComplete, monty.FutureSnapshot)):
                answered = self._answer(snapshot, serve)
                if answered is None:
                    return
                snapshot = answered
            if isinstance(snapshot, monty.FutureSnapshot):
                self._frozen, self.pending = snapshot.dump(), sorted(snapshot.pending_call_ids)
                return
            self._show(snapshot.output)
            self._keep(session, None, numbered=True)
        except monty.MontyError as error:
            self._fail(session, error)

    def stop(self, fault: Fault | None) -> None:
        """End a cell that waits."""
        self._end(fault)

    def _load(self, session: monty.MontySession) -> None:
        if self._frozen is not None:
            return
        if self._notebook is None:
            session.feed_run(PRELUDE)
        else:
            notebook, self._notebook, self._lost = self._notebook, None, True  # unreadable ones must not come back
            session.load_session(notebook.state)
            self._notebook, self._lost = notebook, False

    def _entered(self, session: monty.MontySession, answers: Mapping[int, Any] | None) -> Snapshot:
        if self._frozen is None:
            return session.feed_start(self._code, print_callback=self._printed.take)
        snapshot = session.load_snapshot(self._frozen, print_callback=self._printed.take)
        assert isinstance(snapshot, monty.FutureSnapshot)
        return snapshot.resume({call_id: {"return_value": value} for call_id, value in (answers or {}).items()})

    def _answer(
        self, snapshot: monty.FunctionSnapshot | monty.NameLookupSnapshot, serve: Callable[[Call], Any]
    ) -> Snapshot | None:
        """Answer a name that the cell does not define, or a call; None when the cell is not to go on."""
        if isinstance(snapshot, monty.NameLookupSnapshot):
            known = snapshot.variable_name in self._names
            return snapshot.resume(value=_function(snapshot.variable_name)) if known else snapshot.resume()
        if snapshot.is_os_function:
            return snapshot.resume_not_handled()
        name = str(snapshot.function_name)
        if name not in self._names:
            return snapshot.resume({"exc_type": "NameError", "message": f"name '{_one_line(name)}' is not defined"})
        value = serve(Call(name, snapshot.args, snapshot.kwargs, snapshot.call_id, self._span(snapshot.position)))
        if isinstance(value, Stop):
            self._end(value.fault)
            return None
        if isinstance(value, Raised):
            answer: Any = {"exc_type": value.kind, "message": value.message}
        else:
            answer = {"future": ...} if isinstance(value, Later) else {"return_value": value}
        return snapshot.resume(answer)

    def _span(self, position: monty.SourceRange) -> tuple[int, int] | None:
        """Characters of the cell; positions come as bytes of the piece of source that they lie in."""
        if position.filename != self._source():
            return None
        if self._code.isascii():
            return position.start, position.end
        source = self._code.encode()
        start = len(source[: position.start].decode(errors="ignore"))
        return start, start + len(source[position.start : position.end].decode(errors="ignore"))

    def _source(self) -> str:
        return f"<python-input-{self._fed}>"

    def _show(self, value: Any) -> None:
        """Print the value of the last expression, as a notebook does."""
        if value is not None:
            self._printed.show(shown(value) + "\n")

    def _keep(self, session: monty.MontySession, fault: Fault | None, *, numbered: bool) -> None:
        """Freeze what the cell left behind; the interpreter gives no number to source that is nested too deeply."""
        state = session.dump()
        if len(state) > STATE_BYTES:
            self._end(Fault("MemoryError", f"variables take more than {STATE_BYTES >> 20} MB between cells"))
        else:
            fed = self._fed + 1 if numbered else self._fed
            self.result = CellResult(Notebook(state, fed), self._printed.text(), fault, kept=True)

    def _fail(self, session: monty.MontySession, error: monty.MontyError) -> None:
        if self._printed.too_much:
            self._end(Fault("OutputLimitError", f"more than {self._settings.print_chars} characters printed"))
            return
        if isinstance(error, monty.MontyCrashedError):
            broken = Fault("SandboxError", "the interpreter broke down")
            self._end(self._too_long() if error.timed_out else broken)
            return
        inner = error.exception()
        kind, message = type(inner).__name__, _one_line(str(inner))
        if message.startswith(LIMITS):
            self._end(self._too_long() if kind == "TimeoutError" else self._too_large())
        else:
            frames = error.traceback() if isinstance(error, (monty.MontyRuntimeError, monty.MontySyntaxError)) else []
            numbered = not frames or any(frame.filename == self._source() for frame in frames)
            self._keep(session, Fault(kind, message, self._line(frames)), numbered=numbered)

    def _line(self, frames: Sequence[monty.Frame]) -> int | None:
        own = [frame.line for frame in frames if frame.filename == self._source()]
        return own[-1] if own else None

    def _too_long(self) -> Fault:
        return Fault("TimeoutError", f"the cell ran longer than {self._settings.seconds:g} s")

    def _too_large(self) -> Fault:
        return Fault("MemoryError", f"the cell used more than {self._settings.memory_mb} MB")

    def _end(self, fault: Fault | None) -> None:
        """End without what the cell did to its variables: the notebook stays as it was before."""
        self.result = CellResult(self._notebook, self._printed.text(), fault, kept=False)


def _function(name: str) -> Callable[[], None]:
    """Stands for a host function of that name; it is never called here."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARS else line[: MESSAGE_CHARS - 3] + "..."
