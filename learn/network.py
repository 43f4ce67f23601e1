"""The network under training: a transformers backbone with packed attention and the chunked output layer.

Invariant: `forward` maps a micro-batch to the log-probability and entropy of its trained tokens, equal to those of the
plain model on each sequence alone; parameter names are those of the Hugging Face model behind the prefix `model.`, so
that exports are ordinary checkpoints. Weights load with an explicit dtype; a token outside the vocabulary mask is
refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from collect.model_files import loading_faults, require_weights
from collect.model_files import read_mask as read_allowed
from collect.thin_transformers import transformers
from learn.activations import keep_less
from learn.attention import NAME
from learn.config import LoraConfig
from learn.heads import flatten_heads
from learn.last_layer import thin
from learn.lora import insert_adapters
from learn.packing import MicroBatch
from learn.vocabulary import CHUNK, Vocabulary


class Network(nn.Module):
    """A causal language model whose output layer only sees trained positions."""

    def __init__(
        self, model: Any, *, allowed: torch.Tensor | None = None, temperature: float = 1.0, chunk: int = CHUNK
    ) -> None:
        super().__init__()
        keep_less(model)
        flatten_heads(model)
        self.thin = thin(model.model)
        model.lm_head = Vocabulary(model.lm_head.weight, allowed=allowed, temperature=temperature, chunk=chunk)
        self.model = model

    def forward(self, batch: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities (fp32, with gradient) and entropies (without) of the trained tokens."""
        # where more pairs than tokens are predicted (a trie with many forks), to choose them early saves nothing
        early = self.thin and len(batch.before) < batch.token_ids.shape[1]
        wanted = {"predicting": batch.before} if early else {}
        hidden = self.model.model(
            input_ids=batch.token_ids, position_ids=batch.positions, segments=batch.segments, use_cache=False, **wanted
        ).last_hidden_state[0]
        predicting = hidden if early else hidden.index_select(0, batch.before)
        logprobs, entropies = self.model.lm_head(predicting, batch.targets)
        if batch.pick is None:
            return logprobs, entropies
        return logprobs.index_select(0, batch.pick), entropies.index_select(0, batch.pick)


def load_network(
    directory: Path,
    *,
    dtype: torch.dtype,
    temperature: float = 1.0,
    chunk: int = CHUNK,
    recompute: bool = False,
    lora: LoraConfig | None = None,
) -> Network:
    """The network of a policy directory, its vocabulary mask applied; `recompute` trades time for activations.

    With `lora` only its new adapters are trained.
    """
    transformers.utils.logging.disable_progress_bar()
    with loading_faults(directory):
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=dtype, attn_implementation=NAME, local_files_only=True, output_loading_info=True
        )
    model, report = loaded
    require_weights(directory, report, tied=model.config.tie_word_embeddings)
    if lora is not None:
        insert_adapters(model, lora)
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    allowed = read_mask(directory, model.config.vocab_size)
    return Network(model, allowed=allowed, temperature=temperature, chunk=chunk)


def read_mask(directory: Path, vocabulary: int) -> torch.Tensor | None:
    """Allowed tokens as bool[vocabulary], or None when the policy has no mask."""
    allowed = read_allowed(directory, vocabulary)
    if allowed is None:
        return None
    mask = torch.zeros(vocabulary, dtype=torch.bool)
    mask[torch.tensor(allowed)] = True
    return mask
