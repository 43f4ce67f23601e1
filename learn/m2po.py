"""M2PO (second-moment trust policy optimisation, arXiv 2510.01161): stable on old data by leaving out the few worst.

    M2     = mean of (log pi_t - log mu_t)^2 over the tokens that count
    mask   : tokens are left out, the largest (log rho_t)^2 first, until M2 <= bound (0.04 in the paper)
    loss   = - (1 / N) * sum_t mask_t * stop_gradient(clamp(rho_t, ratio_min, ratio_max)) * A_t * log pi_t

Invariant: the mask is that of the whole update, whatever its split into micro-batches and ranks, so it needs the log
ratios of all of them first; tokens with the same log ratio count together or not at all. Inside the bounds the gradient
is that of the paper's mask_t * rho_t * A_t, which has no bounds; N stays as it was. The caller divides by N.
"""

from __future__ import annotations

import math

import torch

from learn.cispo import cispo, log_ratio
from learn.tokens import Tokens

BOUND = 0.04


def m2po(
    logprobs: torch.Tensor,
    tokens: Tokens,
    *,
    ratio_min: float = 0.0,
    ratio_max: float | torch.Tensor = 5.0,
    highest: float | None = None,
    bound: float = BOUND,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token losses to be summed [n], and the weight of each token [n].

    highest: the largest squared log ratio that counts in this update; None takes these tokens for all of it.
    """
    mask = trusted(logprobs, tokens, highest=highest, bound=bound)
    losses, coefficient = cispo(logprobs, tokens, ratio_min=ratio_min, ratio_max=ratio_max)
    return losses * mask, coefficient * mask


def trusted(
    logprobs: torch.Tensor, tokens: Tokens, *, highest: float | None = None, bound: float = BOUND
) -> torch.Tensor:
    """1 for tokens that count, else 0; of the dtype of `logprobs`, [n]."""
    if highest is None:
        highest = highest_square(squares(logprobs, tokens), bound=bound)
    return (log_ratio(logprobs, tokens).double().square() <= highest).to(logprobs.dtype)


def squares(logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Squared log ratios of the tokens that are no anchor's, float64[m]."""
    return log_ratio(logprobs, tokens).double().square()[tokens.weight > 0]


def highest_square(found: torch.Tensor, *, bound: float) -> float:
    """A number between the squares that count and those that do not, so that the mean of the former is <= `bound`.

    found: float64[n], the squared log ratios of all tokens of the update, in any order. Infinite when all count. It
    lies in the middle, so that a log ratio computed once more, in another order of sums, falls on the same side.
    """
    ordered = found.sort().values
    means = ordered.cumsum(0) / torch.arange(1, len(ordered) + 1, dtype=ordered.dtype, device=ordered.device)
    count = int((means <= bound).sum())  # the means of a growing row never fall
    if count == len(ordered):
        return math.inf
    worst = ordered[count]
    below = ordered[ordered < worst]
    return float((below[-1] + worst) / 2) if len(below) else float(worst / 2)
