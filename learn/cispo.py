"""The CISPO loss: every token keeps its gradient, only its weight is bounded.

    rho_t  = exp(log pi_t - log mu_t)                 mu: the stored sampling log-probability
    coef_t = stop_gradient(clamp(rho_t, ratio_min, ratio_max))
    loss   = - (1 / N) * sum_t coef_t * A_t * log pi_t        N: trained tokens of the global batch

Invariant: the bounds are absolute ratios (0 and 5), the ratio is taken once, against what the sampler recorded, so
no second importance correction belongs on the same gap. This file returns the sum; the caller divides by N.
"""

from __future__ import annotations

import torch

from learn.tokens import Tokens

LOG_RATIO_LIMIT = 20.0


def log_ratio(logprobs: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """log pi - log mu without gradient, limited so that exp is finite."""
    return (logprobs.detach() - tokens.logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def cispo(
    logprobs: torch.Tensor, tokens: Tokens, *, ratio_min: float = 0.0, ratio_max: float | torch.Tensor = 5.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token losses to be summed [n], and the coefficient of each token [n]; ratio_max: for all, or for each token."""
    coefficient = log_ratio(logprobs, tokens).exp().clamp(min=ratio_min).clamp(max=ratio_max)
    return -coefficient * tokens.advantages * logprobs, coefficient
