"""What is measured on the tokens of an update: sums that add up over micro-batches and ranks.

Invariant: `Measures` of the parts of a batch, merged, give the same figures as of the whole; nothing here carries a
gradient and nothing needs a second forward pass.
"""

from __future__ import annotations

import torch

from learn.cispo import log_ratio
from learn.tokens import Tokens

SUMS = ("n", "entropy", "ratio", "ratio_square", "clipped", "kl", "mismatch", "advantage", "advantage_abs", "gap")


class Measures:
    """Running sums over trained tokens, with the maximum of the ratio."""

    def __init__(self) -> None:
        self.sums = torch.zeros(len(SUMS) + 1, dtype=torch.float64)  # the last one is the loss
        self.ratio_max = torch.zeros(1, dtype=torch.float64)

    @torch.no_grad()
    def add(
        self,
        loss: torch.Tensor,
        logprobs: torch.Tensor,
        entropies: torch.Tensor,
        tokens: Tokens,
        *,
        ratio_max: float,
        version: int,
    ) -> None:
        """Add a micro-batch; `loss` is its sum and `version` the version before the update."""
        log_rho = log_ratio(logprobs, tokens).double()
        rho = log_rho.exp()
        rows = (
            torch.ones_like(rho),
            entropies.double(),
            rho,
            rho * rho,
            (rho > ratio_max).double(),
            rho - 1 - log_rho,
            log_rho.abs(),
            tokens.advantages.double(),
            tokens.advantages.abs().double(),
            (version - tokens.versions).double(),
        )
        weight = tokens.weight.double()
        parts = [(row * weight).sum() for row in rows] + [loss.detach().double()]
        self.sums += torch.stack(parts).cpu()
        self.ratio_max = torch.maximum(self.ratio_max, (rho * weight).max().reshape(1).cpu())

    def row(self) -> dict[str, float]:
        """The measured columns of `updates`, loss apart from the optimizer's own figures."""
        total = dict(zip((*SUMS, "loss"), self.sums.tolist(), strict=True))
        n = total["n"]
        return {
            "loss": total["loss"] / n,
            "entropy": total["entropy"] / n,
            "ratio_mean": total["ratio"] / n,
            "ratio_max": self.ratio_max.item(),
            "clip_share": total["clipped"] / n,
            "ess": total["ratio"] ** 2 / (n * total["ratio_square"]),
            "kl": total["kl"] / n,
            "mismatch": total["mismatch"] / n,
            "advantage_mean": total["advantage"] / n,
            "advantage_abs_mean": total["advantage_abs"] / n,
            "version_gap_mean": total["gap"] / n,
        }
