"""Attention over a trie on CPU: a token sees its ancestors and itself, no mask is ever built.

Invariant: equal to causal attention of every sequence alone. Each run of the trie is one call of torch's
scaled-dot-product kernel: the queries of the run and of all its descendants, [start, end), against the keys of the
run, [start, stop), causal from the top left, which is exactly what they may see of it. The parts of a query are put
together by their log-sum-exp; with the total log-sum-exp the kernel's backward gives each part's exact gradient:

    lse = log sum_i exp(lse_i),   out = sum_i exp(lse_i - lse) out_i

Run: `learn.attention` calls it for micro-batches in the tree layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from learn.trie import Node

FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class TreeAttention(torch.autograd.Function):
    """(query [1, heads, T, size], key and value [1, key heads, T, size]) -> [1, heads, T, size]."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        nodes: Sequence[Node],
        scale: float | None,
    ) -> torch.Tensor:
        """Ancestors come before descendants in the row, so a part with nothing before it is simply kept."""
        out = torch.zeros(query.shape, dtype=torch.float32)
        total = torch.full(query.shape[:3], -torch.inf)
        reached = 0
        for start, stop, end in nodes:
            part, lse = FORWARD(query[:, :, start:end], *_keys(key, value, start, stop), 0.0, True, scale=scale)
            mine, whole = out[:, :, start:end], total[:, :, start:end]
            if start >= reached:  # a root: no ancestor has been here
                mine.copy_(part)
                whole.copy_(lse)
                reached = end
                continue
            joint = torch.logaddexp(whole, lse)
            mine.mul_((whole - joint).exp_()[..., None]).addcmul_(part.float(), (lse - joint).exp_()[..., None])
            whole.copy_(joint)
        result = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, total)
        ctx.nodes, ctx.scale = nodes, scale
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """Gradients of each part under the total normaliser, added up."""
        query, key, value, out, total = ctx.saved_tensors
        upstream = grads[0]
        grad_query = torch.zeros_like(query)
        grad_key, grad_value = torch.empty_like(key), torch.empty_like(value)
        for start, stop, end in ctx.nodes:
            mine = slice(start, end)
            queries, keys, values = BACKWARD(
                upstream[:, :, mine],
                query[:, :, mine],
                *_keys(key, value, start, stop),
                out[:, :, mine],
                total[:, :, mine],
                0.0,
                True,
                scale=ctx.scale,
            )
            grad_query[:, :, mine] += queries
            grad_key[:, :, start:stop] = keys
            grad_value[:, :, start:stop] = values
        return grad_query, grad_key, grad_value, None, None


def _keys(key: torch.Tensor, value: torch.Tensor, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
    return key[:, :, start:stop], value[:, :, start:stop]


def attend_tree(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, nodes: Sequence[Node], *, scale: float | None = None
) -> torch.Tensor:
    """Attention over the runs of a trie, with gradient; CPU tensors."""
    return cast("torch.Tensor", TreeAttention.apply(query, key, value, nodes, scale))
