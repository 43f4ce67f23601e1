"""The projection onto the vocabulary: log-probabilities of chosen tokens, never a logits tensor of the sequence.

Invariant: only trained positions come here, in tiles of rows x entries; logits, log-softmax and the sums of both
gradients are fp32; forward keeps the row normaliser and the first tiles up to a fixed size, backward computes the
others again, so the memory beyond the results is bounded whatever the numbers of rows and entries (`peak_bytes`).
Tokens outside the policy's vocabulary mask have probability 0, exactly as in the sampler. The entropy carries no
gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from learn.tiles import held_elements

CHUNK = 2048
TILE = 2**24
"""Most elements of a tile: 64 MiB in fp32. A tile has `chunk` rows, or as many as there are, and entries to match."""

KEEP = 2**27
"""Most elements of tiles that are kept for backward instead of computed again: 512 MiB in fp32."""

LOWEST = -1e30
"""Logit of a forbidden token: its exponential is 0 beside any other, and 0 times it is 0, which -inf would make NaN."""


def peak_bytes(rows: int, vocabulary: int, hidden: int, *, chunk: int = CHUNK, bytes_per_weight: int = 4) -> int:
    """Highest memory in bytes of forward and backward beyond their inputs, the gradient of the weight apart.

    That gradient belongs to the parameter and is there with any loss. Half precision (2 bytes) adds an fp32 sum of the
    hidden gradient and of one tile of the weight gradient. Test: tests/learn/test_vocabulary_memory.py.
    """
    height = min(rows, chunk)
    width = min(vocabulary, max(1, TILE // max(height, 1)))
    tiles = 4 * held_elements(rows, vocabulary, chunk=chunk, tile=TILE, keep=KEEP)
    results = rows * hidden * bytes_per_weight + 4 * 4 * rows
    if bytes_per_weight == 4:
        return tiles + results
    sums = 4 * (rows + width) * hidden
    copies = bytes_per_weight * height * width + 4 * 2 * (height + width) * hidden
    return tiles + results + sums + copies


def _parts(total: int, size: int) -> Iterator[slice]:
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def _width(rows: int, vocabulary: int, chunk: int) -> int:
    return min(vocabulary, max(1, TILE // max(1, min(rows, chunk))))


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right with fp32 sums and an fp32 result."""
    if left.dtype == torch.float32 and right.dtype == torch.float32:
        return left @ right
    if left.is_cuda:  # fp32 sums without fp32 copies
        return torch.mm(left.to(right.dtype), right, out_dtype=torch.float32)
    return left.float() @ right.float()


def _logits(hidden: torch.Tensor, weight: torch.Tensor, allowed: torch.Tensor | None, temperature: float) -> Any:
    logits = _product(hidden, weight.T)
    if temperature != 1.0:
        logits /= temperature
    return logits if allowed is None else logits.masked_fill_(~allowed, LOWEST)


