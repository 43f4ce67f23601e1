"""The attention layer of Llama-like models over one packed row: norm and rotation of a head in one step.

Invariant: values are those of transformers' layer to fp32 rounding, gradients equal autograd's; a head's norm keeps its
input and one number a row, the rotation keeps nothing, and neither copies a tensor into another layout. Other
precisions, classes and calls with a key/value cache go through transformers' own code. Modules and parameter names stay
as they are. `chosen` names the positions whose result is wanted: only they pass the output projection.

Run: ``flatten_heads(model)`` for a model that attends by `learn.attention`; `learn.network` does it.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import nn

from learn.activations import WIDE, RmsNorm, norm_gradients
from learn.attention import NAME, attend

KINDS = ("Qwen2Attention", "Qwen3Attention", "LlamaAttention")


class TurnedHeads(torch.autograd.Function):
    """Heads normalised over their size (where they have a weight) and turned by their position.

    x: [1, T, heads, size]; weight: [size] or None; cos and sin: [1, T, size], halves repeated. Same shape as x.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        epsilon: float,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> torch.Tensor:
        """The norm as in `learn.activations`, then (a cos - b sin, b cos + a sin) of the two halves a and b."""
        normal, scale = x, None
        if weight is not None:
            scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
            normal = (x * scale).mul_(weight)
        ctx.save_for_backward(x if weight is not None else None, weight, scale, cos, sin)
        return _turned(normal, cos, sin, back=False)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """The rotation backwards, then the norm's gradients."""
        x, weight, scale, cos, sin = ctx.saved_tensors
        slope = _turned(grads[0], cos, sin, back=True)
        if weight is None:
            return slope, None, None, None, None
        return *norm_gradients(slope, x, weight, scale, ctx.needs_input_grad[:2]), None, None, None


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, back: bool) -> torch.Tensor:
    """Each pair of halves turned by its angle, or by minus that."""
    half, sign = x.shape[-1] // 2, -1 if back else 1
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    out = x * cos
    out[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-sign)
    out[..., half:].addcmul_(x[..., :half], sin[..., half:], value=sign)
    return out


def flatten_heads(model: nn.Module) -> int:
    """Let the attention layers of `model` that are known here work on flat rows; how many there are."""
    found = 0
    for module in model.modules():
        layer: Any = module
        if type(module).__name__ in KINDS and layer.config._attn_implementation == NAME:
            module.forward = MethodType(_forward, module)
            for name in ("q_norm", "k_norm"):
                if hasattr(module, name):
                    getattr(module, name).forward = MethodType(_norm, getattr(module, name))
            found += 1
    return found


def _forward(
    self: Any,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor | None = None,
    past_key_values: Any = None,
    chosen: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    if past_key_values is not None or (hidden_states.dtype not in WIDE and chosen is None):
        plain: tuple[torch.Tensor, None] = type(self).forward(
            self,
            hidden_states=hidden_states,
            position_embeddings=position_embeddings,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            **kwargs,
        )
        return plain
    shape = (*hidden_states.shape[:-1], -1, self.head_dim)
    query, key, value = (project(hidden_states).view(shape) for project in (self.q_proj, self.k_proj, self.v_proj))
    query, key = (
        _turn(heads, getattr(self, norm, None), *position_embeddings)
        for heads, norm in ((query, "q_norm"), (key, "k_norm"))
    )
    query, key, value = (heads.transpose(1, 2) for heads in (query, key, value))
    joined, _ = attend(
        self,
        query,
        key,
        value,
        attention_mask,
        scaling=self.scaling,
        dropout=self.attention_dropout if self.training else 0.0,
        sliding_window=getattr(self, "sliding_window", None),
        **kwargs,
    )
    rows = joined.flatten(2)
    return self.o_proj(rows if chosen is None else rows.index_select(1, chosen)), None


def _norm(self: Any, hidden_states: torch.Tensor, *turn: torch.Tensor) -> torch.Tensor:
    """A head's norm, and its rotation where (cos, sin) are given: a call of the module, whose weight ZeRO 3 gathers."""
    kind = TurnedHeads if turn else RmsNorm
    found: torch.Tensor = kind.apply(hidden_states, self.weight, self.variance_epsilon, *turn)
    return found


def _turn(heads: torch.Tensor, norm: Any, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    if heads.dtype in WIDE:
        turned: torch.Tensor = TurnedHeads.apply(heads, None, 0.0, cos, sin) if norm is None else norm(heads, cos, sin)
        return turned
    heads = heads if norm is None else norm(heads)
    low, high = heads.chunk(2, -1)
    return heads * cos.unsqueeze(2) + torch.cat([-high, low], -1) * sin.unsqueeze(2)
