"""Rubrics: written and frozen before the child starts, applied after it ended.

Invariant: the rubric's order stamp lies before the child's start and the child never sees it; writer and scorer have
the same number of attempts, every attempt is a row, and the first valid rubric is the one that is applied. A failing
writer or scorer never ends an agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from collect.acting import gained
from collect.asking import InfrastructureFault, OutOfTime
from collect.budget import Deadline
from collect.context import TreeContext
from collect.fixed_rubrics import freeze
from collect.forking import seen_before
from collect.policy import Completion, Sampling
from collect.prompts import Assignment, scorer_messages, writer_messages
from collect.records import Clock, DelegationRecord, NodeRecord, Row
from collect.replies import parse_rubric, parse_score
from collect.trajectory import trajectory
from collect.transcript import Transcript
from collect.turn_rows import failed_completion, turn_row
from collect.world import Agent
from schemas.rubric import Rubric
from schemas.score import Score, weighted_score
from schemas.words import Phase, TurnKind

V = TypeVar("V")


@dataclass(slots=True)
class Attempt:
    """One call of a writer or scorer: its turn's row, the parsed value or the reason why there is none."""

    row: Row
    value: Any
    error: str | None


@dataclass(frozen=True, slots=True)
class Edition:
    """Which of a delegation's rubrics it is: the k-th; of the tree itself (run None), or of a later refresh run."""

    k: int = 0
    run: str | None = None

    @property
    def phase(self) -> Phase:
        """What its rows say of when they were made."""
        return "collect" if self.run is None else "refresh"

    def rubric_id(self, delegation: DelegationRecord, writer: str, attempt: int) -> str:
        """A refresh puts its run before the writer, so that no two rubrics share an id."""
        run = "" if self.run is None else f"{self.run}~"
        return f"{delegation.delegation_id}~{run}{writer}~{self.k}~{attempt}"


OWN = Edition()


async def write_rubric(context: TreeContext, delegation: DelegationRecord, *, edition: Edition = OWN) -> None:
    """Ask the writer until a rubric is valid; on return the rubric is frozen in `delegation` or all attempts failed."""
    source = context.settings.rubric.source
    if source != "policy":
        freeze(delegation, source)
        return
    parent = delegation.parent
    writer = context.policy("writer")
    child = Agent(f"{delegation.delegation_id}b0", delegation.depth, delegation.targets)
    min_items = context.settings.rubric.min_items
    for attempt in range(context.settings.rubric.attempts):
        rubric_id = edition.rubric_id(delegation, writer.identity.name, attempt)
        transcript = Transcript(
            writer,
            role="writer",
            session=rubric_id,
            node_id=parent.node_id,
            opening=_writer_opening(context, delegation, child),
        )
        result = await _attempt(
            context,
            transcript,
            node=parent,
            kind="rubric",
            clock=parent.clock,
            seed=context.seeds.of(
                delegation.delegation_id, role="writer", turn=delegation.step, k=edition.k, attempt=attempt
            ),
            deadline=parent.deadline,
            facts=_writer_facts(context, delegation, child),
            parse=lambda text: parse_rubric(text, min_items=min_items),
        )
        delegation.rubric_transcripts.append(transcript)
        stamp = parent.clock.tick()
        delegation.rubric_rows.append(_rubric_row(delegation, rubric_id, result, stamp, attempt, edition))
        if result.value is not None:
            delegation.rubric = result.value
            delegation.rubric_id = rubric_id
            delegation.rubric_stamp = stamp
            return


async def score_node(
    context: TreeContext, node: NodeRecord, *, deadline: Deadline | None = None, edition: Edition = OWN
) -> None:
    """Apply the frozen rubric of the node's delegation to the ended node; every attempt is a row.

    deadline: of the tree while it still runs; None = a time of its own.
    """
    delegation = node.delegation
    if delegation is None or delegation.rubric is None or node.outcome == "infra_error":
        return
    rubric = delegation.rubric
    scorer = context.policy("scorer")
    clock = Clock(max(node.order_end, delegation.rubric_stamp))
    deadline = deadline or Deadline(context.settings.budgets.wall_s)
    for attempt in range(context.settings.rubric.attempts):
        session = f"{node.node_id}~{scorer.identity.name}~{edition.k}~{attempt}"
        transcript = _scorer_transcript(context, node, rubric, session)
        result = await _attempt(
            context,
            transcript,
            node=node,
            kind="score",
            clock=clock,
            seed=context.seeds.of(node.node_id, role="scorer", k=edition.k, attempt=attempt),
            deadline=deadline,
            facts=_scorer_facts(context, node, rubric),
            parse=lambda text: parse_score(text, rubric),
        )
        node.score_transcripts.append(transcript)
        node.score_rows.append(_score_row(delegation, node, rubric, result, attempt, edition))
        if result.value is not None:
            return


