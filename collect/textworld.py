"""TextWorld-Sync as a world: several dishes, one shared kitchen and budget, an agent in each room that needs one.

Invariant: pure; what differs between the profiles `sync-v9` (as published) and `strict` lives in their rules objects
(`collect.textworld_sync`, `collect.textworld_strict`). A child is judged on its own state changes, never on its
siblings'; a goal that names nothing checkable has no verdict.

Run: ``sera worlds`` lists it; see docs/textworld.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from collect import textworld_goals as goals
from collect.textworld_kitchen import Kitchen, kept
from collect.textworld_rules import Rules, all_done, progress, ready_foods
from collect.textworld_spec import COOKINGS, CUTS, ROOMS, shared_steps, spec_of
from collect.textworld_state import WorldState, bits, dump_state, entered, load_state, slot_of
from collect.textworld_strict import STRICT
from collect.textworld_sync import SYNC
from collect.world import Action, Agent, End, Event, Fork, GoalKind, Task, Tool, Verdict
from sera_data.errors import UsageError

RULES: Mapping[str, Rules] = {rules.profile: rules for rules in (SYNC, STRICT)}
COMMAND = "command"
GOAL_CHARS = 4_000
TOOLS = (
    Tool(
        COMMAND,
        '{"tool":"command","text":"take salt"}',
        "Runs one command of the shared kitchen, word for word as the list of commands has it.",
    ),
)


class TextWorld:
    """The world under a profile; UsageError for an unknown one."""

    name = "textworld"
    version = "own-change-1"
    fork: Fork = "pure"
    goal_kind: GoalKind = "text"
    dialects = ("blocks",)
    profiles = tuple(RULES)

    def __init__(self, profile: str = "sync-v9") -> None:
        if profile not in RULES:
            msg = f"no profile {profile!r}; allowed: {', '.join(RULES)}"
            raise UsageError(msg, hint="docs/textworld.md says what each profile changes")
        self.profile = profile
        self.rules = RULES[profile]

    def reset(self, task: Task) -> WorldState:
        """Start of a task, before anybody entered; ValueError for a spec that is not one of this world."""
        kitchen = self.rules.kitchen(spec_of(task))
        return self.rules.start(kitchen, self.rules.limit(shared_steps(task)))

    def limited(self, task: Task, steps: int) -> Task:
        """The same task under another shared budget; its states name the same kitchen."""
        parallelism = {**task.spec["parallelism"], "shared_environment_max_steps": steps}
        return replace(task, spec={**task.spec, "parallelism": parallelism})

    def root_targets(self, task: Task) -> Mapping[str, Any]:
        """The task's text, judged by all its dishes."""
        return {"goal": task.goal, "max_steps": None, "conditions": goals.WHOLE_TASK}

    def enter(self, state: WorldState, agent: Agent, parent: Agent | None) -> WorldState:
        """A child appears in its parent's room, the root in the kitchen."""
        room = 0 if parent is None else state.rooms[slot_of(state, parent.node_id)]
        return entered(state, agent.node_id, room)

    def leave(self, state: WorldState, agent: Agent) -> WorldState:
        """The agent is gone; its profile says what becomes of what it carried."""
        return self.rules.leave(state, slot_of(state, agent.node_id))

    def over(self, state: WorldState) -> End | None:
        """How the world has ended for everybody."""
        return self.rules.over(state)

    def observe(self, state: WorldState, agent: Agent) -> str:
        """What the agent sees from where it is, and its commands."""
        return self.rules.observe(state, slot_of(state, agent.node_id))

    def commands(self, state: WorldState, agent: Agent) -> list[str]:
        """Commands that would be accepted from this agent now."""
        return [command.text for command in self.rules.commands(state, slot_of(state, agent.node_id))]

    def apply(self, state: WorldState, agent: Agent, action: Action) -> tuple[WorldState, Event]:
        """Run one command; a call that is none costs nothing and is rejected."""
        text = action.arguments.get("text")
        if action.tool != COMMAND or not isinstance(text, str):
            msg = f"Error: the only tool is {COMMAND} with a text, got {action.tool}"
            return state, Event(False, msg, None, "rejected")
        return self.rules.transition(state, slot_of(state, agent.node_id), text)

    def check_targets(self, state: WorldState, raw: Any) -> Mapping[str, Any]:
        """Validated targets of a launch: the goal's text, its step limit, its conditions where it names any."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("goal"), str) or not raw["goal"].strip():
            msg = f"a launch has a goal in words, got {_short(raw)}"
            raise ValueError(msg)
        goal, steps = raw["goal"].strip(), raw.get("max_steps")
        if len(goal) > GOAL_CHARS:
            msg = f"a goal has at most {GOAL_CHARS} characters, got {len(goal)}"
            raise ValueError(msg)
        if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
            msg = f"max_steps must be a whole number from 1, got {_short(steps)}"
            raise ValueError(msg)
        return {"goal": goal, "max_steps": steps, "conditions": goals.conditions_of(state.kitchen, goal)}

    def goal(self, targets: Mapping[str, Any]) -> str:
        """The goal's text."""
        return str(targets["goal"])

    def verdict(
        self,
        start: WorldState,
        end: WorldState,
        targets: Mapping[str, Any] | None,
        *,
        changes: Sequence[Mapping[str, Any]] | None = None,
    ) -> Verdict | None:
        """The root by all dishes at the end, a child by what its own changes did; None when nothing is checkable.

        Details hold the progress vector for a whole task, and the conditions met and missed for a child.
        """
        conditions = None if targets is None else targets.get("conditions")
        if conditions is None:
            return None
        if conditions == goals.WHOLE_TASK:
            return self._task_verdict(end)
        return goals.judge(start, conditions, [_difference(start, end)] if changes is None else changes)

    def difference(
        self, start: WorldState, end: WorldState, *, changes: Sequence[Mapping[str, Any]] | None = None
    ) -> Mapping[str, Any]:
        """Net change in the form of deltas, without rooms; with `changes`, of these only.

        Whether a food is as its recipe wants it is left out: that is the program's judgement, not a scorer's evidence.
        """
        net = _difference(start, end) if changes is None else goals.merged(changes)
        return {key: value for key, value in net.items() if key != "ready"}

    def dump(self, state: WorldState) -> str:
        """Canonical JSON below 1 kB."""
        return dump_state(state)

    def load(self, text: str) -> WorldState:
        """Inverse of dump, for a task that this process has reset; ValueError for another."""
        return load_state(text, self._known)

    def tools(self) -> tuple[Tool, ...]:
        """One tool: a command in words."""
        return TOOLS

    def _known(self, digest: str) -> Kitchen:
        kitchen = kept(self.profile, digest)
        if kitchen is None:
            msg = f"kitchen {digest} of profile {self.profile} is not known here; reset the state's task first"
            raise ValueError(msg)
        return kitchen

    def _task_verdict(self, end: WorldState) -> Verdict:
        rows = progress(end)
        details = {
            "completed_dishes": sum(row["eaten"] and row["ready"] == row["foods"] for row in rows),
            "completed_foods": sum(row["ready"] for row in rows),
            "dishes": len(rows),
            "foods": sum(row["foods"] for row in rows),
            "steps": end.steps,
            "limit": end.limit,
            "over": self.rules.over(end),
            "progress": rows,
        }
        return Verdict(all_done(end) and self.rules.over(end) == "success", details)


def _difference(start: WorldState, end: WorldState) -> dict[str, Any]:
    kitchen = end.kitchen
    things, dishes = kitchen.things, kitchen.spec.dishes
    masks = {
        "taken": end.taken & ~start.taken,
        "ready": ready_foods(end) & ~ready_foods(start),
        "placed": end.counter & ~start.counter,
        "spoiled": end.spoiled & ~start.spoiled,
        "deleted": end.deleted & ~start.deleted,
    }
    found: dict[str, Any] = {key: [things[i] for i in bits(mask)] for key, mask in masks.items() if mask}
    for key, words, before, after in (
        ("cut", CUTS, start.cut, end.cut),
        ("cooked", COOKINGS, start.cooked, end.cooked),
    ):
        named = {name: words[after >> 2 * i & 3] for i, name in enumerate(things) if (before ^ after) >> 2 * i & 3}
        if named:
            found[key] = named
    for key, mask in (("prepared", end.prepared & ~start.prepared), ("eaten", end.eaten & ~start.eaten)):
        if mask:
            found[key] = [dishes[i] for i in bits(mask)]
    if end.gate and not start.gate:
        found["gate"] = "open"
    return found


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


assert ROOMS[0] == "kitchen"
