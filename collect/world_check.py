"""Checks of a world: does it keep the promises that branches, replays and honest scores rest on?

Invariant: real trees are run by the runner, with the world's own forks; a check fails with the call that showed it.
Purity: no call changes a state it was given. Determinism: the same call gives the same twice. Digests: a dumped state
loads to itself and goes on the same. Forks: branches start where they should. Replay: stored calls reach the stored
end. Leaks: prompts hold nothing planted in specs and verdicts, and do not change when verdicts are turned round.

Run: ``sera worlds check textcraft``; ``sera worlds check examples.own_world:Maze``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from collect.config import CollectConfig
from collect.dialect import dialect_for
from collect.policies import open_policy
from collect.policy import Policy, Renderer, Request
from collect.probing import Prober
from collect.replay import StoredTree, replay_node
from collect.services import Services, TreePlan, TreeResult
from collect.settings import Budgets, DelegationSettings, TreeSettings
from collect.tasks import load_tasks
from collect.tree import run_tree
from collect.watched import CHECKS, MARKER, Watched
from collect.world import Task, World
from schemas.words import Role
from sera_data.config import load_config
from sera_data.errors import UsageError

OWN_TASKS = {
    "textcraft": "world.tasks={worlds: '1000-1001', n: 4, tier_mix: {2: 1.0}}",
    "textworld": "world.tasks={generator: textworld, split: train, difficulties: [easy], per_cell: 1}",
}
"""Tasks of the worlds of this package; others have `examples()` or a task file."""
MARKED = {"reward": MARKER, "success": MARKER, "label": MARKER}


@dataclass(frozen=True, slots=True)
class Checked:
    """One check: `status` is ok, failed, or `not applicable` for what the world does not promise."""

    check: str
    status: str
    detail: str | None = None


class Listener:
    """A policy that remembers what it was asked."""

    renderer: Renderer | None = None
    trainable: bool = False

    def __init__(self, inner: Policy) -> None:
        self.inner, self.identity = inner, inner.identity
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Any:
        """Pass a request on."""
        self.requests.append(request)
        return await self.inner.complete(request)

    def release(self, session: str) -> None:
        """Pass it on."""
        self.inner.release(session)

    async def close(self) -> None:
        """Pass it on."""
        await self.inner.close()


def sample_tasks(world: World[Any], name: str, *, limit: int = 4) -> list[Task]:
    """Tasks to check a world with; UsageError where it offers none."""
    if name in OWN_TASKS:
        profile = "strict" if name == "textcraft" else world.profile
        overrides = [f"world.name={name}", f"world.profile={profile}", OWN_TASKS[name]]
        tasks = load_tasks(load_config(CollectConfig, None, overrides))[:limit]
        return [replace(task, profile=world.profile) for task in tasks]
    examples = getattr(world, "examples", None)
    if examples is None:
        msg = f"world {name!r} has no method examples(), so there is no task to check it with"
        raise UsageError(msg, hint="give --tasks FILE, or let the world offer some tasks as examples()")
    return list(examples())[:limit]


def check_world(world: World[Any], tasks: Sequence[Task], *, policy: str | None = None) -> list[Checked]:
    """All checks, in order. policy: spec of who plays besides the probe; None = nobody."""
    found: dict[str, str] = {}
    calls = 0
    for spec in (None, policy) if policy else (None,):
        for task in tasks:
            watched = _check_task(world, _planted(world, task), spec, found)
            calls += watched.calls
    if not calls:
        found.setdefault("faults", "no call reached the world")
    return [_status(world, check, found.get(check)) for check in CHECKS]


def _check_task(world: World[Any], task: Task, spec: str | None, found: dict[str, str]) -> Watched:
    plain, heard = _play(world, task, spec, contrary=False)
    _, contrary = _play(world, task, spec, contrary=True)
    watched, result = plain
    for check, detail in (*watched.found.items(), *_lost(result)):
        found.setdefault(check, detail)
    for check, detail in (*_leaks(heard, contrary), *_replayed(world, task, result)):
        found.setdefault(check, detail)
    return watched


def _play(
    world: World[Any], task: Task, spec: str | None, *, contrary: bool
) -> tuple[tuple[Watched, TreeResult], list[Request]]:
    watched = Watched(world, contrary=contrary)
    ears = Listener(Prober() if spec is None else open_policy(spec))
    forks = world.fork != "none"
    settings = TreeSettings(
        budgets=Budgets(turns=8, depth=1),
        delegation=DelegationSettings(mode="counterfactual" if forks else "plain", selection="reference", k=2),
        deterministic=True,
    )
    roles: tuple[Role, ...] = ("act", "writer", "scorer")
    services = Services(
        world=cast("World[Any]", watched),
        policies=dict.fromkeys(roles, ears),
        settings=settings,
        dialect=dialect_for(world, "auto"),
    )
    result = asyncio.run(run_tree(TreePlan("check", 0, task, 0, "rubric", 7), services))
    return (watched, result), ears.requests


def _planted(world: World[Any], task: Task) -> Task:
    """The task with words in its spec that no prompt may hold, where the world takes a spec with more in it."""
    marked = replace(task, spec={**task.spec, **MARKED})
    try:
        world.reset(marked)
    except ValueError:
        return task
    return marked


def _lost(result: TreeResult) -> Iterator[tuple[str, str]]:
    for node in result.rows["nodes"]:
        if node["outcome"] == "infra_error":
            yield (
                "forks" if "is not the state that" in node["error"] else "faults",
                f"{node['node_id']}: {node['error']}",
            )


def _leaks(heard: Sequence[Request], contrary: Sequence[Request]) -> Iterator[tuple[str, str]]:
    for request in (*heard, *contrary):
        if any(MARKER in message.content for message in request.messages):
            yield "leaks", f"the {request.role} prompt of {request.session} holds what was planted in a spec or verdict"
    for one, other in zip(heard, contrary, strict=False):
        if one.messages != other.messages:
            yield "leaks", f"the {one.role} prompt of {one.session} changes when verdicts are turned round"


def _replayed(world: World[Any], task: Task, result: TreeResult) -> Iterator[tuple[str, str]]:
    if world.fork not in ("pure", "snapshot"):
        return
    branches = {(row["delegation_id"], row["branch"]): row for row in result.rows["branches"]}
    nodes = {
        row["node_id"]: {**row, **_edge(branches.get((row["delegation_id"], row["branch"])))}
        for row in result.rows["nodes"]
    }
    calls = [
        {**call, "node_id": turn["node_id"], "turn_id": turn["turn_id"], "place": place, "stamp": call["order_stamp"]}
        for turn in result.rows["turns"]
        if turn["kind"] == "act"
        for place, call in enumerate(turn["tool_calls"])
        if call["tool"] not in ("delegate", "finish")
    ]
    for name in nodes:
        replay = replay_node(world, StoredTree(result.root.tree_id, task, nodes, calls), name)
        if replay.difference is not None:
            yield "replay", f"{name}: {replay.difference.what} of {replay.difference.action or replay.difference.event}"


def _edge(branch: Mapping[str, Any] | None) -> dict[str, Any]:
    if branch is None:
        return {"scheduling": None, "committed": True}
    return {"scheduling": branch["scheduling"], "committed": branch["committed"]}


def _status(world: World[Any], check: str, detail: str | None) -> Checked:
    skipped = {
        "pure": (),
        "snapshot": ("determinism",),
        "replay": ("determinism", "digests", "replay"),
        "none": ("determinism", "digests", "replay", "forks"),
    }[world.fork]
    if detail is None and check in skipped:
        return Checked(check, "not applicable", f"fork is {world.fork}")
    return Checked(check, "ok" if detail is None else "failed", detail)
