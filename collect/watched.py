"""A world under watch: every call is made with a look at what it does to the states it was given.

Invariant: the runner sees the same states and events as without it; what is wrong is noted once per check, with the
call that showed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collect.world import Action, Agent, Event, Task, Verdict, World

CHECKS = ("purity", "determinism", "digests", "forks", "replay", "leaks", "faults")
MARKER = "PLANTED-MARKER"


class Watched:
    """The same world; `found` maps a check to the first thing that was wrong.

    contrary: verdicts are turned round and say so in their details, so that whatever shows them can be found.
    """

    def __init__(self, world: World[Any], *, contrary: bool = False) -> None:
        self._world = world
        self._contrary = contrary
        self.found: dict[str, str] = {}
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def reset(self, task: Task) -> Any:
        """Twice, with one outcome, where a start leaves others alone."""
        state = self._world.reset(task)
        if self._world.fork != "none":
            self._same("determinism", "reset", self._world.dump(state), self._world.dump(self._world.reset(task)))
        return state

    def enter(self, state: Any, agent: Agent, parent: Agent | None) -> Any:
        """Watched."""
        return self._step(
            f"enter {agent.node_id}", state, lambda given: (self._world.enter(given, agent, parent), None)
        )[0]

    def leave(self, state: Any, agent: Agent) -> Any:
        """Watched."""
        return self._step(f"leave {agent.node_id}", state, lambda given: (self._world.leave(given, agent), None))[0]

    def apply(self, state: Any, agent: Agent, action: Action) -> tuple[Any, Event]:
        """Watched."""
        what = f"apply {action.tool} {dict(action.arguments)}"
        after, event = self._step(what, state, lambda given: self._world.apply(given, agent, action))
        return after, event

    def over(self, state: Any) -> Any:
        """Watched."""
        return self._look("over", state, lambda: self._world.over(state))

    def observe(self, state: Any, agent: Agent) -> str:
        """Watched."""
        seen: str = self._look("observe", state, lambda: self._world.observe(state, agent))
        return seen

    def check_targets(self, state: Any, raw: Any) -> Mapping[str, Any]:
        """Watched."""
        found: Mapping[str, Any] = self._look("check_targets", state, lambda: self._world.check_targets(state, raw))
        return found

    def difference(self, start: Any, end: Any, *, changes: Sequence[Mapping[str, Any]] | None = None) -> Any:
        """Watched."""
        return self._look("difference", end, lambda: self._world.difference(start, end, changes=changes))

    def verdict(self, start: Any, end: Any, targets: Any, *, changes: Any = None) -> Verdict | None:
        """Watched, and the other way round where that is asked for."""
        said: Verdict | None = self._look(
            "verdict", end, lambda: self._world.verdict(start, end, targets, changes=changes)
        )
        if said is None or not self._contrary:
            return said
        return Verdict(not said.success, {**said.details, "planted": MARKER})

    def _step(self, what: str, state: Any, step: Callable[[Any], tuple[Any, Any]]) -> tuple[Any, Any]:
        world = self._world
        before = world.dump(state)
        copy = world.load(before) if world.fork in ("pure", "snapshot") else None
        if copy is not None:
            self._same("digests", f"load of the state before {what}", before, world.dump(copy))
        after, event = step(state)
        self.calls += 1
        if world.fork == "pure":
            self._same("purity", what, before, world.dump(state))
            self._agree("determinism", what, (after, event), step(state))
        if copy is not None:
            self._agree("digests", f"{what} on a loaded state", (after, event), step(copy))
        return after, event

    def _look(self, what: str, state: Any, look: Callable[[], Any]) -> Any:
        before = self._world.dump(state)
        seen = look()
        self._same("purity", what, before, self._world.dump(state))
        return seen

    def _agree(self, check: str, what: str, one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
        self._same(check, what, self._world.dump(one[0]), self._world.dump(other[0]))
        self._same(check, f"the event of {what}", str(one[1]), str(other[1]))

    def _same(self, check: str, what: str, one: str, other: str) -> None:
        if one != other:
            self.found.setdefault(check, f"{what}: {_cut(one)} became {_cut(other)}")


def _cut(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
