"""What a method needs from the collector: who writes and scores, where rubrics are, how many branches.

Invariant: words and numbers only. `learn.collect_needs` turns them into settings of a collect phase and refuses
settings that contradict them; `learn.store_needs` refuses a store that was collected otherwise.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.words import Stage
from sera_data.config import Config


class Needs(Config):
    """The needs of a method; the defaults ask for nothing."""

    agents: Literal["any", "single"] = Field(default="any", description="single: agents that never delegate.")
    rubrics: tuple[Stage, ...] = Field(default=(), description="Purposes whose delegations have rubrics and scores.")
    writer: Literal["any", "policy", "external", "global", "direct"] = Field(
        default="any",
        description="policy: the acting policy; external: another one; global: one fixed rubric for every delegation;"
        " direct: no rubric at all, the scorer sees the goal only.",
    )
    scorer: Literal["any", "policy", "external", "frozen"] = Field(
        default="any", description="policy: the acting policy; external: another one; frozen: the start policy, always."
    )
    scorer_temperature: float | None = Field(default=None, gt=0, description="Sampling temperature of the scorer.")
    k: int | None = Field(default=None, ge=2, description="Branches of a fork; of more, the first k are read.")
    forks: Literal["any", "every_tree"] = Field(
        default="any", description="every_tree: groups of every purpose fork, not only those of the rubric stage."
    )
