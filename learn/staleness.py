"""Old data: what the learner does by the version gap, the number of updates since a token was sampled.

    gap 0 .. fresh_gap        the bounds of the loss as they are
    beyond, up to limit       the ratio is cut at min(ratio_max, stale ratio_max), and a sequence whose geometric mean
                              ratio exp(mean log rho) leaves [gate_min, gate_max] counts for nothing
    beyond limit, or sampled by weights of another lineage: refused, unless the user allows it

Invariant: the gate only takes tokens out of the sum, N stays as it was; topr and sft need none of this and are left
alone. The gap of a token is version before the update minus the version that sampled it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from learn.cispo import log_ratio
from learn.tokens import Tokens

RATIO_LOSSES = ("cispo", "grpo")


@dataclass(frozen=True, slots=True)
class Stale:
    """Resolved for one update: its version and the settings of `loss.stale`."""

    version: int
    fresh_gap: int = 4
    ratio_max: float = 2.0
    gate_min: float = 0.5
    gate_max: float = 2.0

    def is_stale(self, tokens: Tokens) -> torch.Tensor:
        """bool[n]: sampled more than `fresh_gap` updates ago."""
        return self.version - tokens.versions > self.fresh_gap

    def cap(self, tokens: Tokens, ratio_max: float) -> torch.Tensor:
        """Highest ratio of each token, float32[n]."""
        fresh = torch.full_like(tokens.logprobs, ratio_max)
        return torch.where(self.is_stale(tokens), fresh.clamp(max=self.ratio_max), fresh)

    def passed(self, logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """1 for tokens that count, 0 for those of a stale sequence that the gate stops; float32[n]."""
        gap = log_ratio(logprobs, tokens)
        zeros = torch.zeros(tokens.n_segments, dtype=gap.dtype, device=gap.device)
        total = zeros.index_add(0, tokens.segment, gap)
        count = zeros.index_add(0, tokens.segment, torch.ones_like(gap))
        mean = (total / count.clamp(min=1)).exp()[tokens.segment]
        stopped = self.is_stale(tokens) & ((mean < self.gate_min) | (mean > self.gate_max))
        return (~stopped).to(gap.dtype)
