"""Evaluation: play tasks without rubrics or forks, store nodes, turns and `evals` rows, report success.

Invariant: which tasks and which seeds are played depends neither on the epoch nor on the policy, so two policies are
compared on the same tasks; infrastructure errors are counted apart. A finished evaluation is found again and not
repeated, an unfinished one continues task by task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import sera_data
from collect.config import CollectConfig, GroupCount
from collect.dealing import Group, WorkUnit
from collect.eval_check import check_evaluation
from collect.eval_plan import EvalRequest, Evaluation, claim_evaluation, prepare
from collect.interruption import Interruption
from collect.intervals import paired_difference, success_at
from collect.job import Job, Share, run_job
from collect.policies import open_policies, style_of
from collect.rates import breakdown, mean_of, rates, success_at_ks, task_counts
from collect.services import TreeResult
from collect.sharding import deal_shards
from sera_data.config import checked, run_id
from sera_data.errors import UsageError
from sera_data.plan import Plan, plan_names, read_plan
from sera_data.store import Store

__all__ = ["EvalRequest", "compare", "eval_phase", "find_evaluation", "report", "run_evaluation"]


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
    evaluation = prepare(request, policies, protocol=protocol)
    name = run_id(phase.name, evaluation.identity)
    finished = _finished(store, name)
    if finished is not None:
        check_evaluation(store, finished)
        return name, True
    plan = claim_evaluation(store, evaluation, phase)
    check_evaluation(store, plan)
    units = _units(plan, evaluation, samples=phase.samples)
    part = part or Share()
    mine = deal_shards(units, evaluation.bands(), of=part.of)[part.index]
    work = run_job(
        store,
        Job(phase, evaluation.identity, plan.run_id, "eval", plan, mine),
        policies=policies,
        style=style_of(act) if phase.style == "auto" else phase.style,
        interruption=interruption,
        extra_rows=lambda unit, results: eval_rows(results, unit, evaluation=evaluation),
        lost="hold",
        quiet=quiet,
    )
    if work.complete:
        sera_data.seal(store, plan.name)
    return name, work.complete


def _units(plan: Plan, evaluation: Evaluation, *, samples: int) -> tuple[WorkUnit, ...]:
    tasks = {task.task_id: task for task in evaluation.tasks}
    return tuple(
        WorkUnit(unit["unit_id"], "eval", (Group(tasks[unit["task_id"]], "eval", samples),)) for unit in plan.units
    )


def _finished(store: Store, name: str) -> Plan | None:
    plans = (read_plan(store, plan) for plan in plan_names(store))
    return next((p for p in plans if p.run_id == name and p.sealed() and p.committed() == set(p.unit_ids)), None)


def eval_phase(base: CollectConfig, *, n_tasks: GroupCount, samples: int, temperature: float) -> CollectConfig:
    """A collect phase that only evaluates: no rubrics and no forks but those of best of N, one temperature."""
    body = base.resolved()
    body["name"] = "eval" if base.name == CollectConfig().name else f"{base.name}-eval"
    body["groups"] = {"eval": n_tasks}
    body["samples"] = samples
    body["sampling"]["act"]["temperature"] = temperature
    if body["delegation"]["mode"] == "counterfactual":
        body["delegation"]["mode"] = "plain"
    body["rubric"]["purposes"] = []
    body["tree_retries"] = max(1, base.tree_retries)
    return checked(CollectConfig, body)


def eval_rows(
    results: Sequence[TreeResult], unit: WorkUnit, *, evaluation: Evaluation
) -> dict[str, list[dict[str, Any]]]:
    """The `evals` rows of a unit, one per tree."""
    played = [(group.task, sample) for group in unit.groups for sample in range(group.n_samples)]
    details = evaluation.details
    rows = []
    for (task, sample), result in zip(played, results, strict=True):
        root = result.root
        rows.append(
            {
                **evaluation.stamp,
                "task_id": task.task_id,
                "sample": sample,
                "world": task.world,
                "difficulty": details.bands[task.task_id],
                "family": task.family,
                "true_depth": details.true_depths[task.task_id],
                "outcome": root.outcome,
                "success": None if root.outcome == "infra_error" else bool(root.success),
                "tries": root.tries,
                "n_turns": root.n_turns,
                "n_nodes": root.n_nodes,
                "max_depth": root.max_depth,
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
    """Both success rates with intervals, success@k, breakdowns, outcomes and sizes, as plain JSON values."""
    first = rows[0]

    def judged(row: Mapping[str, Any]) -> bool:
        return row["success"] is not None

    names = ("run_id", "epoch", "protocol", "policy", "policy_version", "weights_sha256", "temperature")
    return {
        **{name: first[name] for name in names},
        **{name: first.get(name) for name in ("protocol_sha256", "code_version", "dialect", "seed")},
        **{name: first.get(name) for name in ("selection", "candidates")},
        **rates(rows),
        "success_at": success_at_ks(rows),
        "by_difficulty": breakdown(rows, "difficulty"),
        "by_family": breakdown(rows, "family"),
        "by_true_depth": breakdown(rows, "true_depth"),
        "by_depth_used": breakdown(rows, "depth_used"),
        "outcomes": {
            name: sum(row["outcome"] == name for row in rows) for name in sorted({r["outcome"] for r in rows})
        },
        "infra_errors": sum(not judged(row) for row in rows),
        "retried": sum((row.get("tries") or 1) > 1 for row in rows),
        "turns_per_tree": mean_of(rows, "n_turns", of=judged),
        "nodes_per_tree": mean_of(rows, "n_nodes", of=judged),
        "delegations_per_tree": mean_of(rows, "n_delegations", of=judged),
        "completion_tokens_per_tree": mean_of(rows, "n_completion_tokens", of=judged),
    }


def compare(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Difference of success and of success@k between two evaluations, paired by task."""
    counts = [task_counts(rows) for rows in (before, after)]
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
