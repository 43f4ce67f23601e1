"""Attention over packed rows on CPU: one kernel call a sequence, results and gradients laid out without copies.

Invariant: equal to `scaled_dot_product_attention(is_causal=True)` of every sequence alone, forward and backward; the
kernel is the same. What backward needs is kept once: the joined output is what the next projection keeps too, where
torch's own path holds an output a sequence beside the joined one, and zeros and adds a whole gradient for every cut.

Run: `learn.attention` calls it for micro-batches in the layout `rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch

from learn.tree_attention import BACKWARD, FORWARD


class RowsAttention(torch.autograd.Function):
    """(query [1, heads, T, size], key and value [1, key heads, T, size]) -> [1, heads, T, size]."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        lengths: Sequence[int],
        scale: float | None,
    ) -> torch.Tensor:
        """One call a sequence."""
        out, normalisers = _flat(query), []
        for part in _parts(lengths):
            found, normaliser = FORWARD(query[part], key[part], value[part], 0.0, True, scale=scale)
            out[part] = found
            normalisers.append(normaliser)
        ctx.save_for_backward(query, key, value, out, *normalisers)
        ctx.lengths, ctx.scale = lengths, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """One call a sequence."""
        query, key, value, out, *normalisers = ctx.saved_tensors
        whole = [_flat(query), _flat(key), _flat(value)]
        for part, normaliser in zip(_parts(ctx.lengths), normalisers, strict=True):
            kept = (query[part], key[part], value[part], out[part], normaliser)
            for into, found in zip(whole, BACKWARD(grads[0][part], *kept, 0.0, True, scale=ctx.scale), strict=True):
                into[part] = found
        return *whole, None, None


def _flat(like: torch.Tensor) -> torch.Tensor:
    """[1, heads, T, size] whose memory is [1, T, heads, size], as the projections want it."""
    return like.new_empty(1, like.shape[2], like.shape[1], like.shape[3]).transpose(1, 2)


def _parts(lengths: Sequence[int]) -> Iterator[tuple[slice, slice, slice]]:
    start = 0
    for length in lengths:
        yield slice(None), slice(None), slice(start, start + length)
        start += length


def attend_rows(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: Sequence[int], *, scale: float | None = None
) -> torch.Tensor:
    """Causal attention inside each of the sequences, with gradient; CPU tensors."""
    return cast("torch.Tensor", RowsAttention.apply(query, key, value, lengths, scale))
