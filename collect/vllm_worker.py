"""What runs inside vLLM's workers at a hand-over of weights.

Invariant: after `take_weights` every layer computes with the new weights, the output layer too. vLLM's CPU build packs
the output layer's weight once, and for models with tied embeddings `reload_weights` leaves the old packing in place:
it is packed again here, and what the layer computes is compared with the file, so that old weights cannot go on.

Run: by name, ``collective_rpc("take_weights", kwargs={"directory": DIR})``; over HTTP the same, on a server started
with ``VLLM_SERVER_DEV_MODE=1`` and ``--worker-extension-cls collect.vllm_worker.WeightWorker``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROBED = 64
"""Rows of the output layer that are compared with the file."""


class WeightWorker:
    """Methods that vLLM adds to its worker class."""

    model_runner: Any

    def take_weights(self, directory: str) -> float:
        """Read the weights of a model directory; returns `head_gap` afterwards."""
        self.reload_weights(weights_path=directory)  # type: ignore[attr-defined]
        self.repack_head()
        return self.head_gap(directory)

    def repack_head(self) -> None:
        """Let the output layer be prepared again from the weight that it has now."""
        head = self._head()
        if head is not None:
            head.quant_method.process_weights_after_loading(head)

    def head_gap(self, directory: str) -> float:
        """Largest difference between what the output layer computes and its weight in the file, in units of what
        rounding explains: up to 1 is well. 0.0 where this worker has no output layer.
        """
        import torch

        head = self._head()
        if head is None:
            return 0.0
        weight = head_rows(Path(directory), start=head.shard_indices.org_vocab_start_index, count=PROBED)
        probe = torch.linspace(-1, 1, weight.shape[1], device=head.weight.device).cos()[None].to(head.weight.dtype)
        with torch.inference_mode():
            got = head.quant_method.apply(head, probe, bias=None)[0, : weight.shape[0]].float().cpu()
        want = (weight.to(head.weight.dtype).float() @ probe.cpu().float().T)[:, 0]
        rounding = max(1e-4, 2 * torch.finfo(head.weight.dtype).eps)
        return float((got - want).abs().max() / (rounding * want.abs().max().clamp(min=1e-9)))

    def _head(self) -> Any:
        model = self.model_runner.get_model()
        head = getattr(model, "lm_head", None)
        return head if hasattr(head, "quant_method") else None


def head_rows(directory: Path, *, start: int, count: int) -> Any:
    """Rows of the output layer's weight as stored, [count, hidden]; the embedding's where the two are tied."""
    from safetensors import safe_open

    index = directory / "model.safetensors.index.json"
    placed: dict[str, str] = {}
    if index.is_file():
        placed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    else:
        for file in sorted(directory.glob("*.safetensors")):
            with safe_open(file, framework="pt") as handle:
                placed |= dict.fromkeys(handle.keys(), file.name)
    name = "lm_head.weight" if "lm_head.weight" in placed else "model.embed_tokens.weight"
    if name not in placed:
        msg = f"no output layer in {directory}: neither lm_head.weight nor model.embed_tokens.weight"
        raise KeyError(msg)
    with safe_open(directory / placed[name], framework="pt") as handle:
        rows = handle.get_slice(name)
        return rows[start : min(start + count, rows.get_shape()[0])]
