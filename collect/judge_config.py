"""`JudgeConfig`: which judge, how many votes, how it is asked and how patiently.

Invariant: no secret is in it (keys come from the environment), so that it can be stored and hashed with the run.
"""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, Field, field_validator

from schemas.words import Purpose
from sera_data.config import Config, Temperature

TRAINING: tuple[Purpose, ...] = ("execution", "delegation", "rubric")
KEY_VARIABLES = ("SERA_JUDGE_KEY", "OPENAI_API_KEY")
MOST_VOTES = 64
OWN_FIELDS = ("messages", "model", "n", "stream")


class JudgeSettings(Config):
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
    body: dict[str, Any] = Field(default_factory=dict, description="Further fields of the request, as they are.")
    concurrency: int = Field(default=16, ge=1, description="Requests in flight.")
    timeout_s: float = Field(default=300.0, ge=0.01, le=86_400, description="Longest wait for one reply, in seconds.")
    retries: int = Field(default=4, ge=0, le=100, description="Tries again after 429, 5xx or a lost connection.")
    retry_wait_s: float = Field(
        default=1.0, ge=0, le=3600, description="Seconds before the first retry; doubles each time."
    )
    retry_wait_max_s: float = Field(default=60.0, ge=0, le=3600, description="Longest wait before a retry.")

    @field_validator("body")
    @classmethod
    def _not_ours(cls, body: dict[str, Any]) -> dict[str, Any]:
        taken = [name for name in OWN_FIELDS if name in body]
        if taken:
            msg = f"body must not hold {', '.join(taken)}: the judge sets them itself"
            raise ValueError(msg)
        return body


class JudgeConfig(JudgeSettings):
    """The `judge` section of a collect phase: which judge labels what no program can check."""

    spec: str = Field(description="openai:MODEL@URL, rule:NAME, or another registered labeller.")
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
