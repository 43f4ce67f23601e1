"""One tree: a root episode with all that it launches, forks and scores, as rows.

Invariant: the on-path part of a tree is the same whether launches are forked or not; branches and scores may run
concurrently, rows come out in one order. An infrastructure fault keeps the tree, as infra_error.

Run: ``sera collect`` runs many of these; see `tests/collect/test_tree.py` for one.
"""

from __future__ import annotations

import time
from random import Random

from collect.agent import run_agent
from collect.asking import InfrastructureFault
from collect.budget import AgentLedger, Deadline, EnvironmentBudget, ForkBudget
from collect.context import TreeContext
from collect.forking import require_forks, started_task
from collect.forks import fork_drawn
from collect.judging import judge_tree, majority
from collect.records import Clock, NodeRecord, StateCell
from collect.rounds import Rounds
from collect.rows import delegations_of, program_verdict, succeeded, tree_rows, walk
from collect.rubrics import score_node
from collect.seeds import Seeds
from collect.services import RootSummary, Services, TreePlan, TreeResult
from collect.settings import DelegationSettings
from collect.together import together
from collect.transcript import Transcript
from collect.world import Agent
from schemas.words import Scheduling
from sera_data.canonical import sha256_json
from sera_data.errors import UsageError

SCRIPTED = "scripted"

__all__ = ["RootSummary", "Services", "TreePlan", "TreeResult", "run_tree", "tree_id_of"]


def tree_id_of(plan: TreePlan) -> str:
    """'r' + 16 hex digits of the hash of run, epoch, task and sample."""
    return "r" + sha256_json([plan.run_id, plan.epoch, plan.task.task_id, plan.sample])[:16]


async def run_tree(plan: TreePlan, services: Services) -> TreeResult:
    """Run the tree of a plan to its end: episodes, forks, scores, labels."""
    started = time.monotonic()
    context = _context(plan, services)
    root = _root(context)
    await run_agent(context, root)
    if context.forks == "recommended" and root.outcome != "infra_error":
        await fork_drawn(context, delegations_of(root, on_path=True))
    if context.rubrics:
        await _score(context, root)
    await judge_tree(context, root)
    rows = tree_rows(context, root)
    return TreeResult(
        root=_summary(context, root, wall_s=time.monotonic() - started),
        rows=rows,
        transcripts=_transcripts(root),
    )


def _context(plan: TreePlan, services: Services) -> TreeContext:
    tree_id = tree_id_of(plan)
    settings = services.settings
    seeds = Seeds(
        run_seed=plan.seed,
        policy_version=services.policies["act"].identity.version,
        task_id=plan.task.task_id,
        sample=plan.sample,
        tree_id=tree_id,
    )
    selector = settings.delegation.selector if settings.delegation.mode == "best_of" else None
    require_forks(services.world, mode=settings.delegation.mode)
    rubrics = plan.purpose in settings.rubric.purposes or selector == "rubric"
    missing = [role for role in ("writer", "scorer") if rubrics and role not in services.policies]
    if missing:
        msg = f"purpose {plan.purpose!r} wants rubrics, but no policy serves {' and '.join(missing)}"
        raise UsageError(msg, hint="name one under policy.roles or take the purpose out of rubric.for")
    if selector == "judge" and services.judge is None:
        msg = "delegation.selector=judge chooses by a judge's verdicts, but there is no judge"
        raise UsageError(msg, hint="set judge.spec, for example --set judge.spec=openai:MODEL@URL")
    scheduling: Scheduling = settings.delegation.scheduling if settings.delegation.mode == "plain" else "sequential"
    in_order = settings.deterministic or services.policies["act"].identity.engine == SCRIPTED
    return TreeContext(
        plan=plan,
        services=services,
        tree_id=tree_id,
        seeds=seeds,
        environments=_environments(settings.delegation),
        tools=tuple(tool.name for tool in services.world.tools()),
        forks=_forks(plan, services, seeds),
        rubrics=rubrics,
        scheduling=scheduling,
        rounds=Rounds() if scheduling == "parallel" and in_order else None,
        selector=selector,
        in_order=in_order,
    )


def _environments(delegation: DelegationSettings) -> EnvironmentBudget | ForkBudget:
    if delegation.mode == "best_of":
        return ForkBudget(delegation.fork_cap)
    return EnvironmentBudget(delegation.environment_cap)


def _forks(plan: TreePlan, services: Services, seeds: Seeds) -> str | None:
    delegation = services.settings.delegation
    if delegation.mode != "counterfactual" or delegation.k < 2:
        return None
    if plan.purpose == "rubric":
        return delegation.selection
    share = Random(seeds.of(seeds.tree_id, role="fork_share")).random()
    return delegation.selection if share < delegation.fork_share else None


def _root(context: TreeContext) -> NodeRecord:
    world, budgets, task = context.world, context.settings.budgets, started_task(context)
    start = world.reset(task)
    return NodeRecord(
        agent=Agent(context.tree_id, 0, world.root_targets(task)),
        parent=None,
        delegation=None,
        branch=None,
        goal=task.goal,
        context=None,
        start=start,
        cell=StateCell(start),
        clock=Clock(0),
        ledger=AgentLedger(budgets.agents_per_tree),
        deadline=Deadline(budgets.wall_s),
        seed=context.seeds.of(context.tree_id, role="node"),
        turn_budget=budgets.turns_at(0),
    )


async def _score(context: TreeContext, root: NodeRecord) -> None:
    nodes = [node for node in walk(root) if node.delegation is not None and not node.score_rows]
    await together(score_node(context, node) for node in nodes)


def _transcripts(root: NodeRecord) -> list[Transcript]:
    nodes = list(walk(root))
    acts = [node.transcript for node in nodes if node.transcript is not None]
    rubrics = [t for launch in delegations_of(root) for t in launch.rubric_transcripts]
    return [*acts, *rubrics, *(t for node in nodes for t in node.score_transcripts)]


def _summary(context: TreeContext, root: NodeRecord, *, wall_s: float) -> RootSummary:
    assert root.outcome is not None
    try:
        success = succeeded(context, root, program_verdict(context, root))
        success = majority(root) if success is None else success
        error = root.error
    except InfrastructureFault as fault:
        success, error = None, str(fault)
    path = [node for node in walk(root) if node.on_path]
    return RootSummary(
        tree_id=context.tree_id,
        outcome=root.outcome,
        success=success,
        n_nodes=len(path),
        n_turns=sum(node.n_turns for node in path),
        n_delegations=sum(len(node.delegations) for node in path),
        n_prompt_tokens=sum(node.n_prompt_tokens for node in path),
        n_completion_tokens=sum(node.n_completion_tokens for node in path),
        max_depth=max(node.depth for node in path),
        error=error,
        wall_s=wall_s,
    )