async def _attempt(
    context: TreeContext,
    transcript: Transcript,
    *,
    node: NodeRecord,
    kind: TurnKind,
    clock: Clock,
    seed: int,
    deadline: Deadline,
    facts: dict[str, Any],
    parse: Callable[[str], V],
) -> Attempt:
    started_at = datetime.now(UTC)
    settings = context.settings.sampling(transcript.role)
    sampling = Sampling(settings.temperature, settings.max_tokens, seed, settings.top_p)
    completion: Completion | None = None
    error: str | None = "the prompt fills the context"
    try:
        got = await context.complete(transcript, seed=seed, deadline=deadline, facts=facts)
        if got is not None:
            completion, sampling = got
    except InfrastructureFault as fault:
        error = str(fault)
    except OutOfTime:
        error = "the time of the tree is used up"
    finally:
        transcript.policy.release(transcript.session)
    value: V | None = None
    if completion is not None:
        value, error = _parsed(completion, parse)
    row = turn_row(
        turn_id=node.next_turn_id(),
        node_id=node.node_id,
        kind=kind,
        step=None,
        transcript=transcript,
        completion=completion or failed_completion(transcript.policy),
        sampling=sampling,
        order_stamp=clock.tick(),
        started_at=started_at,
    )
    row["ok"] = value is not None
    row["error"] = error
    node.turns.append(row)
    if completion is not None:
        transcript.answer(completion)
    return Attempt(row, value, error)


def _parsed(completion: Completion, parse: Callable[[str], V]) -> tuple[V | None, str | None]:
    if completion.finish_reason == "length":
        return None, "truncated reply"
    try:
        return parse(completion.text), None
    except ValueError as fault:
        return None, str(fault)


def _writer_opening(context: TreeContext, delegation: DelegationRecord, child: Agent) -> list[Any]:
    world, parent = context.world, delegation.parent
    assignment = Assignment(
        goal=delegation.goal,
        context=delegation.context,
        observed=seen_before(context, delegation, child),
        turns=delegation.turns,
        depth=delegation.depth,
        max_depth=context.settings.budgets.depth,
    )
    return writer_messages(
        context.services.style,
        world=world.name,
        dialect=context.services.dialect.name,
        parent_goal=parent.goal,
        assignment=assignment,
    )


def _writer_facts(context: TreeContext, delegation: DelegationRecord, child: Agent) -> dict[str, Any]:
    return {
        "world": context.world,
        "task": context.plan.task,
        "state": delegation.start,
        "agent": child,
        "context": delegation.context,
        "turns": delegation.turns,
    }


def _scorer_transcript(context: TreeContext, node: NodeRecord, rubric: Rubric, session: str) -> Transcript:
    """The scorer's chat; the trajectory is shortened until the prompt and its answer fit the context."""
    budgets, sampling = context.settings.budgets, context.settings.scorer
    chars = context.settings.rubric.trajectory_chars
    change, turns = gained(context, node), trajectory(context, node)
    while True:
        opening = scorer_messages(
            context.services.style,
            world=context.world.name,
            dialect=context.services.dialect.name,
            rubric=None if context.settings.rubric.source == "direct" else rubric.canonical(),
            goal=node.goal,
            turns=turns,
            finished=node.called_finish,
            stopped=node.ending is not None,
            gained=change,
            trajectory_chars=chars,
        )
        transcript = Transcript(
            context.policy("scorer"), role="scorer", session=session, node_id=node.node_id, opening=opening
        )
        n_prompt = transcript.n_prompt
        fits = budgets.context is None or n_prompt is None or n_prompt + sampling.max_tokens <= budgets.context
        if fits or chars < 100:
            return transcript
        chars = min(chars, sum(len(text) + len(seen or "") for text, seen in turns)) * 3 // 4


def _scorer_facts(context: TreeContext, node: NodeRecord, rubric: Rubric) -> dict[str, Any]:
    return {
        "world": context.world,
        "rubric": rubric,
        "agent": node.agent,
        "start": node.start,
        "end": node.end,
        "history": node.history,
        "gained": gained(context, node),
        "finished": node.called_finish,
    }


def _rubric_row(
    delegation: DelegationRecord, rubric_id: str, result: Attempt, stamp: int, attempt: int, edition: Edition
) -> Row:
    rubric: Rubric | None = result.value
    turn = result.row
    return {
        "rubric_id": rubric_id,
        "delegation_id": delegation.delegation_id,
        "node_id": delegation.parent.node_id,
        "turn_id": turn["turn_id"],
        "writer": turn["policy"],
        "writer_version": turn["policy_version"],
        "k": edition.k,
        "attempt": attempt,
        "phase": edition.phase,
        "valid": rubric is not None,
        "error": result.error,
        "items": [item.model_dump() for item in rubric.items] if rubric else [],
        "success_gate": rubric.success_gate if rubric else None,
        "failure_conditions": rubric.failure_conditions if rubric else None,
        "procedure": rubric.procedure if rubric else None,
        "rubric_sha256": rubric.sha256() if rubric else None,
        "prompt_sha256": turn["prompt_sha256"],
        "order_stamp": stamp,
    }


def _score_row(
    delegation: DelegationRecord, node: NodeRecord, rubric: Rubric, result: Attempt, attempt: int, edition: Edition
) -> Row:
    score: Score | None = result.value
    turn = result.row
    return {
        "rubric_id": delegation.rubric_id,
        "node_id": node.node_id,
        "delegation_id": delegation.delegation_id,
        "scorer": turn["policy"],
        "scorer_version": turn["policy_version"],
        "attempt": attempt,
        "phase": edition.phase,
        "valid": score is not None,
        "error": result.error,
        "final_score": score.final_score if score else None,
        "success": score.success if score else None,
        "item_scores": [{"name": name, "score": value} for name, value in score.item_scores] if score else [],
        "weighted_score": weighted_score(rubric, score) if score else None,
        "turn_id": turn["turn_id"],
        "prompt_sha256": turn["prompt_sha256"],
        "order_stamp": turn["order_stamp"],
    }
