"""The objective of one update: a loss by name, its bounds, and the KL brake, summed over trained tokens.

Invariant: the sum over all micro-batches and ranks divided by N is the loss that `updates` reports; anchors add an
exact zero with a graph. The KL brake is the k3 estimate to the weights that sampled the data, the start weights of the
epoch, whose log-probabilities are the stored ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from learn.cispo import LOG_RATIO_LIMIT, cispo
from learn.grpo import grpo
from learn.sft import sft
from learn.staleness import RATIO_LOSSES, Stale
from learn.tokens import Tokens
from learn.topr import topr

LossKind = Literal["cispo", "sft", "topr", "grpo"]
LOSSES: dict[LossKind, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    "cispo": cispo,
    "sft": sft,
    "topr": topr,
    "grpo": grpo,
}


@dataclass(frozen=True, slots=True)
class Objective:
    """Resolved for one update: loss kind, absolute ratio bounds, KL coefficient, and what old data are treated by.

    stale: None = all data count as fresh. min_ess: an update with a lower share of effective samples is refused.
    """

    kind: LossKind
    ratio_min: float
    ratio_max: float
    kl_coef: float = 0.0
    stale: Stale | None = None
    min_ess: float = 0.0

    def total(self, logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """Sum of token losses of a micro-batch, to be divided by N."""
        old = self.stale if self.kind in RATIO_LOSSES else None
        cap = self.cap(tokens) if self.kind == "cispo" else self.ratio_max
        losses, _ = LOSSES[self.kind](logprobs, tokens, ratio_min=self.ratio_min, ratio_max=cap)
        if old is not None:
            losses = losses * old.passed(logprobs, tokens)
        if self.kl_coef:
            losses = losses + self.kl_coef * k3(logprobs, tokens.logprobs)
        return (losses * tokens.weight).sum()

    def cap(self, tokens: Tokens) -> torch.Tensor:
        """Highest ratio of each token, float32[n]."""
        if self.stale is None or self.kind != "cispo":
            return torch.full_like(tokens.logprobs, self.ratio_max)
        return self.stale.cap(tokens, self.ratio_max)

    def stopped(self, logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """1 for tokens whose sequence the gate stops, else 0; float32[n]."""
        if self.stale is None or self.kind not in RATIO_LOSSES:
            return torch.zeros_like(tokens.logprobs)
        return 1 - self.stale.passed(logprobs, tokens)


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Low-variance KL estimate per token, KL(pi || reference) on tokens of pi: exp(d) - 1 - d, d = log ref - log pi."""
    gap = (reference - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return gap.exp() - 1 - gap
