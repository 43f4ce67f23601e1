"""What an evaluation is before it is played: request, identity, the columns its rows share, and its plan.

Invariant: an evaluation is named by protocol, weights, code version and tasks; paths, concurrency and retries change
nothing of what is played and name nothing. Its plan has one unit a task, so that it continues task by task, and one
that was begun under another name in the same place is refused with the path of its plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from collect.config import CollectConfig
from collect.dealing import draw_tasks, resolve_counts, task_set_hash
from collect.dialect import dialect_for
from collect.policies import policy_hash
from collect.policy import Policy
from collect.policy_config import PolicyConfig
from collect.protocol_tasks import ProtocolTasks, dealt_tasks, true_depths
from collect.provenance import code_version
from collect.world import Task
from collect.worlds import open_world
from schemas.words import Role
from sera_data import claim_plan
from sera_data.canonical import sha256_json
from sera_data.config import Config, checked, run_id
from sera_data.errors import StoreError
from sera_data.plan import Plan, plan_names, read_plan
from sera_data.store import Store

PLACE = ("protocol", "policy", "seed", "dialect", "selection", "candidates")
"""What says which evaluation a user means; two unfinished ones of one place in a store are refused."""
OPERATIONS = ("concurrency", "groups_per_unit", "deterministic", "infra_error_limit", "tree_retries", "name")
"""Collect settings that change nothing of what is played."""


class EvalConfig(Config):
    """What names an evaluation run: protocol, weights, code version and tasks."""

    protocol: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the protocol.")
    fingerprint: str = Field(description="Hash of everything the protocol fixes, the seed left out.")
    policy_hash: str = Field(description="Hash of the policies by role.")
    code_version: str = Field(description="Version of the code.")
    selection: str = Field(description="How candidates are chosen at delegations.")
    tasks: int = Field(description="Number of tasks.")
    task_set: str = Field(description="Hash of the task ids.")
    collect: CollectConfig = Field(description="The phase that plays it, without what changes nothing.")


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to evaluate: the phase, who plays it, and all tasks it may draw.

    protocol: name; None = by temperature. chosen: the tasks with bands and depths, when a protocol file chose them.
    """

    phase: CollectConfig
    policy: PolicyConfig
    tasks: Sequence[Task]
    protocol: str | None = None
    chosen: ProtocolTasks | None = None

    @property
    def selection(self) -> str:
        """How candidates are chosen at delegations; `none` for plain delegation."""
        delegation = self.phase.delegation
        return delegation.selector if delegation.mode == "best_of" else "none"

    @property
    def candidates(self) -> int:
        """Candidates at each delegation."""
        return self.phase.delegation.k if self.selection != "none" else 1

    def drawn(self) -> list[Task]:
        """The tasks that are played, in the order given; fewer than all are drawn by a hash that no seed changes."""
        wanted = resolve_counts(self.phase.groups.counts(), n_tasks=len(self.tasks))["eval"]
        kept = {task.task_id for task in draw_tasks(self.tasks, wanted, seed=0, epoch=0)}
        return [task for task in self.tasks if task.task_id in kept]

    def plan(self) -> dict[str, Any]:
        """What would be played, as plain JSON values."""
        n_tasks = len(self.drawn())
        return {
            "policy": self.policy.spec("act"),
            "protocol": self.protocol,
            "source": None if self.chosen is None else self.chosen.source,
            "bands": None if self.chosen is None else dict(self.chosen.counts()),
            "tasks": n_tasks,
            "trees": n_tasks * self.phase.samples,
            "selection": self.selection,
            "candidates": self.candidates,
            "phase": self.phase.resolved(),
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation that is ready to play. `stamp` holds the columns that all its `evals` rows share."""

    identity: EvalConfig
    stamp: Mapping[str, Any]
    details: ProtocolTasks
    tasks: tuple[Task, ...]

    def bands(self) -> list[str]:
        """Band of each task."""
        return [self.details.bands[task.task_id] for task in self.tasks]


def prepare(request: EvalRequest, policies: Mapping[Role, Policy], *, protocol: str | None) -> Evaluation:
    """Identity and stamp of an evaluation."""
    phase, tasks = request.phase, request.drawn()
    act = policies["act"].identity
    name = protocol or request.protocol or protocol_name(phase.sampling.act.temperature)
    world = open_world(phase.world.name, profile=phase.world.profile)
    dialect = dialect_for(world, phase.dialect).name
    details = request.chosen or dealt_tasks(tasks, source="own", depths=true_depths(tasks, world=world))
    settled = settled_phase(phase, policy=act.name)
    task_set = task_set_hash(tasks)
    rules = settled.resolved() | {"seed": None, "policy": None, "dialect": dialect}
    fingerprint = sha256_json({"phase": rules, "selection": request.selection, "task_set": task_set})
    stamp = {
        "protocol": name,
        "protocol_sha256": fingerprint,
        "code_version": code_version(),
        "task_set": task_set,
        "seed": phase.seed,
        "policy": act.name,
        "policy_version": act.version,
        "weights_sha256": act.weights_sha256,
        "dialect": dialect,
        "selection": request.selection,
        "candidates": request.candidates,
        "temperature": phase.sampling.act.temperature,
    }
    identity = EvalConfig(
        protocol=name,
        fingerprint=fingerprint,
        policy_hash=policy_hash(policies),
        code_version=code_version(),
        selection=request.selection,
        tasks=len(tasks),
        task_set=task_set,
        collect=settled,
    )
    return Evaluation(identity, stamp, details, tuple(tasks))


def settled_phase(phase: CollectConfig, *, policy: str) -> CollectConfig:
    """The phase with defaults for whatever changes nothing of what is played: paths, concurrency, retries."""
    body, default = phase.resolved(), CollectConfig().resolved()
    body |= {key: default[key] for key in OPERATIONS}
    body["world"]["tasks"] = None
    body["policy"] |= {"model": policy, "roles": default["policy"]["roles"]}
    for key in ("retries", "retry_wait_s"):
        body["budgets"][key] = default["budgets"][key]
    body["sandbox"]["workers"] = default["sandbox"]["workers"]
    return checked(CollectConfig, body)


def claim_evaluation(store: Store, evaluation: Evaluation, phase: CollectConfig) -> Plan:
    """Claim the evaluation's plan, one unit a task, or find it; StoreError for one begun under another identity."""
    identity, stamp = evaluation.identity, evaluation.stamp
    name = run_id(phase.name, identity)
    _refuse_other(store, evaluation, name)
    width = max(4, len(str(len(evaluation.tasks))))
    units = [
        {
            "unit_id": f"u{index:0{width}d}",
            "purpose": "eval",
            "n_groups": 1,
            "n_samples": phase.samples,
            "task_id": task.task_id,
        }
        for index, task in enumerate(evaluation.tasks)
    ]
    return claim_plan(
        store,
        run_id=name,
        phase="eval",
        policy_hash=identity.policy_hash,
        config_hash=identity.hash(),
        units=units,
        about={"evaluation": dict(stamp), "source": evaluation.details.source},
    )


def _refuse_other(store: Store, evaluation: Evaluation, name: str) -> None:
    """Refuse to begin an evaluation beside an unfinished one that is meant to be the same, or one closed early."""
    stamp = evaluation.stamp
    for plan_name in plan_names(store):
        plan = read_plan(store, plan_name)
        other = plan.about.get("evaluation")
        if plan.run_id == name and plan.sealed():
            msg = f"{plan.path}: this evaluation was sealed without all its tasks, and a sealed epoch never changes"
            raise StoreError(msg, hint="report what is there, or evaluate into another store")
        if plan.run_id == name or plan.phase != "eval" or other is None or plan.sealed():
            continue
        if any(other.get(key) != stamp[key] for key in PLACE):
            continue
        keys = ("protocol_sha256", "weights_sha256", "code_version", "task_set", "policy_version")
        found = [f"{key} {other[key]} there, {stamp[key]} now" for key in keys if other[key] != stamp[key]]
        msg = (
            f"{plan.path} is an unfinished evaluation {stamp['protocol']!r} of {stamp['policy']!r}"
            f" with another identity: {'; '.join(found) or 'other policy files or settings'}"
        )
        raise StoreError(
            msg,
            hint=f"finish it as it was begun, close it (sera data seal {store.path} {plan_name} --partial),"
            " or use another store",
        )


def protocol_name(temperature: float) -> str:
    """'greedy' or 't' and the temperature."""
    return "greedy" if temperature == 0 else f"t{temperature:g}"
