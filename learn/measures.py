"""What is measured on the tokens of an update: sums that add up over micro-batches and ranks.

Invariant: `Measures` of the parts of a batch, merged, give the same figures as of the whole; nothing here carries a
gradient and nothing needs a second forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from learn.cispo import log_ratio
from learn.tokens import Tokens

SUMS = ("n", "entropy", "ratio", "ratio_square", "clipped", "kl", "mismatch", "advantage", "advantage_abs", "gap")

GAP_SUMS = ("n", "ratio", "ratio_square", "clipped", "gated", "kl", "mismatch", "vetoed")


class Measures:
    """Running sums over trained tokens, with the maximum of the ratio, for all and for each version gap of `gaps`."""

    def __init__(self, gaps: Sequence[int] = ()) -> None:
        self.sums = torch.zeros(len(SUMS) + 1, dtype=torch.float64)  # the last one is the loss
        self.ratio_max = torch.zeros(1, dtype=torch.float64)
        self.gaps = torch.zeros(len(gaps), len(GAP_SUMS), dtype=torch.float64)
        self.gap_ratio_max = torch.zeros(len(gaps), dtype=torch.float64)
        self._gaps = tuple(gaps)

    @torch.no_grad()
    def add(
        self,
        loss: torch.Tensor,
        logprobs: torch.Tensor,
        entropies: torch.Tensor,
        tokens: Tokens,
        *,
        ratio_max: float | torch.Tensor,
        version: int,
        stopped: torch.Tensor | None = None,
        vetoed: torch.Tensor | None = None,
    ) -> None:
        """Add a micro-batch; `loss` is its sum and `version` the version before the update.

        ratio_max: bound of all tokens or of each. stopped: 1 for tokens that the sequence gate or m2po left out;
        vetoed: 1 for unlikely ones with a negative advantage.
        """
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
        marks = [torch.zeros_like(rho) if found is None else found.double() for found in (stopped, vetoed)]
        self._by_gap(version - tokens.versions, rho, log_rho, (rho > ratio_max).double(), marks, weight)
        parts = [(row * weight).sum() for row in rows] + [loss.detach().double()]
        self.sums += torch.stack(parts).cpu()
        self.ratio_max = torch.maximum(self.ratio_max, (rho * weight).max().reshape(1).cpu())

    def _by_gap(
        self,
        gap: torch.Tensor,
        rho: torch.Tensor,
        log_rho: torch.Tensor,
        clipped: torch.Tensor,
        marks: Sequence[torch.Tensor],
        weight: torch.Tensor,
    ) -> None:
        for index, value in enumerate(self._gaps):
            own = weight * (gap == value)
            gated, vetoed = marks
            rows = (torch.ones_like(rho), rho, rho * rho, clipped, gated, rho - 1 - log_rho, log_rho.abs(), vetoed)
            self.gaps[index] += torch.stack([(row * own).sum() for row in rows]).cpu()
            self.gap_ratio_max[index] = torch.maximum(self.gap_ratio_max[index], (rho * own).max().cpu())

    def gap_rows(self, *, fresh_gap: float) -> list[dict[str, float]]:
        """The same figures for each version gap that has tokens; stale: 1 where the gap is above `fresh_gap`."""
        found = []
        for gap, sums, highest in zip(self._gaps, self.gaps.tolist(), self.gap_ratio_max.tolist(), strict=True):
            part = dict(zip(GAP_SUMS, sums, strict=True))
            if n := part["n"]:
                found.append(
                    {
                        "gap": gap,
                        "stale": float(gap > fresh_gap),
                        "tokens": n,
                        "ratio_mean": part["ratio"] / n,
                        "ratio_max": highest,
                        "clip_share": part["clipped"] / n,
                        "gated_share": part["gated"] / n,
                        "ess": part["ratio"] ** 2 / (n * part["ratio_square"]),
                        "kl": part["kl"] / n,
                        "mismatch": part["mismatch"] / n,
                        "vetoed_share": part["vetoed"] / n,
                    }
                )
        return found

    @property
    def ess(self) -> float:
        """Share of effective samples of what was added."""
        total = dict(zip((*SUMS, "loss"), self.sums.tolist(), strict=True))
        return float(total["ratio"] ** 2 / (total["n"] * total["ratio_square"])) if total["n"] else 1.0

    @property
    def entropy(self) -> float:
        """Mean entropy in nats of what was added; infinite without tokens."""
        total = dict(zip((*SUMS, "loss"), self.sums.tolist(), strict=True))
        return float(total["entropy"] / total["n"]) if total["n"] else math.inf

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
