"""What those who judge an episode see of it: replies, answers, and the work of helpers.

Invariant: nothing here says how the world ended: the class of an ending event shows as `ok`. Worlds whose goals are
texts show what each command did and not the whole view again; delegated work shows command by command, so that a
judge can tell a helper's work from a claim.
"""

from __future__ import annotations

from collect.acting import said
from collect.context import TreeContext
from collect.records import NodeRecord, committed


def trajectory(context: TreeContext, node: NodeRecord) -> list[tuple[str, str | None]]:
    """(reply, answer) per act turn; the answer is None after a finish."""
    rows = [row for row in node.turns if row["kind"] == "act"]
    if context.world.goal_kind != "text":
        return [(row["text"], row["observation"]) for row in rows]
    entries: list[tuple[str, str | None]] = []
    for row, (_, event, _) in zip(rows, node.history, strict=False):
        answer = None if event is None else said(event, judged=True)
        helpers = [
            line
            for launch in node.delegations
            if launch.turn_id == row["turn_id"] and (child := committed(launch)) is not None
            for line in _helped(child, level=1)
        ]
        entries.append((row["text"], answer if answer is None else "\n".join([*helpers, answer])))
    return entries


def _helped(child: NodeRecord, *, level: int) -> list[str]:
    """A helper's goal and commands, its own helpers' below the launch, one line each."""
    mark = ">" * (level + 1)
    lines = [f"{mark} goal: {' '.join(child.goal.split())}"]
    rows = [row for row in child.turns if row["kind"] == "act"]
    for row, (action, event, _) in zip(rows, child.history, strict=False):
        launched = [launch for launch in child.delegations if launch.turn_id == row["turn_id"]]
        for launch in launched:
            inner = committed(launch)
            lines += _helped(inner, level=level + 1) if inner is not None else []
        if action is not None and event is not None and not launched:
            lines.append(f"{mark} {action.arguments.get('text', action.tool)} : {said(event, judged=True)}")
    return lines
