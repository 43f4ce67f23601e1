"""The shape of a dense decoder: numbers of parameters, bytes of its cache and FLOPs, from its config.json alone.

Invariant: counted layer by layer from the published architecture, no weight is read and torch is not imported. Kinds of
models whose layers are not counted here (mixtures of experts, shared or hybrid layers) are refused by name.

Run: ``sera plan --model qwen3-4b`` or ``--model DIRECTORY``; the named ones are `learn/presets/models.yaml`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from sera_data.errors import ConfigError, UsageError

KINDS = ("qwen3", "qwen2", "llama", "mistral")
FIELDS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder: hidden size, layers, query and key-value heads, size of a head, width of the MLP, vocabulary."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    mlp: int
    vocabulary: int
    tied: bool
    head_norms: bool = False
    biases: bool = False
    context: int | None = None

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear maps of one layer, by name."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        sizes = [
            (self.hidden, queries),
            (self.hidden, keys),
            (self.hidden, keys),
            (queries, self.hidden),
            (self.hidden, self.mlp),
            (self.hidden, self.mlp),
            (self.mlp, self.hidden),
        ]
        return dict(zip(LINEAR, sizes, strict=True))

    @property
    def layer(self) -> int:
        """Parameters of one layer."""
        norms = 2 * self.hidden + (2 * self.head_size if self.head_norms else 0)
        biases = (self.heads + 2 * self.kv_heads) * self.head_size if self.biases else 0
        return sum(a * b for a, b in self.linear.values()) + norms + biases

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, which is also the output layer when tied."""
        return self.hidden * self.vocabulary

    @property
    def parameters(self) -> int:
        """All parameters, a tied output layer counted once."""
        return self.layers * self.layer + self.embedding * (1 if self.tied else 2) + self.hidden

    @property
    def largest_layer(self) -> int:
        """Parameters of the largest part that ZeRO-3 gathers at once: a layer, or the output layer."""
        return max(self.layer, self.embedding)

    @property
    def body(self) -> int:
        """Parameters in matrix products of the layers; the output layer is apart."""
        return self.layers * sum(a * b for a, b in self.linear.values())

    def cache_bytes(self, bytes_per_element: int = 2) -> int:
        """Bytes of keys and values of one cached token."""
        return 2 * self.layers * self.kv_heads * self.head_size * bytes_per_element

    def adapters(self, rank: int, targets: Iterable[str]) -> int:
        """Parameters of low-rank adapters on the named linear maps of every layer; UsageError for an unknown name."""
        wanted = list(targets)
        unknown = sorted(set(wanted) - set(LINEAR))
        if unknown:
            msg = f"no linear map {unknown[0]!r} in a layer of {self.name}; allowed: {', '.join(LINEAR)}"
            raise UsageError(msg, hint="leave lora.targets out for all of them")
        return self.layers * sum(rank * sum(self.linear[name]) for name in wanted)

    def training_flops(self, length: float, *, trained: float = 1.0, recompute: bool = False) -> float:
        """FLOPs per token of forward and backward in sequences of `length`, a share `trained` of which is projected.

        6 per parameter in matrix products, 8 with recomputed activations, and causal attention: 6 x layers x heads x
        head size x length (half of the full square), 8/6 of that with recompute.
        """
        factor = 8 if recompute else 6
        attention = factor * self.layers * self.heads * self.head_size * length
        return factor * self.body + 8 * self.embedding * trained + attention


def read_shape(spec: str) -> ModelShape:
    """A named model, or the config.json of a directory; UsageError names what is known."""
    named = presets()
    if spec.lower() in named:
        return shape_of(named[spec.lower()], name=spec.lower())
    path = Path(spec)
    path = path / "config.json" if path.is_dir() else path
    if path.name != "config.json" or not path.is_file():
        msg = f"no model {spec!r} to plan for; allowed: a directory with config.json, or {', '.join(named)}"
        raise UsageError(msg, hint="sera plan --model qwen3-4b")
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read as JSON: {error}"
        raise ConfigError(msg, hint="download the model's config.json again") from None
    if not isinstance(body, dict):
        msg = f"{path} must hold a JSON object, got {type(body).__name__}"
        raise ConfigError(msg, hint="download the model's config.json again")
    return shape_of(body, name=path.parent.name)


def presets() -> dict[str, dict[str, Any]]:
    """Named models with the fields of their config.json."""
    text = files("learn").joinpath("presets", "models.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return found


def shape_of(config: Mapping[str, Any], *, name: str) -> ModelShape:
    """The shape that a config.json describes; ConfigError for kinds of models that are not counted here."""
    kind = config.get("model_type")
    if kind not in KINDS:
        msg = f"model {name} has model_type {kind!r}; plans are made for {', '.join(KINDS)}"
        raise ConfigError(msg, hint="mixtures of experts and hybrid layers are not counted by this command")
    wrong = [f for f in FIELDS if not isinstance(config.get(f), int) or config[f] < 1]
    if wrong:
        msg = f"config.json of {name} needs {wrong[0]} as a whole number above 0, got {config.get(wrong[0])!r}"
        raise ConfigError(msg, hint="take the config.json that belongs to the weights")
    heads = config["num_attention_heads"]
    return ModelShape(
        name=name,
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        mlp=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", False)),
        head_norms=kind == "qwen3",
        biases=bool(config.get("attention_bias", kind == "qwen2")),
        context=config.get("max_position_embeddings"),
    )