class _Row:
    """Running maximum, sum of exponentials and their mean logit of some rows, over tiles of entries."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.top = torch.full((rows,), LOWEST, device=device)
        self.sum = torch.zeros(rows, device=device)
        self.moment = torch.zeros(rows, device=device)  # sum of exp(logit - top) * (logit - top)

    def add(self, logits: torch.Tensor) -> torch.Tensor:
        """Take a tile in, using `logits` up; returns its exp(logit - top) for the new `top`."""
        top = torch.maximum(self.top, logits.amax(dim=1))
        fall = self.top - top
        scale = fall.exp()
        shifted = logits.sub_(top[:, None])
        weights = shifted.exp()
        total = weights.sum(dim=1)
        self.moment = scale * (self.moment + self.sum * fall) + shifted.mul_(weights).sum(dim=1)
        self.sum = scale * self.sum + total
        self.top = top
        return weights

    @property
    def normaliser(self) -> torch.Tensor:
        """log of the sum of exp(logit)."""
        return self.top + self.sum.log()

    @property
    def entropy(self) -> torch.Tensor:
        """Entropy in nats."""
        return self.sum.log() - self.moment / self.sum


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
        keep: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability and entropy of every row, tile by tile; up to `keep` elements stay for backward."""
        kept: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        rows, vocabulary = hidden.shape[0], weight.shape[0]
        logprobs = torch.zeros(rows, dtype=torch.float32, device=hidden.device)
        entropies, normaliser = torch.empty_like(logprobs), torch.empty_like(logprobs)
        for part in _parts(rows, chunk):
            row = _Row(len(targets[part]), hidden.device)
            for entries in _parts(vocabulary, _width(rows, vocabulary, chunk)):
                mask = None if allowed is None else allowed[entries]
                logits = _logits(hidden[part], weight[entries], mask, temperature)
                inside, column = _inside(targets[part], entries)
                logprobs[part] += torch.where(inside, logits.gather(1, column[:, None])[:, 0], 0.0)
                weights = row.add(logits)
                if keep >= weights.numel():
                    kept[part.start, entries.start], keep = (weights, row.top), keep - weights.numel()
                del logits, weights  # before the next tile is made
            normaliser[part], entropies[part] = row.normaliser, row.entropy
        logprobs -= normaliser
        if allowed is not None:
            logprobs.masked_fill_(~allowed[targets], float("-inf"))
        ctx.save_for_backward(hidden, weight, targets, allowed, normaliser)
        ctx.temperature, ctx.chunk, ctx.kept = temperature, chunk, kept
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """d logprob / d logits = (one-hot - probabilities) / temperature, tile by tile.

        A weight that is not trained (LoRA) gets no gradient and no memory for one.
        """
        hidden, weight, targets, allowed, normaliser = ctx.saved_tensors
        upstream = grads[0] / ctx.temperature
        rows, vocabulary = hidden.shape[0], weight.shape[0]
        grad_hidden = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
        grad_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        for entries in _parts(vocabulary, _width(rows, vocabulary, ctx.chunk)):
            mask = None if allowed is None else allowed[entries]
            total = None if grad_weight is None else _zero_sum(grad_weight[entries])
            for part in _parts(rows, ctx.chunk):
                # a kept tile is used up, so a second backward computes it again
                slope, top = ctx.kept.pop((part.start, entries.start), (None, 0.0))
                share = -upstream[part]
                if slope is None:
                    slope = _logits(hidden[part], weight[entries], mask, ctx.temperature)
                    slope.sub_(normaliser[part, None]).exp_()
                else:
                    share = share * (top - normaliser[part]).exp_()
                slope *= share[:, None]
                inside, column = _inside(targets[part], entries)
                slope.scatter_add_(1, column[:, None], torch.where(inside, upstream[part], 0.0)[:, None])
                _add_product(grad_hidden[part], slope, weight[entries])
                if total is not None:
                    _add_product(total, slope.T, hidden[part])
            if grad_weight is not None and total is not None and total.dtype != grad_weight.dtype:
                grad_weight[entries] = total
        return grad_hidden.to(hidden.dtype), grad_weight, None, None, None, None, None


def _inside(targets: torch.Tensor, entries: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """Which targets lie in a tile, and their column there (0 for the others), int64 as gather and scatter want it."""
    inside = (targets >= entries.start) & (targets < entries.stop)
    return inside, torch.where(inside, targets - entries.start, 0).long()


def _zero_sum(part: torch.Tensor) -> torch.Tensor:
    """Where the fp32 sum of a tile of the weight gradient is made: in place if that is fp32 itself."""
    return part.zero_() if part.dtype == torch.float32 else torch.zeros_like(part, dtype=torch.float32)


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """total += left @ right."""
    if left.dtype == right.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += _product(left, right)


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
        keep = KEEP if torch.is_grad_enabled() else 0
        outputs = TokenLogprob.apply(hidden, self.weight, targets, self.allowed, self.temperature, self.chunk, keep)
        return outputs[0], outputs[1]
