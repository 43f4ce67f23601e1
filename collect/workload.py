"""The workload of a goal: the fewest actions with which a world's planner reaches it from its start.

Invariant: it says how much was delegated, never how well it went; worlds without a planner have none. It is stored in
the details of the program's label, where the delegation credit by workload reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collect.world import Verdict, World
from sera_data.canonical import canonical_json


def label_details(world: World[Any], verdict: Verdict, *, start: Any, targets: Mapping[str, Any] | None) -> str:
    """What a verdict rests on as sorted JSON, with `least_steps` where the world can say them."""
    count = getattr(world, "least_steps", None)
    if count is None or not targets:
        return canonical_json(verdict.details)
    return canonical_json({**verdict.details, "least_steps": count(start, targets)})
