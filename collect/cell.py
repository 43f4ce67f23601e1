"""A cell of code as a turn: the world's tools, delegate and finish as functions of the sandbox.

Invariant: every call that reaches the world is stored in `tool_calls` with its own delta and stamp, every launch that a
cell asks for is a stored delegation with the characters that asked for it. While a cell runs its agent does nothing
else, and a state that others share is touched on the event loop only. A cell that hits a limit keeps what the world
already did, and loses what it did to its variables. `finish` ends the cell at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collect.acting import apply_action, changes_of
from collect.asking import InfrastructureFault
from collect.context import TreeContext, in_world
from collect.crossing import Call, CellResult, Fault, Later, Raised, SandboxDown, Stop
from collect.decision import Decision, Launch
from collect.delegation import open_launch, report, run_beside, run_launch
from collect.dialect_code import cell_span, names_written
from collect.plain import TooLarge, plain
from collect.records import DelegationRecord, NodeRecord, Row, committed
from collect.sandbox import open_sandbox
from collect.turn_rows import tool_call
from collect.world import Action, Event

Episode = Callable[[TreeContext, NodeRecord], Coroutine[Any, Any, NodeRecord]]
LAUNCHERS = ("delegate", "launch")
NOT_AWAITED = "it was never awaited"
EMPTY = "(no output)"
TRAFFIC_CHARS = 2_000_000  # of arguments and answers of the tools in one cell: what its calls may cost this process


async def run_cell(context: TreeContext, node: NodeRecord, decision: Decision, row: Row, *, episode: Episode) -> bool:
    """Run the cell of a turn and complete the turn's row; True when it called finish.

    Raises InfrastructureFault when a child had one, or when no cell can be run on this machine.
    """
    assert decision.cell is not None
    host = CellHost(context, node, row, episode)
    try:
        result = await open_sandbox(context.settings.sandbox).run(
            decision.cell, notebook=node.notebook, host=host, seed=node.seed
        )
    except (InfrastructureFault, SandboxDown) as broken:
        row["ok"] = False
        row["error"] = str(broken) if isinstance(broken, InfrastructureFault) else f"sandbox: {broken}"
        raise InfrastructureFault(row["error"]) from broken
    node.notebook = result.notebook
    forgotten = host.refuse_waiting()
    _complete(node, decision, row, result, forgotten)
    return host.finished


@dataclass(slots=True)
class CellHost:
    """What one cell may call. `waiting` holds launches that were asked for and not awaited yet, by call id."""

    context: TreeContext
    node: NodeRecord
    row: Row
    episode: Episode
    finished: bool = False
    waiting: dict[int, Launch] = field(default_factory=dict)
    asked: int = 0
    calls: int = 0
    traffic: int = 0
    names: frozenset[str] = frozenset()
    positions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    anywhere: bool = False

    def __post_init__(self) -> None:
        tools = {tool.name: tool.positions() for tool in self.context.world.tools()}
        own = dict.fromkeys(LAUNCHERS, ("targets", "context")) | {"finish": ("message",)}
        self.positions = tools | own
        self.names = frozenset(self.positions)
        self.anywhere = self.context.world.fork == "pure" and self.context.scheduling == "sequential"

    def call(self, call: Call) -> Any:
        """Serve one call of the cell."""
        self.calls += 1
        limits = self.context.settings.sandbox
        if self.calls > limits.calls:
            return Stop(Fault("CallLimitError", f"more than {limits.calls} calls in one cell"))
        if self.node.deadline.passed():
            return Stop(Fault("TimeoutError", "the time of the tree is used up"))
        try:
            arguments = self._bind(call)
        except TooLarge as error:
            return Stop(Fault("ArgumentLimitError", f"arguments of {call.name} are {error}"))
        except TypeError as error:
            return Raised("TypeError", f"{call.name}() {error}")
        if call.name == "finish":
            return self._finish(arguments)
        if call.name in LAUNCHERS:
            return self._ask(call, arguments)
        return self._act(Action(call.name, arguments))

    async def wait(self, call_ids: Sequence[int]) -> Mapping[int, Any] | Stop:
        """Run what was launched: the first one, or all of them where launches run side by side."""
        started = list(call_ids) if self.context.scheduling == "parallel" else list(call_ids)[:1]
        before = self.node.cell.state
        stamp = self.node.clock.tick()
        launches = {call_id: self.waiting.pop(call_id) for call_id in started}
        opened = {
            call_id: open_launch(self.context, self.node, launch, self.row) for call_id, launch in launches.items()
        }
        running = [item for item in opened.values() if isinstance(item, DelegationRecord)]
        if self.context.scheduling == "parallel" and running:
            await run_beside(self.context, self.node, running, episode=self.episode)
        for delegation in running if self.context.scheduling == "sequential" else ():
            await run_launch(self.context, delegation, episode=self.episode)
        answers: dict[int, Any] = {}
        for call_id, item in opened.items():
            answers[call_id] = self._returned(launches[call_id], item, before, stamp)
        over = in_world(lambda: self.context.world.over(self.node.cell.state))
        return answers if over is None else Stop()

    def refuse_waiting(self) -> int:
        """Store launches that the cell asked for and never awaited, as refused; how many there were."""
        for launch in self.waiting.values():
            open_launch(self.context, self.node, launch, self.row, fault=NOT_AWAITED)
        count = len(self.waiting)
        self.waiting.clear()
        return count

    def _bind(self, call: Call) -> dict[str, Any]:
        """Arguments by name as plain JSON values; TypeError as Python would, for a call that does not fit."""
        positions = self.positions[call.name]
        if len(call.args) > len(positions):
            msg = f"takes {len(positions)} positional arguments but {len(call.args)} were given"
            raise TypeError(msg)
        given = dict(zip(positions, call.args, strict=False))
        for name, value in call.kwargs.items():
            if name not in positions:
                msg = f"got an unexpected keyword argument {str(name)[:60]!r}"
                raise TypeError(msg)
            if name in given:
                msg = f"got multiple values for argument {name!r}"
                raise TypeError(msg)
            given[name] = value
        arguments = plain(given)
        assert isinstance(arguments, dict)
        return arguments

    def _act(self, action: Action) -> Any:
        event, call = apply_action(self.context, self.node, action, order_stamp=self.node.clock.tick())
        self.row["tool_calls"].append(call)
        self.traffic += len(call["arguments"]) + len(event.result)
        if self.traffic > TRAFFIC_CHARS:
            return Stop(Fault("CallLimitError", f"calls with more than {TRAFFIC_CHARS} characters in one cell"))
        over = in_world(lambda: self.context.world.over(self.node.cell.state))
        return _value(event.result) if over is None else Stop()

    def _ask(self, call: Call, arguments: Mapping[str, Any]) -> Any:
        self.asked += 1
        limit = self.context.settings.sandbox.launches
        if self.asked > limit:
            return Stop(Fault("LaunchLimitError", f"more than {limit} launches asked for in one cell"))
        if "targets" not in arguments:
            return Raised("TypeError", f"{call.name}() missing argument 'targets'")
        note = arguments.get("context") or None
        if note is not None and not isinstance(note, str):
            return Raised("TypeError", f"{call.name}() context must be a text")
        start, end = self._characters(call)
        names = [] if call.span is None else names_written(self.row["text"][start:end])
        self.waiting[call.call_id] = Launch(_as_written(arguments["targets"], names), note, start, end)
        return Later()

    def _finish(self, arguments: Mapping[str, Any]) -> Any:
        message = arguments.get("message", "")
        if not isinstance(message, str):
            return Raised("TypeError", "finish() message must be a text")
        self.node.message = message
        self.finished = True
        action = Action("finish", {"message": message})
        self.row["tool_calls"].append(tool_call(action, Event(True, ""), order_stamp=self.node.clock.tick()))
        return Stop()

    def _characters(self, call: Call) -> tuple[int, int]:
        """Characters of the reply that made a call; the whole cell when code of an earlier cell made it."""
        start, end = cell_span(self.row["text"]) or (0, len(self.row["text"]))
        return (start, end) if call.span is None else (start + call.span[0], start + call.span[1])

    def _returned(self, launch: Launch, item: DelegationRecord | str, before: Any, stamp: int) -> str:
        """Store a launch's call, and give the text that the cell gets."""
        arguments = {"targets": launch.targets} | ({"context": launch.context} if launch.context else {})
        text = item if isinstance(item, str) else report(item)
        delta = None if isinstance(item, str) else self._gained(item, before)
        event = Event(not isinstance(item, str), text, delta)
        self.row["tool_calls"].append(tool_call(Action("delegate", arguments), event, order_stamp=stamp))
        return text

    def _gained(self, delegation: DelegationRecord, before: Any) -> Mapping[str, Any] | None:
        """Net change by the child of one launch; None when there is none."""
        world, after = self.context.world, self.node.cell.state
        pure = world.fork == "pure"
        if after is before and pure:
            return None
        if delegation.scheduling == "sequential" and pure:
            return in_world(lambda: world.difference(before, after))
        child = committed(delegation)
        changes = [] if child is None else changes_of(child)
        return in_world(lambda: world.difference(before, after, changes=changes)) or None


