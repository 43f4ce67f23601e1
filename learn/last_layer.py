"""The last layer of a model in training: only positions that predict a trained token go through it to the end.

Invariant: hidden states of those positions, and all gradients, are those of the whole layer. Nobody reads the others:
of them only keys and values are computed, so the output projection, the norm behind it and the feed-forward see the
trained share of the tokens, and keep as much for backward. Module and parameter names stay as they are.

Run: ``thin(model)`` once, then ``model(..., predicting=positions)``; `learn.network` does it.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import nn

from learn.heads import flatten_heads

KINDS = ("Qwen2DecoderLayer", "Qwen3DecoderLayer", "LlamaDecoderLayer")


def thin(backbone: nn.Module) -> bool:
    """Let the last layer of a backbone take `predicting`; False (and nothing done) where it is not known here."""
    layers: Any = getattr(backbone, "layers", None)
    if not layers or type(layers[-1]).__name__ not in KINDS or not flatten_heads(layers[-1]):
        return False
    layers[-1].forward = MethodType(_forward, layers[-1])
    return True


def _forward(
    self: Any, hidden_states: torch.Tensor, predicting: torch.Tensor | None = None, **kwargs: Any
) -> torch.Tensor:
    """[1, T, hidden] -> [1, n, hidden] for the n positions of `predicting`; all of them without it."""
    if predicting is None:
        whole: torch.Tensor = type(self).forward(self, hidden_states, **kwargs)
        return whole
    seen, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), chosen=predicting, **kwargs)
    seen = hidden_states.index_select(1, predicting) + seen
    fed: torch.Tensor = self.mlp(self.post_attention_layernorm(seen))
    return seen + fed
