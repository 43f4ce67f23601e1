"""`JudgeConfig`: which judge, how many votes, how it is asked and how patiently.

Invariant: no secret is in it (keys come from the environment), so that it can be stored and hashed with the run.
"""

from __future__ import annotations

from pydantic import AliasChoices, Field

from collect.endpoint_config import EndpointSettings
from schemas.words import Purpose
from sera_data.config import Temperature

TRAINING: tuple[Purpose, ...] = ("execution", "delegation", "rubric")
KEY_VARIABLES = ("SERA_JUDGE_KEY", "OPENAI_API_KEY")
MOST_VOTES = 64


class JudgeSettings(EndpointSettings):
    """How a judge is asked."""

    votes: int = Field(default=1, ge=1, le=MOST_VOTES, description="Votes per node; the majority is the verdict.")
    temperature: Temperature = Field(default=0.0, description="0 = greedy; votes differ only above 0.")
    max_tokens: int = Field(default=1024, ge=1, description="Longest reply, thinking included.")
    trajectory_chars: int = Field(
        default=24_000, ge=200, description="Characters of a trajectory shown before its middle is cut."
    )
    seed: int | None = Field(
        default=0, ge=0, description="Seed from which that of every vote derives; null: none is sent."
    )


class JudgeConfig(JudgeSettings):
    """The `judge` section of a collect phase: which judge labels what no program can check."""

    spec: str | None = Field(
        default=None,
        description="openai:MODEL@URL, rule:NAME, another labeller, or any policy; null: policy.roles.judge.",
    )
    purposes: tuple[Purpose, ...] = Field(
        default=TRAINING,
        validation_alias=AliasChoices("for", "purposes"),
        description="Purposes whose trees are judged (`for` in YAML).",
    )
    audit_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the nodes that a program has labelled which are judged as well, for the audit only.",
    )
