"""Evaluation: play tasks without rubrics or forks, store nodes, turns and `evals` rows, report success.

Invariant: which tasks and which seeds are played depends neither on the epoch nor on the policy, so two policies are
compared on the same tasks; infrastructure errors are counted apart and never as failures. A finished evaluation is
found again, not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from pydantic import Field

import sera_data
from collect.config import CollectConfig, GroupCount, PolicyConfig
from collect.dealing import WorkUnit, resolve_counts, task_set_hash
from collect.interruption import Interruption
from collect.intervals import bootstrap_mean, paired_difference, success_at, wilson
from collect.job import Share, claim_job, run_job
from collect.policies import open_policies, policy_hash, style_of
from collect.policy import Identity
from collect.services import TreeResult
from collect.world import Task
from sera_data.config import Config, run_id
from sera_data.errors import UsageError
from sera_data.plan import plan_names, read_plan
from sera_data.store import Store

GROUPS_PER_UNIT = 8


class EvalConfig(Config):
    """What names an evaluation run: protocol, who was evaluated on which tasks, and how."""

    protocol: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the protocol.")
    policy_hash: str = Field(description="Hash of the policies by role.")
    task_set: str = Field(description="Hash of the task ids given.")
    collect: CollectConfig = Field(description="The phase that plays it.")


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to evaluate: the phase, who plays it, and all tasks it may draw."""

    phase: CollectConfig
    policy: PolicyConfig
    tasks: Sequence[Task]

    def plan(self) -> dict[str, Any]:
        """What would be played, as plain JSON values."""
        n_tasks = resolve_counts(self.phase.groups.counts(), n_tasks=len(self.tasks))["eval"]
        return {
            "policy": self.policy.spec("act"),
            "tasks": n_tasks,
            "trees": n_tasks * self.phase.samples,
            "phase": self.phase.resolved(),
        }


def run_evaluation(
    store: Store,
    request: EvalRequest,
    *,
    protocol: str | None = None,
    part: Share | None = None,
    interruption: Interruption | None = None,
    quiet: bool = False,
) -> tuple[str, bool]:
    """Play what is missing of an evaluation and seal it when it is complete; returns its run id and completeness."""
    phase, act = request.phase, request.policy.spec("act")
    policies = open_policies(request.policy, roles=phase.roles())
    temperature = phase.sampling.act.temperature
    identity = EvalConfig(
        protocol=protocol or protocol_name(temperature),
        policy_hash=policy_hash(policies),
        task_set=task_set_hash(request.tasks),
        collect=phase,
    )
    name = run_id(phase.name, identity)
    if _finished(store, name):
        return name, True
    job = claim_job(store, phase, tasks=request.tasks, policies=policies, identity=identity, phase="eval")

    def extra(unit: WorkUnit, results: Sequence[TreeResult]) -> dict[str, list[dict[str, Any]]]:
        return eval_rows(
            results, unit, protocol=identity.protocol, identity=policies["act"].identity, temperature=temperature
        )

    style = style_of(act) if phase.style == "auto" else phase.style
    work = run_job(
        store,
        job,
        policies=policies,
        style=style,
        part=part,
        interruption=interruption,
        extra_rows=extra,
        quiet=quiet,
    )
    if work.complete:
        sera_data.seal(store, job.plan.name)
    return name, work.complete


def _finished(store: Store, name: str) -> bool:
    plans = (read_plan(store, plan) for plan in plan_names(store))
    return any(p.run_id == name and p.sealed() and p.committed() == set(p.unit_ids) for p in plans)


def eval_phase(base: CollectConfig, *, n_tasks: GroupCount, samples: int, temperature: float) -> CollectConfig:
    """A collect phase that only evaluates: no rubrics, no forks, one temperature."""
    body = base.resolved()
    body["name"] = "eval" if base.name == CollectConfig().name else f"{base.name}-eval"
    body["groups"] = {"eval": n_tasks}
    body["samples"] = samples
    body["sampling"]["act"]["temperature"] = temperature
    body["delegation"]["mode"] = "plain"
    body["rubric"]["purposes"] = []
    body["groups_per_unit"] = max(base.groups_per_unit, GROUPS_PER_UNIT)
    return CollectConfig.model_validate(body)


def protocol_name(temperature: float) -> str:
    """'greedy' or 't' and the temperature."""
    return "greedy" if temperature == 0 else f"t{temperature:g}"


