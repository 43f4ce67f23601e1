"""The rubric and score programs of the scripted policies.

Invariant: the scorer obeys the rubric's text, not the truth: a gate that asks for too little lets failures pass, a
gate on errors fails a success that repaired itself, one on effort fails nobody. So the quality of a rubric decides that
of its scores. The final score is 0 exactly when the gate or the failure condition fails, otherwise the weighted sum to
two digits, above 0.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from collect.world import Action, Event
from schemas.rubric import Rubric

Turn = tuple[Action | None, Event | None, str]

CRITERIA: Mapping[str, str] = {
    "target_gain": "goal items gained",
    "right_recipe": "crafts follow the recipe",
    "looked_up": "looks up before crafting",
    "few_steps": "few steps",
    "no_errors": "no failed action",
    "finished": "finish was called",
    "no_waste": "nothing made in vain",
}
FORM = ("few_steps", "no_errors", "finished", "no_waste")
WEIGHTS: tuple[tuple[float, ...], ...] = (
    (0.4, 0.3, 0.2, 0.1),
    (0.5, 0.2, 0.2, 0.1),
    (0.25, 0.25, 0.25, 0.25),
    (0.3, 0.2, 0.2, 0.2, 0.1),
    (0.35, 0.25, 0.2, 0.1, 0.1),
    (0.2, 0.2, 0.2, 0.2, 0.2),
)
FINISH_GATE = "finish was called"
ERROR_GATE = "no action failed"
EFFORT_GATE = "some action worked"
FORM_GATES: Mapping[str, str] = {"finish": FINISH_GATE, "no_error": ERROR_GATE, "effort": EFFORT_GATE}
"""Gates that say nothing of the goal, in every world's words."""
FAILURE = "finish was not called"
PROCEDURE = "0 if the gate fails, else the weighted sum"
GATES = ("right", "under", "finish", "no_error", "effort")
GAINS = re.compile(r"(\d+) ([a-z0-9_]+)")
FEW_STEPS, SOME_STEPS = 2, 5


class Evidence(NamedTuple):
    """What a scorer's prompt shows of an episode."""

    targets: Mapping[str, int]
    gained: Mapping[str, Any]
    turns: Sequence[Turn]
    finished: bool


def write_rubric(
    targets: Mapping[str, int], rng: random.Random, *, gates: Mapping[str, float], substance: Mapping[str, float]
) -> dict[str, Any]:
    """A rubric for targets: gate kind drawn by weights, 4 or 5 criteria, weights from a small set.

    A right gate comes with the criterion of gained items. So does a bad gate with its probability in
    `substance`; otherwise its criteria look at form only, and an agent that gives up in style may score best.
    """
    gate = rng.choices(list(gates), list(gates.values()))[0]
    known = "target_gain" if has_substance(gate, rng, substance) else None
    return {
        "rubric_items": draw_items(CRITERIA, rng, form=FORM, substance=known),
        "success_gate": gate_text(gate, targets),
        "failure_conditions": FAILURE,
        "scoring_procedure": PROCEDURE,
    }


def has_substance(gate: str, rng: random.Random, shares: Mapping[str, float]) -> bool:
    """Whether the rubric of a gate looks at what was reached: always with a right one, else by the gate's share."""
    return gate == "right" or rng.random() < shares.get(gate, 0.0)


def draw_items(
    criteria: Mapping[str, str], rng: random.Random, *, form: Sequence[str], substance: str | None
) -> list[dict[str, Any]]:
    """Rubric items in the order of `criteria`: `substance` and some others, or without it those of form only."""
    if substance is not None:
        weights = rng.choice(WEIGHTS)
        chosen = {substance, *rng.sample([name for name in criteria if name != substance], len(weights) - 1)}
    else:
        weights = rng.choice([choice for choice in WEIGHTS if len(choice) == len(form)])
        chosen = set(form)
    names = [name for name in criteria if name in chosen]
    return [
        {"name": name, "description": criteria[name], "weight": weight}
        for name, weight in zip(names, weights, strict=True)
    ]


def gate_text(kind: str, targets: Mapping[str, int]) -> str:
    """A gate in words; `under` asks for one less of every target than the goal does."""
    if kind in FORM_GATES:
        return FORM_GATES[kind]
    less = 1 if kind == "under" else 0
    return "gains " + " and ".join(f"{count - less} {item}" for item, count in targets.items())


