"""TOPR (tapered off-policy REINFORCE, arXiv 2503.14286): stable on data of any age, without a KL term.

    weight = 1                                     for a token with A >= 0
    weight = stop_gradient(clip(pi(y) / mu(y), 0, 1))    for A < 0, y = the trained tokens of its sequence
    loss   = - (1 / N) * sum_t weight_t * A_t * log pi_t

Invariant: the ratio is one number per sequence, the product over its trained tokens; a good sequence is never
tapered. The caller divides the sum by N.
"""

from __future__ import annotations

import torch

from learn.cispo import LOG_RATIO_LIMIT
from learn.tokens import Tokens


def topr(
    logprobs: torch.Tensor, tokens: Tokens, *, ratio_min: float = 0.0, ratio_max: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token losses to be summed [n], and the weight of each token [n]."""
    gap = logprobs.detach() - tokens.logprobs
    sequences = torch.zeros(tokens.n_segments, dtype=gap.dtype, device=gap.device)
    sequences = sequences.index_add(0, tokens.segment, gap).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    taper = sequences.exp().clamp(ratio_min, min(ratio_max, 1.0))[tokens.segment]
    weight = torch.where(tokens.advantages >= 0, torch.ones_like(taper), taper)
    return -weight * tokens.advantages * logprobs, weight
