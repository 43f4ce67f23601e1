"""Fixed rubrics: one for every delegation, or none at all, in place of what a writer would have written.

Invariant: a fixed rubric is frozen before the child starts like any other and stored as a row whose writer is `global`
or `direct`; its turn is the one that delegated, as no completion wrote it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

import yaml

from collect.records import DelegationRecord
from schemas.rubric import Rubric, rubric_from_json
from sera_data.canonical import sha256_text

FixedRubric = Literal["global", "direct"]


@cache
def fixed_rubric(source: FixedRubric) -> Rubric:
    """The rubric of the package."""
    text = files("collect").joinpath("prompts", "fixed_rubrics.yaml").read_text(encoding="utf-8")
    return rubric_from_json(yaml.safe_load(text)[source])


def freeze(delegation: DelegationRecord, source: FixedRubric) -> None:
    """Give a delegation its fixed rubric, before its child starts."""
    rubric = fixed_rubric(source)
    delegation.rubric = rubric
    delegation.rubric_id = f"{delegation.delegation_id}~{source}~0~0"
    delegation.rubric_stamp = delegation.parent.clock.tick()
    delegation.rubric_rows.append(
        {
            "rubric_id": delegation.rubric_id,
            "delegation_id": delegation.delegation_id,
            "node_id": delegation.parent.node_id,
            "turn_id": delegation.turn_id,
            "writer": source,
            "writer_version": 0,
            "k": 0,
            "attempt": 0,
            "phase": "collect",
            "valid": True,
            "error": None,
            "items": [item.model_dump() for item in rubric.items],
            "success_gate": rubric.success_gate,
            "failure_conditions": rubric.failure_conditions,
            "procedure": rubric.procedure,
            "rubric_sha256": rubric.sha256(),
            "prompt_sha256": sha256_text(""),
            "order_stamp": delegation.rubric_stamp,
        }
    )
