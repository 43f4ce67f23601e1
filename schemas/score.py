"""The score model: what a scorer's JSON must be.

Invariant: final_score is finite and in [0, 1]; success false requires 0 and success true requires more than 0.
Rules as in the paper's public code (arXiv 2610.04902).
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from schemas.rubric import Rubric


class Score(BaseModel):
    """A valid score. `success` is None when the reply did not say; `item_scores` is empty when absent."""

    model_config = ConfigDict(frozen=True)
    final_score: float
    success: bool | None
    item_scores: tuple[tuple[str, float], ...]


def score_from_json(body: Any, rubric: Rubric) -> Score:
    """Validate a decoded JSON object as a score under `rubric`; raises ValueError that says what is wrong.

    `criterion_scores` may be numbers in the rubric's order or objects with `name` and `score`; it is optional,
    but when present every score must lie in [0, 1].
    """
    if not isinstance(body, dict):
        msg = f"a score is a JSON object, got {type(body).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a reply is a ValueError
    value = _unit(body.get("final_score", body.get("score")), "final_score")
    success = body.get("success")
    if success is not None and not isinstance(success, bool):
        msg = f"success must be true or false, got {success!r}"
        raise ValueError(msg)
    if success is False and value != 0:
        msg = f"success false requires final_score 0, got {value}"
        raise ValueError(msg)
    if success is True and not value > 0:
        msg = f"success true requires final_score above 0, got {value}"
        raise ValueError(msg)
    return Score(final_score=value, success=success, item_scores=_items(body.get("criterion_scores") or [], rubric))


def weighted_score(rubric: Rubric, score: Score) -> float | None:
    """Sum of weight x item score, or None when the items scored are not exactly the rubric's."""
    if [name for name, _ in score.item_scores] != [item.name for item in rubric.items]:
        return None
    return sum(item.weight * value for item, (_, value) in zip(rubric.items, score.item_scores, strict=True))


def _unit(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        msg = f"{what} must be a finite number in [0, 1], got {value!r}"
        raise ValueError(msg)
    return float(value)


def _items(raw: Any, rubric: Rubric) -> tuple[tuple[str, float], ...]:
    if not isinstance(raw, list):
        msg = f"criterion_scores must be a list, got {type(raw).__name__}"
        raise ValueError(msg)  # noqa: TRY004
    names = [item.name for item in rubric.items]
    out: list[tuple[str, float]] = []
    for index, entry in enumerate(raw):
        name, value = names[index] if index < len(names) else f"item {index}", entry
        if isinstance(entry, dict):
            name, value = str(entry.get("name", name)), entry.get("score")
        out.append((name, _unit(value, f"criterion_scores[{index}]")))
    return tuple(out)
