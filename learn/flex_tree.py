"""Attention over a trie on GPU: FlexAttention with a block mask from the ends of the trie's tokens.

Invariant: token q sees token k if and only if k <= q < ends[k], an interval check; the blocks of the mask are worked
out from the smallest and largest end in each block of keys, O(T + (T / 128)^2), no T x T mask is built.

Run: `learn.attention` calls it on CUDA for micro-batches in the tree layout; the kernel is compiled at the first call.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import numpy as np
import torch

from learn.trie import Ids

BLOCK = 128


def block_mask(ends: Ids, device: torch.device | str) -> Any:
    """The BlockMask of a row of T tokens from its ends, int32[T]."""
    from torch.nn.attention.flex_attention import BlockMask

    partial, full = block_kinds(ends)
    borders = torch.as_tensor(ends, dtype=torch.int32, device=device)

    def visible(batch: Any, head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (key <= query) & (query < borders[key])

    length = len(ends)
    return BlockMask.from_kv_blocks(
        *_listed(partial, device),
        *_listed(full, device),
        BLOCK_SIZE=BLOCK,
        mask_mod=visible,
        seq_lengths=(length, length),
    )


def block_kinds(ends: Ids) -> tuple[np.ndarray, np.ndarray]:
    """(partial, full) of blocks of queries x blocks of keys, bool[n, n]: some pairs are visible, all pairs are."""
    count = -(-len(ends) // BLOCK)
    padded = np.zeros(count * BLOCK, np.int64)  # keys beyond the row end before they begin
    padded[: len(ends)] = ends
    lowest, highest = (f(padded.reshape(count, BLOCK), axis=1) for f in (np.min, np.max))
    first = np.arange(count) * BLOCK
    last = np.minimum(first + BLOCK, len(ends)) - 1
    earlier = np.tri(count, k=-1, dtype=bool)
    full = earlier & (lowest[None, :] > last[:, None])
    partial = (earlier & (highest[None, :] > first[:, None]) & ~full) | np.eye(count, dtype=bool)
    return partial, full


def _listed(blocks: np.ndarray, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """(count [1, 1, n], indices [1, 1, n, n]) of the true blocks of each row, padded with the others."""
    order = np.argsort(~blocks, axis=1, kind="stable")
    counts = torch.as_tensor(blocks.sum(axis=1), dtype=torch.int32, device=device)
    indices = torch.as_tensor(order, dtype=torch.int32, device=device)
    return counts[None, None], indices[None, None]


@cache
def _kernel() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)


def attend_flex(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: Any,
    *,
    scale: float | None = None,
    compiled: bool = True,
) -> torch.Tensor:
    """(query [1, heads, T, size], key and value [1, key heads, T, size]) -> [1, heads, T, size]."""
    from torch.nn.attention.flex_attention import flex_attention

    kernel = _kernel() if compiled else flex_attention
    grouped = query.shape[1] != key.shape[1]
    return cast("torch.Tensor", kernel(query, key, value, block_mask=mask, scale=scale, enable_gqa=grouped))