def write_score(rubric: Rubric, evidence: Evidence) -> dict[str, Any]:
    """Apply a rubric by its words."""
    scores = [criterion(item.name, evidence) for item in rubric.items]
    passed = gate_holds(rubric.success_gate, evidence) and not condition_holds(rubric.failure_conditions, evidence)
    total = sum(item.weight * score for item, score in zip(rubric.items, scores, strict=True))
    final = max(0.01, round(total, 2)) if passed else 0
    return {"success": passed, "criterion_scores": [short(s) for s in scores], "final_score": short(min(1.0, final))}


def gate_holds(text: str, evidence: Evidence) -> bool:
    """Whether a gate's words hold; words without a known claim hold always, as they gate nothing."""
    wanted = GAINS.findall(text) if "gain" in text else []
    if any(evidence.gained.get(item, 0) < int(count) for count, item in wanted):
        return False
    return form_holds(text, evidence)


def form_holds(text: str, evidence: Evidence) -> bool:
    """Whether every gate of form that the words name holds."""
    if FINISH_GATE in text and not evidence.finished:
        return False
    if EFFORT_GATE in text and not worked(evidence.turns):
        return False
    return not (ERROR_GATE in text and failures(evidence.turns))


def condition_holds(text: str, evidence: Evidence) -> bool:
    """Whether a failure condition has come true."""
    return FAILURE in text and not evidence.finished


def criterion(name: str, evidence: Evidence) -> float:
    """Score of one criterion in {0, .5, 1}; an unknown one is scored in the middle."""
    program = PROGRAMS.get(name)
    return 0.5 if program is None else program(evidence)


def failures(turns: Sequence[Turn]) -> int:
    """Turns that ended in an error: invalid replies and refused calls."""
    return sum(action is None or (event is not None and not event.ok) for action, event, _ in turns)


def worked(turns: Sequence[Turn]) -> bool:
    """Whether any call was accepted."""
    return any(event is not None and event.ok for _, event, _ in turns)


def _target_gain(evidence: Evidence) -> float:
    shares = [min(1.0, max(0, evidence.gained.get(item, 0)) / n) for item, n in evidence.targets.items()]
    if all(share >= 1 for share in shares):
        return 1.0
    return 0.5 if any(share > 0 for share in shares) else 0.0


def _right_recipe(evidence: Evidence) -> float:
    crafts = [event.ok for action, event, _ in evidence.turns if action and event and action.tool == "craft"]
    if not crafts or not any(crafts):
        return 0.0
    return 1.0 if all(crafts) else 0.5


def _looked_up(evidence: Evidence) -> float:
    seen: set[str] = set()
    before: list[bool] = []
    for action, event, _ in evidence.turns:
        if action is None or event is None:
            continue
        if action.tool == "get_info" and event.ok:
            seen.update(action.arguments.get("items", ()))
        target = action.arguments.get("target")
        if action.tool == "craft" and isinstance(target, (list, tuple)) and target:
            before.append(isinstance(target[0], str) and target[0] in seen)
    if not any(before):
        return 0.5 if seen and not before else 0.0
    return 1.0 if all(before) else 0.5


def _no_errors(evidence: Evidence) -> float:
    return (1.0, 0.5)[count] if (count := failures(evidence.turns)) < 2 else 0.0


def _few_steps(evidence: Evidence) -> float:
    steps = len(evidence.turns)
    if steps <= FEW_STEPS:
        return 1.0
    return 0.5 if steps <= SOME_STEPS else 0.0


def _finished(evidence: Evidence) -> float:
    return 1.0 if evidence.finished else 0.0


def _no_waste(evidence: Evidence) -> float:
    waste = [item for item, count in evidence.gained.items() if count > 0 and item not in evidence.targets]
    return 0.5 if waste else 1.0


PROGRAMS: Mapping[str, Callable[[Evidence], float]] = {
    "target_gain": _target_gain,
    "right_recipe": _right_recipe,
    "looked_up": _looked_up,
    "no_errors": _no_errors,
    "few_steps": _few_steps,
    "finished": _finished,
    "no_waste": _no_waste,
}


def random_score(rubric: Rubric, rng: random.Random) -> dict[str, Any]:
    """A valid score that means nothing."""
    scores = [rng.choice((0.0, 0.5, 1.0)) for _ in rubric.items]
    final = rng.choice((0.0, 0.25, 0.5, 0.75, 1.0))
    return {"success": final > 0, "criterion_scores": [short(s) for s in scores], "final_score": short(final)}


def short(value: float) -> float | int:
    """Whole numbers without a decimal point, as a writer of JSON would."""
    return int(value) if value == int(value) else round(value, 2)
