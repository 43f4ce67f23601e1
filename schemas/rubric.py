"""The rubric model: what a writer's JSON must be, and its canonical form.

Invariant: item weights are finite, non-negative and sum to 1 after validation; `canonical()` is the only text
that scorers see and that `rubric_sha256` hashes. Rules as in the paper's public code (arXiv 2610.04902).
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

MIN_ITEMS = 2


class RubricItem(BaseModel):
    """One criterion: a non-empty name and description and a weight >= 0 (0 when missing)."""

    model_config = ConfigDict(frozen=True)
    name: str
    description: str
    weight: float


class Rubric(BaseModel):
    """A valid rubric; weights sum to 1."""

    model_config = ConfigDict(frozen=True)
    items: tuple[RubricItem, ...]
    success_gate: str
    failure_conditions: str
    procedure: str

    def canonical(self) -> str:
        """Compact JSON with fixed key order, the form that is shown to scorers."""
        body = {
            "rubric_items": [i.model_dump() for i in self.items],
            "success_gate": self.success_gate,
            "failure_conditions": self.failure_conditions,
            "scoring_procedure": self.procedure,
        }
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))

    def sha256(self) -> str:
        """Hash of the canonical form."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def rubric_from_json(body: Any, *, min_items: int = MIN_ITEMS) -> Rubric:
    """Validate a decoded JSON object as a rubric; raises ValueError that says what is wrong.

    Weights are renormalised to sum to 1: [2, 2] becomes [.5, .5]. A total of 0, fewer than `min_items`
    items, or an item without a name or description is an error.
    """
    if not isinstance(body, dict):
        msg = f"a rubric is a JSON object, got {type(body).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a reply is a ValueError
    raw = body.get("rubric_items")
    if not isinstance(raw, list) or len(raw) < min_items:
        got = len(raw) if isinstance(raw, list) else type(raw).__name__
        msg = f"rubric_items must be a list of at least {min_items} items, got {got}"
        raise ValueError(msg)
    parts = [_item(i, item) for i, item in enumerate(raw)]
    total = sum(weight for _, _, weight in parts)
    if not total > 0:
        msg = f"rubric weights must have a total above 0, got {total}"
        raise ValueError(msg)
    if math.isclose(total, 1.0, rel_tol=1e-9):  # keep the digits that were written: .4, not .4000000000000001
        total = 1.0
    texts = {key: _text(body.get(key, "")) for key in ("success_gate", "failure_conditions", "scoring_procedure")}
    try:
        return Rubric(
            items=tuple(RubricItem(name=n, description=d, weight=w / total) for n, d, w in parts),
            success_gate=texts["success_gate"],
            failure_conditions=texts["failure_conditions"],
            procedure=texts["scoring_procedure"],
        )
    except ValidationError as error:  # pragma: no cover - parts are validated above
        raise ValueError(str(error)) from error


def _item(index: int, item: Any) -> tuple[str, str, float]:
    if not isinstance(item, dict):
        msg = f"rubric item {index} must be an object, got {type(item).__name__}"
        raise ValueError(msg)  # noqa: TRY004
    for key in ("name", "description"):
        if not isinstance(item.get(key), str) or not item[key].strip():
            msg = f"rubric item {index} needs a non-empty {key}"
            raise ValueError(msg)
    weight = item.get("weight", 0)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight) or weight < 0:
        msg = f"rubric item {index} needs a finite weight >= 0, got {weight!r}"
        raise ValueError(msg)
    return item["name"], item["description"], float(weight)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
