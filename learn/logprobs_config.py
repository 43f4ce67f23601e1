"""`LogprobsConfig`: which stored completions are computed again by the trainer, and in which precision.

Invariant: its identity names the run. By what weights is no setting: those that sampled a turn compute it again, so
where they lie, how much is computed at once and on what device changes nothing that is asked for.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sera_data.canonical import sha256_json
from sera_data.config import Config

PREFIX = "logprobs"
PATIENCE = ("device", "threads", "tokens_per_unit", "tokens_per_micro_batch")


class LogprobsConfig(Config):
    """One `sera refresh logprobs` run."""

    epochs: tuple[int, ...] | None = Field(default=None, description="Only these epochs; null: all sealed ones.")
    where: str | None = Field(
        default=None,
        description="SQL that says which turns; --where FILE puts a file's text here. Null: all trainable.",
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Of weights and activations: what the learner to come computes in."
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="Where it is computed.")
    threads: int = Field(default=1, ge=1, le=1024, description="CPU threads.")
    tokens_per_unit: int = Field(
        default=200_000, ge=1, description="Tokens whose trees are read, computed and committed together as one shard."
    )
    tokens_per_micro_batch: int | None = Field(
        default=None, ge=2, description="Tokens of a forward pass; null: as engine.tokens_per_micro_batch of learn."
    )

    def identity(self) -> str:
        """Hash of what is asked for; how it is computed may change before a run is finished."""
        return sha256_json({name: value for name, value in self.resolved().items() if name not in PATIENCE})

    @property
    def run_id(self) -> str:
        """'logprobs-' + 8 hex digits of the identity."""
        return f"{PREFIX}-{self.identity()[:8]}"
