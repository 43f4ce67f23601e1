"""Layers that keep less for backward: RMS norm and the gated feed-forward of Llama-like models, by their own gradients.

Invariant: values are those of transformers' layers, operation for operation (sums in fp32, rounded where they round),
so a policy samples and trains with the same network; gradients equal autograd's. A norm keeps its input and one number
a row, not the normalised input too; the gate keeps its two inputs and computes silu again. Parameters and module names
stay as they are. Layers of other classes are left alone.

Run: ``keep_less(model)`` before training; `learn.network` does it.
"""

from __future__ import annotations

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
        return weight * (wide * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """n = x * scale, g = grad * weight: scale * (g - n * mean(g * n)) for x, sum(grad * n) for the weight."""
        x, weight, scale = ctx.saved_tensors
        normal = _wide(x) * scale
        slope = _wide(grads[0] * weight)
        to_x = to_weight = None
        if ctx.needs_input_grad[1]:
            rows = (grads[0] * normal.to(x.dtype)).reshape(-1, x.shape[-1])
            to_weight = rows.sum(0)
        if ctx.needs_input_grad[0]:
            mean = (slope * normal).mean(-1, keepdim=True)
            to_x = slope.sub_(normal.mul_(mean)).mul_(scale).to(x.dtype)
        return to_x, to_weight, None


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
    from transformers.activations import ACT2FN

    return (type(ACT2FN["silu"]),)


def _norm(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    return RmsNorm.apply(hidden_states, self.weight, self.variance_epsilon)


def _feed(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.down_proj(SiluGate.apply(self.gate_proj(x), self.up_proj(x)))


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype in WIDE else x.float()
