"""Any causal language model of transformers as a slot decoder: Qwen3-4B on a GPU by changing a path.

Invariant: the logits are the model's own for the slot's tokens; padding never enters a slot and never changes a row.
New tokens are padded on the left, so that one position holds every row's last logits; an explicit 4-D mask
shows each token its slot up to itself.

Run: ``CausalDecoder.load(directory, slots=64, device="cuda", dtype="bfloat16").forward([Row(0, 0, ids)])``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from collect.model_files import require_weights
from collect.slots import Row
from collect.thin_transformers import transformers
from sera_data.errors import UsageError

FIRST_CAPACITY = 256


class SlotCache(transformers.Cache):
    """Keys and values per layer as (slots, kv heads, capacity, dim), written and read for the rows of one step."""

    def __init__(self, slots: int, max_context: int) -> None:
        super().__init__(layers=[])
        self._count = slots
        self._limit = max_context
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._slots = self._valid = self._place = torch.empty(0)
        self._reach = 0

    def begin(self, slots: Tensor, place: Tensor, valid: Tensor, reach: int) -> None:
        """Where the next forward's tokens go: positions (rows, width), which are real, and the longest slot's end."""
        self._slots, self._place, self._valid, self._reach = slots, place, valid, reach

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the real tokens of (rows, kv heads, width, dim); return the rows' slots up to `reach`."""
        while len(self._keys) <= layer_idx:
            self._keys.append(self._allocate(key_states, 0))
            self._values.append(self._allocate(value_states, 0))
        rows, columns = self._valid.nonzero(as_tuple=True)
        slots, place = self._slots[rows], self._place[rows, columns]
        out = []
        for held, new in ((self._keys, key_states), (self._values, value_states)):
            if held[layer_idx].shape[2] < self._reach:
                held[layer_idx] = self._grown(held[layer_idx], new)
            held[layer_idx][slots, :, place] = new[rows, :, columns]
            out.append(held[layer_idx].narrow(2, 0, self._reach).index_select(0, self._slots))
        return out[0], out[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions and masks are always given, so this only has to be a number."""
        return 0

    def _allocate(self, like: Tensor, capacity: int) -> Tensor:
        return like.new_zeros(self._count, like.shape[1], capacity, like.shape[3])

    def _grown(self, old: Tensor, like: Tensor) -> Tensor:
        capacity = min(self._limit, max(self._reach, 2 * old.shape[2], FIRST_CAPACITY))
        new = self._allocate(like, capacity)
        new[:, :, : old.shape[2]] = old
        return new


class CausalDecoder:
    """A transformers model and its slot cache (see collect.slots.Decoder)."""

    def __init__(self, model: Any, *, slots: int, max_context: int | None = None) -> None:
        if getattr(model.config, "use_sliding_window", False):
            msg = f"{type(model).__name__} uses a sliding attention window, which the slot cache does not hold"
            raise UsageError(msg, hint="use a model with full attention")
        self._model = model.eval()
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.max_context = min(int(model.config.max_position_embeddings), max_context or 1 << 30)
        self._cache = SlotCache(slots, self.max_context)

    @classmethod
    def load(
        cls, directory: Path, *, slots: int, max_context: int | None = None, device: str = "cpu", dtype: str = "float32"
    ) -> CausalDecoder:
        """Read a model directory in an explicit dtype."""
        kind = getattr(torch, dtype, None)
        if not isinstance(kind, torch.dtype):
            msg = f"dtype must be float32, bfloat16 or float16, got {dtype!r}"
            raise UsageError(msg)
        transformers.utils.logging.disable_progress_bar()
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=kind, attn_implementation="sdpa", local_files_only=True, output_loading_info=True
        )
        model, report = loaded
        require_weights(directory, report, tied=model.config.tie_word_embeddings)
        return cls(model.to(device), slots=slots, max_context=max_context)

    @torch.inference_mode()
    def forward(self, rows: Sequence[Row]) -> Tensor:
        """Write each row's new tokens into its slot; logits (rows, vocabulary) after each row's last token."""
        device = self._model.device
        width = max(len(row.ids) for row in rows)
        reach = max(row.start + len(row.ids) for row in rows)
        ids = torch.tensor([[0] * (width - len(row.ids)) + list(row.ids) for row in rows], device=device)
        ends = torch.tensor([row.start + len(row.ids) for row in rows], device=device).unsqueeze(1)
        starts = torch.tensor([row.start for row in rows], device=device).unsqueeze(1)
        place = ends - width + torch.arange(width, device=device)
        valid = place >= starts
        place = place.clamp(min=0)
        mask = torch.arange(reach, device=device) <= place.unsqueeze(-1)  # padding sees a past token, never nothing
        self._cache.begin(torch.tensor([row.slot for row in rows], device=device), place, valid, reach)
        output = self._model(
            input_ids=ids,
            attention_mask=mask.unsqueeze(1),
            position_ids=place,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]
