"""The clipped surrogate of PPO and GRPO (arXiv 1707.06347, 2402.03300), as a baseline loss on the same inputs.

    loss = - (1 / N) * sum_t min(rho_t * A_t, clip(rho_t, ratio_min, ratio_max) * A_t),   rho = exp(log pi - log mu)

Invariant: a token whose ratio has left the bounds in the direction that its advantage pushes has gradient 0, unlike in
CISPO. The bounds are absolute numbers, 0.8 and 1.2 in the papers. The caller divides the sum by N.
"""

from __future__ import annotations

import torch

from learn.cispo import LOG_RATIO_LIMIT
from learn.tokens import Tokens


def grpo(
    logprobs: torch.Tensor, tokens: Tokens, *, ratio_min: float = 0.8, ratio_max: float = 1.2
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token losses to be summed [n], and the ratio of each token after the clip [n]."""
    ratio = (logprobs - tokens.logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    clipped = ratio.clamp(ratio_min, ratio_max)
    gain = torch.minimum(ratio * tokens.advantages, clipped * tokens.advantages)
    return -gain, clipped.detach()
