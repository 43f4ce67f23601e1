"""The objective of one update: a loss by name, its bounds, and the KL brake, summed over trained tokens.

Invariant: the sum over all micro-batches and ranks divided by N is the loss that `updates` reports; anchors add an
exact zero with a graph. The KL brake is the k3 estimate to the start weights of the phase: the stored log-probabilities
for tokens that those sampled, else what `learn.reference` computed. A brake that is off leaves the loss bitwise alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from learn.cispo import LOG_RATIO_LIMIT, cispo
from learn.config import LearnConfig
from learn.grpo import grpo
from learn.m2po import BOUND, m2po, trusted
from learn.sft import sft
from learn.staleness import RATIO_LOSSES, Stale
from learn.tokens import Tokens
from learn.topr import topr
from schemas.words import Stage

LossKind = Literal["cispo", "sft", "topr", "m2po", "grpo"]
LOSSES: dict[LossKind, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    "cispo": cispo,
    "sft": sft,
    "topr": topr,
    "m2po": m2po,
    "grpo": grpo,
}


@dataclass(frozen=True, slots=True)
class Objective:
    """Resolved for one update: loss kind, absolute ratio bounds, KL coefficient, and what old data are treated by.

    stale: None = all data count as fresh. min_ess: an update with a lower share of effective samples is refused.
    veto: a token less likely than this whose advantage is negative counts for nothing; 0 = none. entropy_floor: lowest
    mean entropy in nats of an update. m2_bound, highest: of m2po, see there; highest None = a micro-batch is all.
    filter_ess: lowest share of effective samples of a version's tokens; low_versions: those that are below it.
    """

    kind: LossKind
    ratio_min: float
    ratio_max: float
    kl_coef: float = 0.0
    stale: Stale | None = None
    min_ess: float = 0.0
    veto: float = 0.0
    entropy_floor: float = 0.0
    m2_bound: float = BOUND
    filter_ess: float = 0.0
    low_versions: tuple[int, ...] = ()
    highest: float | None = None

    def total(self, logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """Sum of token losses of a micro-batch, to be divided by N."""
        old = self.stale if self.kind in RATIO_LOSSES else None
        cap = self.cap(tokens) if self.kind == "cispo" else self.ratio_max
        own = {"highest": self.highest, "bound": self.m2_bound} if self.kind == "m2po" else {}
        losses, _ = LOSSES[self.kind](logprobs, tokens, ratio_min=self.ratio_min, ratio_max=cap, **own)
        if old is not None:
            losses = losses * old.passed(logprobs, tokens)
        if self.low_versions:
            losses = losses * (1 - self._low(tokens))
        if self.veto:
            losses = losses * (1 - self.vetoed(logprobs, tokens))
        if self.kl_coef:
            start = tokens.logprobs if tokens.reference is None else tokens.reference
            losses = losses + self.kl_coef * k3(logprobs, start)
        return (losses * tokens.weight).sum()

    def cap(self, tokens: Tokens) -> torch.Tensor:
        """Highest ratio of each token, float32[n]."""
        if self.stale is None or self.kind != "cispo":
            return torch.full_like(tokens.logprobs, self.ratio_max)
        return self.stale.cap(tokens, self.ratio_max)

    def stopped(self, logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """1 for tokens that count for nothing, by the gate, the mask of m2po or filter_ess, else 0; float32[n]."""
        passed = torch.ones_like(tokens.logprobs)
        if self.kind == "m2po":
            passed = trusted(logprobs, tokens, highest=self.highest, bound=self.m2_bound)
        elif self.stale is not None and self.kind in RATIO_LOSSES:
            passed = self.stale.passed(logprobs, tokens)
        return 1 - passed * (1 - self._low(tokens)) if self.low_versions else 1 - passed

    def _low(self, tokens: Tokens) -> torch.Tensor:
        """1 for tokens of versions with too few effective samples, else 0; float32[n]."""
        low = torch.tensor(self.low_versions, dtype=tokens.versions.dtype, device=tokens.versions.device)
        return torch.isin(tokens.versions, low).to(tokens.logprobs.dtype)

    def vetoed(self, logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """1 for unlikely tokens with a negative advantage, else 0; float32[n].

        To make a rare token rarer moves its mass to tokens that nobody has seen.
        """
        if not self.veto:
            return torch.zeros_like(tokens.logprobs)
        return ((tokens.advantages < 0) & (logprobs.detach() < math.log(self.veto))).to(logprobs.dtype)


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Low-variance KL estimate per token, KL(pi || reference) on tokens of pi: exp(d) - 1 - d, d = log ref - log pi."""
    gap = (reference - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return gap.exp() - 1 - gap


def objective_of(config: LearnConfig, stage: Stage, version: int) -> Objective:
    """The objective of an update of one stage, from the weights of `version`."""
    loss, stale = config.loss, config.loss.stale
    old = Stale(version, stale.fresh_gap, stale.ratio_max, stale.gate_min, stale.gate_max)
    lowest = stale.min_ess if loss.kind in RATIO_LOSSES else 0.0
    return Objective(
        loss.kind,
        loss.ratio_min,
        loss.ratio_bound(stage),
        kl_coef=loss.kl(stage),
        stale=old,
        min_ess=lowest,
        veto=loss.brake("veto", stage),
        entropy_floor=loss.brake("entropy_floor", stage),
        m2_bound=loss.m2_bound,
        filter_ess=config.filter.min_ess,
    )
