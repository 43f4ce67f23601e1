"""Layers that keep less for backward: RMS norm and the gated feed-forward of Llama-like models, by their own gradients.

Invariant: values are those of transformers' layers, operation for operation (sums in fp32, rounded where they round),
so a policy samples and trains with the same network; gradients equal autograd's. A norm keeps its input and one number
a row, not the normalised input too; the gate keeps its two inputs and computes silu again. Parameters and module names
stay as they are. Layers of other classes are left alone.

Run: ``keep_less(model)`` before training; `learn.network` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn

NORMS = ("Qwen2RMSNorm", "Qwen3RMSNorm", "LlamaRMSNorm", "MistralRMSNorm")
FEEDS = ("Qwen2MLP", "Qwen3MLP", "LlamaMLP", "MistralMLP")
WIDE = (torch.float32, torch.float64)


class RmsNorm(torch.autograd.Function):
    """weight * x / sqrt(mean(x^2) + epsilon) over the last dimension; any leading shape, dtype of x."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        """The normalised rows."""
        wide = _wide(x)
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(x, weight, scale)
        normal = (wide * scale).to(x.dtype)
        return normal.mul_(weight) if weight.dtype == x.dtype else weight * normal

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """Of input and weight."""
        x, weight, scale = ctx.saved_tensors
        to_x, to_weight = norm_gradients(grads[0], x, weight, scale, ctx.needs_input_grad[:2])
        return None if to_x is None else to_x.to(x.dtype), to_weight, None


def norm_gradients(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, needed: Sequence[bool]
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Gradients of x and weight of an RMS norm, [..., h] and [h]; None where not needed. Sums are fp32.

    With p = grad * x and s the scale of a row: s grad weight - x s^3 (p . weight) / h, and the sum of s p over rows.
    Sums over rows and over h are matrix-vector products: no further tensor of the size of x is made.
    """
    grad, x, wide = _wide(grad), _wide(x), _wide(weight)
    size = x.shape[-1]
    product = (grad * x).reshape(-1, size)
    to_x = to_weight = None
    if needed[1]:
        to_weight = torch.mv(product.T, scale.reshape(-1)).to(weight.dtype)
    if needed[0]:
        share = torch.mv(product, wide).view(scale.shape).mul_(scale.pow(3)).div_(size)
        to_x = (grad * wide).mul_(scale).addcmul_(x, share, value=-1)
    return to_x, to_weight


class SiluGate(torch.autograd.Function):
    """silu(gate) * up, element by element."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """The product, of the dtype of both."""
        ctx.save_for_backward(gate, up)
        return nn.functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """silu is computed again; torch's own kernel gives its slope."""
        gate, up = ctx.saved_tensors
        to_gate = torch.ops.aten.silu_backward(grads[0] * up, gate)
        return to_gate, nn.functional.silu(gate).mul_(grads[0])


def keep_less(model: nn.Module) -> int:
    """Let the layers of `model` that are known here keep less for backward; how many there are."""
    found = 0
    for module in model.modules():
        kind = type(module).__name__
        if kind in NORMS:
            module.forward = MethodType(_norm, module)
        elif kind in FEEDS and isinstance(module.act_fn, (nn.SiLU, *_silus())):
            module.forward = MethodType(_feed, module)
        else:
            continue
        found += 1
    return found


def _silus() -> tuple[type, ...]:
    from collect.thin_transformers import transformers

    return (type(transformers.activations.ACT2FN["silu"]),)


def _norm(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    return RmsNorm.apply(hidden_states, self.weight, self.variance_epsilon)


def _feed(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.down_proj(SiluGate.apply(self.gate_proj(x), self.up_proj(x)))


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype in WIDE else x.float()
