"""`RefreshConfig`: which rubrics are written or applied again, by whom, for which stored branches.

Invariant: its identity names the run and holds the weights that serve it, so the same command finds its own unfinished
plan and another policy never continues it.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from schemas.words import Purpose
from sera_data.canonical import sha256_json
from sera_data.config import Config

PATIENCE = ("concurrency", "delegations_per_unit")
Work = Literal["rubrics", "scores"]


class RefreshConfig(Config):
    """One `sera refresh` run."""

    work: Work = Field(
        description="rubrics: write new ones and score the branches with them. scores: apply those that are stored."
    )
    writer: str | None = Field(default=None, description="Spec of the policy that writes; null for scores.")
    scorer: str = Field(description="Spec of the policy that scores.")
    served: str = Field(description="Hash of the policies behind these specs.")
    k: int = Field(default=4, ge=1, le=1000, description="Rubrics written for each delegation.")
    attempts: int = Field(
        default=1, ge=1, le=100, description="Replies asked until one is valid; credit reads the first."
    )
    rubrics_of: str | None = Field(
        default=None, description="scores: the refresh run whose rubrics are applied; null: those of the trees."
    )
    only: Literal["mixed", "complete"] = Field(
        default="mixed",
        description="mixed: delegations with a success and a failure, which credit can use; complete: all.",
    )
    epochs: tuple[int, ...] | None = Field(default=None, description="Only these epochs; null: all sealed ones.")
    purposes: tuple[Purpose, ...] = Field(default=("rubric",), description="Only trees of these purposes.")
    seed: int = Field(default=0, ge=0, description="Seed of the writers and scorers, beside that of each tree's run.")
    concurrency: int = Field(default=8, ge=1, le=10_000, description="Delegations in flight.")
    delegations_per_unit: int = Field(default=32, ge=1, description="Delegations committed together as one shard.")

    @model_validator(mode="after")
    def _writes_or_not(self) -> Self:
        if (self.writer is None) == (self.work == "rubrics"):
            msg = f"a refresh of {self.work} {'needs a' if self.work == 'rubrics' else 'has no'} writer"
            raise ValueError(msg)
        if self.work == "rubrics" and self.rubrics_of is not None:
            msg = "rubrics_of names rubrics that are stored, so it goes with work: scores"
            raise ValueError(msg)
        return self

    def identity(self) -> str:
        """Hash of what is asked of whom; how many are in flight may change before a run is finished."""
        return sha256_json({name: value for name, value in self.resolved().items() if name not in PATIENCE})

    @property
    def run_id(self) -> str:
        """'rubrics-' or 'scores-' + 8 hex digits of the identity."""
        return f"{self.work}-{self.identity()[:8]}"