def eval_rows(
    results: Sequence[TreeResult], unit: WorkUnit, *, protocol: str, identity: Identity, temperature: float
) -> dict[str, list[dict[str, Any]]]:
    """The `evals` rows of a unit, one per tree."""
    played = [(group.task, sample) for group in unit.groups for sample in range(group.n_samples)]
    rows = []
    for (task, sample), result in zip(played, results, strict=True):
        root = result.root
        rows.append(
            {
                "protocol": protocol,
                "policy": identity.name,
                "policy_version": identity.version,
                "weights_sha256": identity.weights_sha256,
                "task_id": task.task_id,
                "sample": sample,
                "difficulty": task.difficulty,
                "temperature": temperature,
                "outcome": root.outcome,
                "success": None if root.outcome == "infra_error" else bool(root.success),
                "n_turns": root.n_turns,
                "n_nodes": root.n_nodes,
                "n_prompt_tokens": root.n_prompt_tokens,
                "n_completion_tokens": root.n_completion_tokens,
                "n_delegations": root.n_delegations,
                "error": root.error,
                "wall_s": root.wall_s,
            }
        )
    return {"evals": rows}


def find_evaluation(store: Store, selector: str, *, protocol: str | None = None) -> list[dict[str, Any]]:
    """All `evals` rows of one evaluation, named by run id or by policy version; UsageError unless it is exactly one."""
    query = files("collect").joinpath("sql", "evaluation_rows.sql").read_text(encoding="utf-8")
    version = int(selector) if selector.isdigit() else None
    found = store.sql(query, {"run_id": selector, "version": version, "protocol": protocol}).pl().to_dicts()
    runs = sorted({(row["run_id"], row["protocol"]) for row in found})
    if len(runs) != 1:
        have = ", ".join(f"{run} ({name})" for run, name in runs) or "none"
        msg = f"{selector!r} must name one evaluation of {store.path}, it names {have}"
        raise UsageError(
            msg, hint="name it by run id, or add --protocol; 'select distinct run_id from evals' lists them"
        )
    return found


def report(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Success with intervals, success@k, by difficulty, outcomes and sizes, as plain JSON values."""
    judged = [row for row in rows if row["success"] is not None]
    first = rows[0]
    bands = sorted({row["difficulty"] for row in judged})
    return {
        "run_id": first["run_id"],
        "epoch": first["epoch"],
        "protocol": first["protocol"],
        "policy": first["policy"],
        "policy_version": first["policy_version"],
        "weights_sha256": first["weights_sha256"],
        "temperature": first["temperature"],
        **_rates(judged),
        "success_at": _success_at(judged),
        "by_difficulty": {band: _rates([row for row in judged if row["difficulty"] == band]) for band in bands},
        "outcomes": {
            name: sum(row["outcome"] == name for row in rows) for name in sorted({r["outcome"] for r in rows})
        },
        "infra_errors": len(rows) - len(judged),
        "turns_per_tree": _mean([row["n_turns"] for row in judged]),
        "nodes_per_tree": _mean([row["n_nodes"] for row in judged]),
        "delegations_per_tree": _mean([row["n_delegations"] for row in judged]),
        "completion_tokens_per_tree": _mean([row["n_completion_tokens"] for row in judged]),
    }


def compare(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Difference of success and of success@k between two evaluations, paired by task."""
    counts = [_counts(rows) for rows in (before, after)]
    means = [{task: wins / n for task, (wins, n) in table.items()} for table in counts]
    k = min((n for table in counts for _, n in table.values()), default=0)
    body = {
        "before": _name(before),
        "after": _name(after),
        "tasks": len(means[0].keys() & means[1].keys()),
        "unpaired": len(means[0].keys() ^ means[1].keys()),
        "difference": asdict(paired_difference(*means)),
    }
    if k > 1:
        best = [{t: success_at(k, n=n, successes=wins) for t, (wins, n) in table.items()} for table in counts]
        body[f"difference_at_{k}"] = asdict(paired_difference(*best))
    return body


def _name(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: rows[0][key] for key in ("run_id", "protocol", "policy", "policy_version")}


def _counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Successes and judged samples by task."""
    table: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row["success"] is not None:
            wins, n = table.get(row["task_id"], (0, 0))
            table[row["task_id"]] = (wins + bool(row["success"]), n + 1)
    return table


def _rates(judged: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counts = _counts(judged)
    wins = sum(bool(row["success"]) for row in judged)
    per_task = bootstrap_mean([won / n for _, (won, n) in sorted(counts.items())])
    trials = wilson(wins, len(judged))
    return {
        "tasks": len(counts),
        "trees": len(judged),
        "success": wins / len(judged) if judged else None,
        "bootstrap": [per_task.low, per_task.high],
        "wilson": [trials.low, trials.high],
    }


def _success_at(judged: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    counts = _counts(judged).values()
    fewest = min((n for _, n in counts), default=0)
    ks = [k for k in (1, 2, 4, 8, 16, 32) if k <= fewest]
    return {str(k): _mean([success_at(k, n=n, successes=wins) for wins, n in counts]) or 0.0 for k in ks}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
