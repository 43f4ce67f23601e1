"""Attention over packed sequences: no padding, no mask, no token of one sequence sees another.

Invariant: in the layout `rows` several sequences lie one behind the other in one row; their borders are the cumulative
lengths, and each attends causally to itself only. On CUDA in half precision it is torch's own variable-length kernel,
otherwise one scaled-dot-product call per sequence (`learn.rows_attention` on CPU). In the layout `tree` what they share
lies there once and a token sees its ancestors (`learn.tree_attention` on CPU, `learn.flex_tree` on CUDA). flash-attn is
never imported.

Run: importing this module registers `NAME`; pass it as `attn_implementation` to a transformers model and call the
model with `segments=Segments(...)` or `segments=Branches(...)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.nn.functional import scaled_dot_product_attention

from collect.thin_transformers import transformers
from learn.flex_tree import attend_flex
from learn.rows_attention import attend_rows
from learn.tree_attention import attend_tree
from learn.trie import Node

NAME = "sera_varlen"
HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Segments:
    """Borders of the packed sequences: lengths as Python integers and their cumulative sum as int32[n + 1]."""

    lengths: tuple[int, ...]
    cumulative: torch.Tensor


@dataclass(frozen=True, slots=True)
class Branches:
    """A trie in one row: its runs (see `learn.trie`), and on CUDA their block mask."""

    nodes: tuple[Node, ...]
    mask: Any = None


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    segments: Segments | Branches | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention inside each segment or along each path of a trie: [1, heads, T, size] -> [1, T, heads, size].

    Without `segments` the row is one sequence. Raises ValueError for a padding mask, a batch of several rows, dropout
    or a sliding window: none of them is meant for packed training.
    """
    if attention_mask is not None or query.shape[0] != 1 or dropout or sliding_window:
        msg = (
            f"{NAME} attention takes one packed row without mask, dropout or sliding window, got a batch of"
            f" {query.shape[0]}, mask {attention_mask is not None}, dropout {dropout}, window {sliding_window}"
        )
        raise ValueError(msg)
    if isinstance(segments, Branches):
        if segments.mask is not None:
            seen = attend_flex(query, key, value, segments.mask, scale=scaling)
        else:
            seen = attend_tree(query, key, value, segments.nodes, scale=scaling)
        return seen.transpose(1, 2), None
    if segments is not None and query.is_cuda and query.dtype in HALF:
        return _kernel(module, query, key, value, scaling, segments), None
    lengths = list(segments.lengths) if segments is not None else [query.shape[2]]
    if query.device.type == "cpu":
        return attend_rows(query, key, value, lengths, scale=scaling).transpose(1, 2), None
    rows = [
        scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=q.shape[1] != k.shape[1])
        for q, k, v in zip(*(t.split(lengths, dim=2) for t in (query, key, value)), strict=True)
    ]
    joined = rows[0] if len(rows) == 1 else torch.cat(rows, dim=2)
    return joined.transpose(1, 2), None


def _kernel(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    segments: Segments,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    groups = query.shape[1] // key.shape[1]
    if groups > 1:  # the kernel's support for grouped heads differs between torch versions
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    q, k, v = (t[0].transpose(0, 1).contiguous() for t in (query, key, value))
    longest = max(segments.lengths)
    # (left, right) = (-1, 0): every earlier token, none later
    borders = segments.cumulative
    out = varlen_attn(q, k, v, borders, borders, longest, longest, scale=scaling, window_size=(-1, 0))
    return cast("torch.Tensor", out)[None]


transformers.AttentionInterface.register(NAME, attend)
