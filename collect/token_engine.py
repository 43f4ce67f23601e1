"""What a vLLM policy asks of an engine: token ids in, token ids and log-probabilities out, and new weights.

Invariant: an answer's ids are exactly those sampled, the end token included, one to one with their log-probabilities
after temperature and vocabulary mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from collect.policy import Sampling
from schemas.words import FinishReason


@dataclass(frozen=True, slots=True)
class Answer:
    """One completion. n_cached: prompt tokens that were not computed again, None when the engine does not say."""

    ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    n_cached: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a completion: its end tokens, the tokens that may be sampled (None = all), and its length."""

    stop_ids: Sequence[int]
    allowed: Sequence[int] | None
    length: int


class TokenEngine(Protocol):
    """An engine in this process, or servers. `max_context`: most prompt and completion tokens of one request."""

    max_context: int

    async def generate(self, prompt: Sequence[int], sampling: Sampling, limits: Limits, *, group: str) -> Answer:
        """Sample after `prompt`; requests of one group share prefixes. PolicyError for faults of the engine."""

    async def score(self, prompt: Sequence[int]) -> list[float]:
        """Log-probability of every token of `prompt` after the first, unmasked, at temperature 1."""

    async def take_weights(self, directory: Path) -> float:
        """Compute with the weights of `directory` from now on, prefix cache emptied; how far the output layer is from
        its file, in units of what rounding explains.
        """

    async def close(self) -> None:
        """Free the engine."""
