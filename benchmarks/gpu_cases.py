"""What the GPU checks run on: sizes, sequences that share prefixes, and randomly initialised models.

Invariant: the same seeds give the same numbers on every machine; FULL is for a GPU, TINY for a CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from learn.attention import NAME
from learn.datum import Datum
from learn.network import Network
from learn.trie import Layout, lay_out


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the checks are: full on a GPU, tiny on a CPU."""

    trie: int
    hidden: int
    layers: int
    head_rows: int
    head_hidden: int
    vocabulary: int
    step: dict[str, int]
    prompt: int
    turn: int
    families: int
    budget: int


FULL = Sizes(
    trie=700,
    hidden=256,
    layers=4,
    head_rows=60_000,
    head_hidden=2560,
    vocabulary=151_936,
    step={
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 40_960,
    },
    prompt=3000,
    turn=600,
    families=6,
    budget=32_768,
)
TINY = Sizes(
    trie=60,
    hidden=32,
    layers=2,
    head_rows=300,
    head_hidden=16,
    vocabulary=1000,
    step={
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 200,
        "max_position_embeddings": 512,
    },
    prompt=40,
    turn=10,
    families=2,
    budget=256,
)


def branches(sizes: Sizes, *, families: int, vocabulary: int) -> list[Datum]:
    """Families of eight sequences: a common prompt, half of a trained turn in common, then a turn of each own."""
    draw = np.random.default_rng(0)
    datums = []
    for family in range(families):
        prompt = draw.integers(0, vocabulary, sizes.prompt)
        common = draw.integers(0, vocabulary, sizes.turn // 2)
        for branch in range(8):
            own = draw.integers(0, vocabulary, sizes.turn + 7 * branch)
            ids = np.concatenate([prompt, common, own]).astype(np.int32)
            trained = np.arange(len(ids)) >= sizes.prompt
            name = f"f{family}b{branch}"
            datums.append(
                Datum(
                    datum_id=name,
                    stage="execution",
                    trajectory_id=name,
                    group_id="0/t",
                    depth=0,
                    token_ids=ids,
                    trained=trained,
                    logprobs=np.where(trained, -math.log(vocabulary), 0).astype(np.float32),
                    advantages=np.where(trained, draw.normal(), 0).astype(np.float32),
                    versions=np.where(trained, 0, -1).astype(np.int32),
                    policy_version=0,
                )
            )
    return datums


def trie(length: int) -> Layout:
    """Twelve sequences of up to 2 x length tokens that leave a common one at places of their own."""
    draw = np.random.default_rng(1)
    base = draw.integers(0, 50, length)
    cuts = draw.integers(1, length, 12)
    return lay_out([np.concatenate([base[:c], draw.integers(50, 99, length // 2)]).astype(np.int32) for c in cuts])


def network(config: dict[str, int], device: torch.device, dtype: torch.dtype, *, recompute: bool = False) -> Network:
    """A randomly initialised Qwen3 with tied embeddings."""
    torch.manual_seed(0)
    settings = Qwen3Config(**config, tie_word_embeddings=True)
    with device:
        model = AutoModelForCausalLM.from_config(settings, dtype=dtype, attn_implementation=NAME)
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
    return Network(model)


def small(sizes: Sizes) -> dict[str, int]:
    """The config of the small model: grouped heads of 64 (8 when tiny)."""
    size = max(8, sizes.hidden // 4)
    return {
        "hidden_size": sizes.hidden,
        "intermediate_size": 2 * sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": size,
        "vocab_size": 1000,
        "max_position_embeddings": 8192,
    }