def _as_written(targets: Any, names: Sequence[str]) -> Any:
    """Targets with a name that was written twice as pairs, so that they are refused like any other repetition."""
    repeated = len(set(names)) < len(names) and isinstance(targets, dict)
    return [[name, targets.get(name)] for name in names] if repeated else targets


def _value(result: str) -> Any:
    """The answer of a tool as a cell gets it: lists and mappings as such, everything else as text."""
    if result[:1] not in ("[", "{"):
        return result
    try:
        return json.loads(result)
    except ValueError:
        return result


def _complete(node: NodeRecord, decision: Decision, row: Row, result: CellResult, forgotten: int) -> None:
    lines = [result.output.rstrip("\n")] if result.output.strip() else []
    if result.fault is not None:
        lost = "" if result.kept else " Variables are as they were before this cell."
        lines.append(f"Error: {result.fault}.{lost}")
    if forgotten:
        lines.append(f"Error: {forgotten} launches did not run, because they were not awaited: await delegate(...)")
    faults = [str(result.fault)] if result.fault is not None else []
    faults += [f"{NOT_AWAITED}: {forgotten} launches"] if forgotten else []
    faults += [call["result"] for call in row["tool_calls"] if not call["ok"]]
    row["ok"] = not faults
    row["error"] = faults[0] if faults else None
    node.history.append((decision.action, Event(row["ok"], "\n".join(lines) or EMPTY), row["text"]))
