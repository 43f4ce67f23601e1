"""Supervised fine-tuning as a baseline loss on the same inputs: likelihood of the tokens that earned credit.

Invariant: a token with a positive advantage (its episode did better than its group) has weight 1, any other 0; the
size of the advantage and the sampling log-probability do not matter. The caller divides the sum by N.
"""

from __future__ import annotations

import torch

from learn.tokens import Tokens


def sft(
    logprobs: torch.Tensor, tokens: Tokens, *, ratio_min: float = 0.0, ratio_max: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token losses to be summed [n], and the weight of each token [n]; the bounds are not used."""
    del ratio_min, ratio_max
    weight = (tokens.advantages > 0).to(logprobs.dtype)
    return -weight * logprobs, weight
