"""The trained tokens of one micro-batch, as every loss sees them.

Invariant: all arrays have one element per trained token, in packing order; a token of an anchor (a copy that only
keeps the ranks in step) has weight 0 and advantage 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is known of each trained token besides its current log-probability.

    logprobs: stored sampling log-probability; advantages: credit after depth weights; weight: 1, or 0 for an anchor;
    versions: policy version that sampled it; segment: index of its sequence among `n_segments` in the micro-batch.
    reference: log-probability under the start weights of the phase; None where those are the stored ones.
    """

    logprobs: torch.Tensor
    advantages: torch.Tensor
    weight: torch.Tensor
    versions: torch.Tensor
    segment: torch.Tensor
    n_segments: int
    reference: torch.Tensor | None = None
