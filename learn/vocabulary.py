"""The projection onto the vocabulary: log-probabilities of chosen tokens, never a logits tensor of the sequence.

Invariant: only trained positions come here, in chunks of rows; logits, log-softmax and the weight gradient are fp32;
forward keeps the row normaliser only and backward computes each chunk again. Tokens outside the policy's
vocabulary mask have probability 0, exactly as in the sampler. The entropy carries no gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

CHUNK = 2048


def _logits(hidden: torch.Tensor, weight: torch.Tensor, allowed: torch.Tensor | None, temperature: float) -> Any:
    if hidden.dtype == torch.float32 and weight.dtype == torch.float32:
        logits = hidden @ weight.T
    elif hidden.is_cuda:
        logits = torch.mm(hidden, weight.T, out_dtype=torch.float32)  # fp32 sums without an fp32 copy of the weight
    else:
        logits = hidden.float() @ weight.float().T
    if temperature != 1.0:
        logits = logits / temperature
    return logits if allowed is None else logits.masked_fill(~allowed, float("-inf"))


class TokenLogprob(torch.autograd.Function):
    """(hidden [n, h], weight [v, h], targets [n]) -> (log-probabilities [n], entropies [n]), both fp32."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        allowed: torch.Tensor | None,
        temperature: float,
        chunk: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability and entropy of every row, chunk by chunk."""
        rows = hidden.shape[0]
        logprobs = torch.empty(rows, dtype=torch.float32, device=hidden.device)
        entropies = torch.empty_like(logprobs)
        normaliser = torch.empty_like(logprobs)
        for start in range(0, rows, chunk):
            part = slice(start, start + chunk)
            logits = _logits(hidden[part], weight, allowed, temperature)
            total = torch.logsumexp(logits, dim=1)
            probabilities = torch.exp(logits - total[:, None])
            # a forbidden token has logit -inf and probability 0; their product must be 0, not NaN
            mean = torch.where(probabilities > 0, probabilities * logits, 0.0).sum(dim=1)
            normaliser[part] = total
            entropies[part] = total - mean
            logprobs[part] = logits.gather(1, targets[part, None]).squeeze(1) - total
        ctx.save_for_backward(hidden, weight, targets, allowed, normaliser)
        ctx.temperature, ctx.chunk = temperature, chunk
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """d logprob / d logits = (one-hot - probabilities) / temperature, recomputed per chunk."""
        hidden, weight, targets, allowed, normaliser = ctx.saved_tensors
        upstream = grads[0]
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
        for start in range(0, hidden.shape[0], ctx.chunk):
            part = slice(start, start + ctx.chunk)
            logits = _logits(hidden[part], weight, allowed, ctx.temperature)
            slope = torch.exp(logits - normaliser[part, None]).neg_()
            slope.scatter_add_(1, targets[part, None], torch.ones_like(slope[:, :1]))
            slope *= (upstream[part] / ctx.temperature)[:, None]
            grad_hidden[part] = (slope.to(weight.dtype) @ weight).to(hidden.dtype)
            grad_weight += slope.T @ hidden[part].float()
        return grad_hidden, grad_weight.to(weight.dtype), None, None, None, None


class Vocabulary(nn.Module):
    """The output layer of a policy with its fixed vocabulary mask. `weight` may be the embedding's (tied)."""

    allowed: torch.Tensor | None

    def __init__(
        self,
        weight: nn.Parameter,
        *,
        allowed: torch.Tensor | None = None,
        temperature: float = 1.0,
        chunk: int = CHUNK,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.temperature = temperature
        self.chunk = chunk
        # never saved with the weights: the mask is a file of the policy directory
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, hidden: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies (nats) of `targets` given the hidden state before each of them."""
        outputs = TokenLogprob.apply(hidden, self.weight, targets, self.allowed, self.temperature, self.chunk)
        return outputs[0], outputs[1]
