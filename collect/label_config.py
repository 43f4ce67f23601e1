"""`LabelConfig`: which labeller gives how many votes on which stored nodes.

Invariant: its identity names the run, so the same command finds its own unfinished plan; no secret is in it.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from collect.judge_config import JudgeSettings
from schemas.words import LabelUse, Purpose
from sera_data.canonical import sha256_json

PATIENCE = ("concurrency", "timeout_s", "retries", "retry_wait_s", "retry_wait_max_s", "key_variable")


class LabelConfig(JudgeSettings):
    """One `sera label` run."""

    name: str = Field(default="label", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="First part of the run id.")
    labeller: str = Field(description="openai:MODEL@URL, rule:NAME, program, or another registered labeller.")
    use: LabelUse = Field(default="train", description="train, or audit (never trained on).")
    only: Literal["all", "missing"] = Field(
        default="all", description="all: every node that matches; missing: only those without a verdict."
    )
    epochs: tuple[int, ...] | None = Field(default=None, description="Only these epochs; null: all sealed ones.")
    depths: tuple[NonNegativeInt, ...] | None = Field(default=None, description="Only nodes of these depths.")
    purposes: tuple[Purpose, ...] | None = Field(default=None, description="Only trees of these purposes.")
    where: str | None = Field(
        default=None, description="SQL condition over nodes and task, such as difficulty = 'hard'."
    )
    share: float = Field(default=1.0, gt=0, le=1, description="Share of the matching nodes that is labelled.")
    max_labels: int | None = Field(default=None, ge=1, description="Most labels that these settings may ever add.")
    again: Literal["none", "invalid"] = Field(
        default="none", description="invalid: ask again where a vote was invalid, as a further attempt."
    )
    nodes_per_unit: int = Field(default=64, ge=1, description="Nodes committed together as one shard.")

    @model_validator(mode="after")
    def _room_for_one(self) -> Self:
        if self.max_labels is not None and self.max_labels < self.votes:
            msg = f"max_labels {self.max_labels} is less than the {self.votes} votes of one node"
            raise ValueError(msg)
        return self

    def identity(self) -> str:
        """Hash of what is labelled by whom: patience, concurrency and address may change before a run is finished."""
        body = {name: value for name, value in self.resolved().items() if name not in PATIENCE}
        return sha256_json({**body, "labeller": self.labeller.partition("@http")[0]})

    @property
    def run_id(self) -> str:
        """Config name + 8 hex digits of the identity."""
        return f"{self.name}-{self.identity()[:8]}"

    def settings(self) -> JudgeSettings:
        """The part that concerns a judge."""
        return JudgeSettings.model_validate({name: getattr(self, name) for name in JudgeSettings.model_fields})
