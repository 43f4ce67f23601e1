"""A small Qwen3 forward pass for CPUs: the decoder of the pocket policy.

Invariant: the logits equal transformers' Qwen3ForCausalLM in fp32 within 1e-5. New tokens of all rows run flat
(without padding) through the linear layers; only attention is padded. It needs torch and safetensors, not
transformers.

Run: ``Qwen3Decoder.load(directory, slots=64).forward([Row(0, 0, ids)])``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from collect.slots import Row
from sera_data.errors import UsageError

FIRST_CAPACITY = 256
GROUP = 32  # rows of similar length that attend together: each reads as far as the longest of its group, not of all
WIDE_GROUP = 8  # the same for rows with many new tokens


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows that attend together: which tokens they are, their slots, how far they read, and the causal mask.

    where: row of the group and position among the row's new tokens, of each token; None where each row has one.
    """

    tokens: Tensor
    slots: Tensor
    reach: int
    bias: Tensor
    where: tuple[Tensor, Tensor] | None


@dataclass(frozen=True, slots=True)
class _Layer:
    norm_attention: Tensor
    qkv: Tensor
    norm_query: Tensor
    norm_key: Tensor
    out: Tensor
    norm_mlp: Tensor
    gate_up: Tensor
    down: Tensor


class Qwen3Decoder:
    """Weights and the slot cache (see collect.slots.Decoder). Compute is fp32."""

    def __init__(
        self, tensors: Mapping[str, Tensor], config: Mapping[str, Any], *, slots: int, max_context: int | None = None
    ) -> None:
        if not supported(config):
            msg = f"this forward pass serves dense Qwen3, got model_type {config.get('model_type')!r}"
            raise UsageError(msg, hint="use the option forward=transformers")
        weights = {name: tensor.float() for name, tensor in tensors.items()}
        self.vocab_size = int(config["vocab_size"])
        self.max_context = min(int(config["max_position_embeddings"]), max_context or 1 << 30)
        self._heads = int(config["num_attention_heads"])
        self._kv_heads = int(config["num_key_value_heads"])
        self._dim = int(config["head_dim"])
        self._eps = float(config["rms_norm_eps"])
        self._layers = [_layer(weights, i) for i in range(int(config["num_hidden_layers"]))]
        self._embed = weights["model.embed_tokens.weight"]
        self._norm = weights["model.norm.weight"]
        self._head = weights.get("lm_head.weight", self._embed)
        self._cos, self._sin = rotary_table(self.max_context, self._dim, rope_theta(config))
        self._slots = slots
        self._cache = [self._allocate(min(FIRST_CAPACITY, self.max_context)) for _ in self._layers]

    @classmethod
    def load(cls, directory: Path, *, slots: int, max_context: int | None = None) -> Qwen3Decoder:
        """Read config.json and model.safetensors."""
        from safetensors.torch import load_file

        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        return cls(load_file(directory / "model.safetensors"), config, slots=slots, max_context=max_context)

    @torch.inference_mode()
    def forward(self, rows: Sequence[Row]) -> Tensor:
        """Write each row's new tokens into its slot; logits (rows, vocabulary) after each row's last token."""
        lengths = torch.tensor([len(row.ids) for row in rows])
        starts = torch.tensor([row.start for row in rows])
        slots = torch.tensor([row.slot for row in rows])
        self._grow(int((starts + lengths).max()))
        x = self._embed[torch.tensor([i for row in rows for i in row.ids])]
        row_of = torch.repeat_interleave(torch.arange(len(rows)), lengths)
        ends = lengths.cumsum(0)
        offset = torch.arange(len(x)) - (ends - lengths)[row_of]
        place = starts[row_of] + offset
        cos, sin = self._cos[place].unsqueeze(1), self._sin[place].unsqueeze(1)
        groups = _groups(starts, lengths, slots, row_of, offset)
        for layer, cache in zip(self._layers, self._cache, strict=True):
            q, key, value = self._project(layer, x, cos, sin)
            cache[0][slots[row_of], :, place] = key
            cache[1][slots[row_of], :, place] = value
            seen = x.new_empty(len(x), self._heads * self._dim)
            for group in groups:
                keys, values = (part.narrow(2, 0, group.reach).index_select(0, group.slots) for part in cache)
                seen[group.tokens] = self._attend(q[group.tokens], keys, values, group)
            x = x + F.linear(seen, layer.out)
            gate, up = F.linear(self._rms(x, layer.norm_mlp), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return F.linear(self._rms(x[ends - 1], self._norm), self._head)

    def _project(self, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values as (tokens, heads, dim)."""
        qkv = F.linear(self._rms(x, layer.norm_attention), layer.qkv).view(len(x), -1, self._dim)
        query, key, value = qkv.split([self._heads, self._kv_heads, self._kv_heads], 1)
        q = rotate(self._rms(query, layer.norm_query), cos, sin)
        return q, rotate(self._rms(key, layer.norm_key), cos, sin), value

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor, group: _Group) -> Tensor:
        """Attention of a group's new tokens over its slots; returns (tokens, heads * dim)."""
        if group.where is None:
            return self._attend_one(q, keys, values, group.bias)
        padded = q.new_zeros(len(keys), group.bias.shape[2], self._heads, self._dim)
        padded[group.where] = q
        out = F.scaled_dot_product_attention(
            padded.transpose(1, 2), keys, values, attn_mask=group.bias, enable_gqa=True
        )
        return out.transpose(1, 2)[group.where].flatten(1)

    def _attend_one(self, q: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
        """The same for one new token per row, where two plain products are faster than the fused kernel."""
        q = q.view(len(keys), self._kv_heads, -1, self._dim)
        weights = ((q @ keys.transpose(-1, -2)) * self._dim**-0.5 + bias).softmax(-1)
        return (weights @ values).flatten(1)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self._eps)

    def _allocate(self, capacity: int) -> tuple[Tensor, Tensor]:
        shape = (self._slots, self._kv_heads, capacity, self._dim)
        return torch.zeros(shape), torch.zeros(shape)

    def _grow(self, reach: int) -> None:
        capacity = self._cache[0][0].shape[2]
        if reach <= capacity:
            return
        larger = min(self.max_context, max(reach, 2 * capacity))
        for i, held in enumerate(self._cache):
            self._cache[i] = self._allocate(larger)
            for new, old in zip(self._cache[i], held, strict=True):
                new[:, :, :capacity] = old


def _groups(starts: Tensor, lengths: Tensor, slots: Tensor, row_of: Tensor, offset: Tensor) -> list[_Group]:
    """Groups of rows of similar length; each attends by itself."""
    wide, ends = int(lengths.max()) > 1, starts + lengths
    order, groups = ends.argsort(stable=True), []
    for part in order.split(WIDE_GROUP if wide else GROUP):
        reach, tokens, where = int(ends[part[-1]]), part, None
        if wide:
            member = torch.full((len(lengths),), -1)
            member[part] = torch.arange(len(part))
            tokens = (member[row_of] >= 0).nonzero().squeeze(1)
            where = (member[row_of[tokens]], offset[tokens])
        bias = _causal(starts[part], int(lengths[part].max()), reach)
        groups.append(_Group(tokens, slots[part], reach, bias, where))
    return groups


def _causal(starts: Tensor, width: int, reach: int) -> Tensor:
    """0 where a new token may look, -inf elsewhere: (rows, 1, width, reach)."""
    queries = starts.unsqueeze(1) + torch.arange(width)
    later = torch.arange(reach) > queries[:, None, :, None]
    return torch.zeros(len(starts), 1, width, reach).masked_fill(later, float("-inf"))


def supported(config: Mapping[str, Any]) -> bool:
    """Whether the forward pass below is this model's."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return (
        config.get("model_type") == "qwen3"
        and not config.get("attention_bias")
        and not config.get("use_sliding_window")
        and config.get("hidden_act", "silu") == "silu"
        and parameters.get("rope_type", "default") == "default"
    )


def rope_theta(config: Mapping[str, Any]) -> float:
    """The rotary base, under the key of older or newer configurations."""
    parameters = config.get("rope_parameters") or {}
    return float(parameters.get("rope_theta") or config.get("rope_theta") or 10000.0)


def rotary_table(length: int, dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines (length, dim), halves repeated as Qwen3 pairs them."""
    frequencies = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
    angles = torch.arange(length).float().unsqueeze(1) * frequencies
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position of the last dimension."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def _layer(weights: Mapping[str, Tensor], index: int) -> _Layer:
    prefix = f"model.layers.{index}."
    attention, mlp = prefix + "self_attn.", prefix + "mlp."
    return _Layer(
        norm_attention=weights[prefix + "input_layernorm.weight"],
        qkv=torch.cat([weights[f"{attention}{name}_proj.weight"] for name in "qkv"]),
        norm_query=weights[attention + "q_norm.weight"],
        norm_key=weights[attention + "k_norm.weight"],
        out=weights[attention + "o_proj.weight"],
        norm_mlp=weights[prefix + "post_attention_layernorm.weight"],
        gate_up=torch.cat([weights[mlp + "gate_proj.weight"], weights[mlp + "up_proj.weight"]]),
        down=weights[mlp + "down_proj.weight"],
    )
