"""Best of N: which of several finished candidates of a delegation its parent gets.

Invariant: all candidates started from one state, under a rubric that was frozen before; a choice needs nothing of the
world but its protocol, and the same values give the same choice, here and when a store is selected again. Ties go to
the first; where no candidate has a valid value, branch 0 is taken and the reason is kept.

Run: ``sera eval run --select rubric --n 2 ...``; ``sera eval reselect STORE`` plays the choice again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from collect.context import TreeContext
from collect.judging import judge_candidates
from collect.records import DelegationRecord, NodeRecord
from collect.rubrics import score_node
from collect.together import together
from schemas.words import Selector

SEED_ROLE = "select"


@dataclass(frozen=True, slots=True)
class Choice:
    """The branch that is taken, and why."""

    branch: int
    reason: str


def choose(selector: Selector, values: Sequence[float | None], *, seed: int) -> Choice:
    """The choice among candidates by their values, in the order of their branches.

    values: for `rubric` valid scores in [0, 1], for `judge` verdicts in [0, 1] (above 0.5 = success), None = there is
    no valid one; `first` and `random` do not look at them. seed: of the draw of `random`.
    """
    if selector == "first":
        return Choice(0, "first")
    if selector == "random":
        return Choice(Random(seed).randrange(len(values)), f"drawn of {len(values)}")
    valid = [(value, branch) for branch, value in enumerate(values) if value is not None]
    if not valid:
        what = "score" if selector == "rubric" else "verdict"
        return Choice(0, f"no candidate has a valid {what}, so branch 0")
    if selector == "judge":
        won = [branch for value, branch in valid if value > 0.5]
        return Choice(won[0], "first judged successful") if won else Choice(0, "none judged successful, so branch 0")
    best = max(value for value, _ in valid)
    tied = [branch for value, branch in valid if value == best]
    return Choice(tied[0], "highest score" if len(tied) == 1 else f"first of {len(tied)} with the highest score")


async def select(context: TreeContext, delegation: DelegationRecord) -> None:
    """Let the tree's selector look at the finished candidates and note its choice in `delegation`."""
    assert context.selector is not None
    choice = choose(
        context.selector,
        await _values(context, delegation),
        seed=context.seeds.of(delegation.delegation_id, role=SEED_ROLE),
    )
    delegation.chosen = choice.branch
    delegation.selection_reason = choice.reason
    if context.selector == "rubric" and delegation.rubric is None:
        error = delegation.rubric_rows[-1]["error"] if delegation.rubric_rows else "none was asked for"
        delegation.selection_reason = f"no valid rubric ({error}), so branch 0"


async def _values(context: TreeContext, delegation: DelegationRecord) -> list[float | None]:
    candidates, deadline = delegation.branches, delegation.parent.deadline
    if context.selector == "rubric":
        await together(score_node(context, node, deadline=deadline) for node in candidates)
        return [_score(node) for node in candidates]
    if context.selector == "judge":
        await judge_candidates(context, candidates)
        return [_verdict(node) for node in candidates]
    return [None] * len(candidates)


def _score(node: NodeRecord) -> float | None:
    return next((row["final_score"] for row in node.score_rows if row["valid"]), None)


def _verdict(node: NodeRecord) -> float | None:
    votes = [row["value"] for row in node.label_rows if row["valid"]]
    return sum(votes) / len(votes) if votes else None
