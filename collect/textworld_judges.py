"""The rubric and score programs of the scripted policies for TextWorld-Sync.

Invariant: as for TextCraft (`collect.scripted_judges`) the scorer obeys the rubric's text and what a scorer's prompt
shows, not the truth: a gate that asks for too little lets failures pass, a gate on errors fails a success that
repaired itself. The final score is 0 exactly when the gate or the failure condition fails.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collect.scripted_judges import (
    FINISH_GATE,
    FORM_GATES,
    PROCEDURE,
    Evidence,
    draw_items,
    failures,
    form_holds,
    has_substance,
    short,
)
from schemas.rubric import Rubric

Claim = tuple[str, str]  # state of a thing or dish, and its name

CRITERIA: Mapping[str, str] = {
    "goal_reached": "the goal is reached",
    "nothing_spoiled": "no food is treated wrongly",
    "useful_steps": "commands change something",
    "few_steps": "few steps",
    "no_errors": "no rejected command",
    "finished": "finish was called",
    "no_idling": "no idle looks or moves",
}
SPOILED = "a food was spoiled or lost"
"""What forces the score 0. Not that finish was not called: whoever eats the last dish has no turn left for it."""
FORM = ("few_steps", "no_errors", "finished", "no_idling")
LESS: Mapping[str, str] = {"eaten": "prepared", "ready": "taken"}
"""What a gate that asks for too little asks for instead; other states have nothing below them."""
WEAKER: Mapping[str, tuple[str, ...]] = {
    "taken": ("taken", "ready"),
    "ready": ("ready",),
    "prepared": ("prepared", "eaten"),
    "eaten": ("eaten",),
}
"""Which changes show a state."""
CLAIM = re.compile(r"([\w -]+?) is (taken|ready|prepared|eaten)")
IDLE = ("look around", "inventory", "read cookbook", "wait", "go to", "move")
FEW_STEPS, SOME_STEPS = 12, 16


def write_rubric(
    targets: Mapping[str, Any], rng: random.Random, *, gates: Mapping[str, float], substance: Mapping[str, float]
) -> dict[str, Any]:
    """A rubric for the targets of a launch; arguments as in `collect.scripted_judges.write_rubric`."""
    gate = rng.choices(list(gates), list(gates.values()))[0]
    known = "goal_reached" if has_substance(gate, rng, substance) else None
    return {
        "rubric_items": draw_items(CRITERIA, rng, form=FORM, substance=known),
        "success_gate": gate_text(gate, targets),
        "failure_conditions": SPOILED,
        "scoring_procedure": PROCEDURE,
    }


def claims_of(targets: Mapping[str, Any]) -> list[Claim]:
    """What the goal names, as claims; empty when it names nothing checkable. A dish that is eaten says it all."""
    conditions = targets.get("conditions")
    found = [(kind, name) for kind, name in conditions if kind in WEAKER] if isinstance(conditions, list) else []
    return [claim for claim in found if claim[0] == "eaten"] or found


def gate_text(kind: str, targets: Mapping[str, Any]) -> str:
    """A gate in words; `under` asks for less than the goal does."""
    claims = claims_of(targets)
    if kind in FORM_GATES:
        return FORM_GATES[kind]
    if not claims:
        return FINISH_GATE
    if kind == "under":
        claims = [(LESS.get(state, state), name) for state, name in claims]
    return " and ".join(f"{name} is {state}" for state, name in claims)


def write_score(rubric: Rubric, evidence: Evidence) -> dict[str, Any]:
    """Apply a rubric by its words."""
    scores = [criterion(item.name, evidence) for item in rubric.items]
    passed = gate_holds(rubric.success_gate, evidence)
    passed = passed and not (SPOILED in rubric.failure_conditions and not _nothing_spoiled(evidence))
    total = sum(item.weight * score for item, score in zip(rubric.items, scores, strict=True))
    final = max(0.01, round(total, 2)) if passed else 0
    return {"success": passed, "criterion_scores": [short(s) for s in scores], "final_score": short(min(1.0, final))}


def gate_holds(text: str, evidence: Evidence) -> bool:
    """Whether a gate's words hold; words without a known claim hold always, as they gate nothing."""
    claims = [(state, _name(name)) for name, state in CLAIM.findall(text)]
    if any(not holds(claim, evidence) for claim in claims):
        return False
    return form_holds(text, evidence)


def holds(claim: Claim, evidence: Evidence) -> bool:
    """Whether the change of the world shows a claim."""
    state, name = claim
    return any(name in evidence.gained.get(key, ()) for key in WEAKER[state])


def criterion(name: str, evidence: Evidence) -> float:
    """Score of one criterion in {0, .5, 1}; an unknown one is scored in the middle."""
    program = PROGRAMS.get(name)
    return 0.5 if program is None else program(evidence)


def _name(words: str) -> str:
    return words.strip().removeprefix("and ").strip()


def _goal_reached(evidence: Evidence) -> float:
    claims = claims_of(evidence.targets)
    if not claims:
        return 0.5 if evidence.gained else 0.0
    held = [holds(claim, evidence) for claim in claims]
    if all(held):
        return 1.0
    return 0.5 if any(held) or evidence.gained.get("ready") else 0.0


def _nothing_spoiled(evidence: Evidence) -> float:
    return 0.0 if evidence.gained.get("spoiled") or evidence.gained.get("deleted") else 1.0


def _commands(evidence: Evidence) -> Sequence[tuple[str, bool, bool]]:
    """(text, accepted, whether it changed the kitchen) of each command."""
    found = []
    for action, event, _ in evidence.turns:
        if action is not None and event is not None and "text" in action.arguments:
            changed = event.delta is not None and set(event.delta) != {"room"}
            found.append((str(action.arguments["text"]), event.ok, changed))
    return found


def _useful_steps(evidence: Evidence) -> float:
    commands = _commands(evidence)
    if not commands:
        return 0.0
    share = sum(changed for _, _, changed in commands) / len(commands)
    return 1.0 if share >= 0.8 else 0.5 if share >= 0.4 else 0.0


def _no_idling(evidence: Evidence) -> float:
    idle = sum(text.startswith(IDLE) for text, _, _ in _commands(evidence))
    return 1.0 if idle <= 2 else 0.5 if idle <= 5 else 0.0


def _few_steps(evidence: Evidence) -> float:
    steps = len(evidence.turns)
    return 1.0 if steps <= FEW_STEPS else 0.5 if steps <= SOME_STEPS else 0.0


def _no_errors(evidence: Evidence) -> float:
    return (1.0, 0.5)[count] if (count := failures(evidence.turns)) < 2 else 0.0


def _finished(evidence: Evidence) -> float:
    return 1.0 if evidence.finished else 0.0


PROGRAMS: Mapping[str, Callable[[Evidence], float]] = {
    "goal_reached": _goal_reached,
    "nothing_spoiled": _nothing_spoiled,
    "useful_steps": _useful_steps,
    "few_steps": _few_steps,
    "no_errors": _no_errors,
    "finished": _finished,
    "no_idling": _no_idling,
}
