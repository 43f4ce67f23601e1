"""The trainer's forward pass on sequences that an engine sampled: `sera policy check` compares the engine with it, and
`sera refresh logprobs` stores what it gives.

Invariant: it is the learner's own network, packing and output layer, with the policy's vocabulary mask and the sampling
temperature, so what differs from the engine's log-probabilities here is what the ratio will see.

Run: ``sera policy check DIR --engine vllm``; registered as `learner` in the entry-point group `sera.forwards`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from learn.datum import Datum

if TYPE_CHECKING:
    from learn.packing import Share

Numbers = Sequence[int] | NDArray[Any]
Sequences = Sequence[tuple[Numbers, Numbers]]
"""(token ids, ascending positions of the tokens asked for, none of them 0)."""
BUDGET = 16_384
"""Tokens of a micro-batch, or of the longest sequence where that has more."""


class Forward:
    """The learner's network of a policy directory, loaded once and asked again and again.

    dtype: float32, bfloat16 or float16, of weights and activations; the softmax is fp32. budget: tokens of a
    micro-batch, or of the longest sequence where that has more. share: as in `learn.packing`.
    """

    def __init__(self, directory: Path, *, dtype: str, device: str, budget: int = BUDGET, share: Share = "off") -> None:
        import torch

        from learn.network import load_network

        self.network = load_network(directory, dtype=getattr(torch, dtype)).to(device).eval()
        self.device, self.budget, self.share = device, budget, share

    def logprobs(self, sequences: Sequences, *, temperature: float) -> list[NDArray[np.float32]]:
        """Log-probabilities of the tokens asked for at a sampling temperature, float32 per sequence."""
        import torch

        from learn.packing import micro_batch, plan_packs

        datums = [_datum(f"{i:08d}", ids, positions) for i, (ids, positions) in enumerate(sequences)]
        self.network.model.lm_head.temperature = temperature
        found: dict[str, NDArray[np.float32]] = {}
        budget = max(self.budget, *(len(datum) for datum in datums), 2)
        for pack in plan_packs(datums, budget=budget, share=self.share).packs:
            with torch.inference_mode():
                logprobs, _ = self.network(micro_batch(pack, self.device))
            parts = np.split(logprobs.float().cpu().numpy(), np.cumsum([d.n_trained for d in pack.datums])[:-1])
            found |= {datum.datum_id: part for datum, part in zip(pack.datums, parts, strict=True)}
        return [found[datum.datum_id] for datum in datums]


def token_logprobs(
    directory: Path, sequences: Sequences, *, temperature: float, dtype: str, device: str
) -> list[NDArray[np.float32]]:
    """Log-probabilities of chosen tokens of `sequences` under the weights of a policy directory, float32 each."""
    return Forward(directory, dtype=dtype, device=device).logprobs(sequences, temperature=temperature)


def _datum(name: str, ids: Numbers, positions: Numbers) -> Datum:
    length = int(positions[-1]) + 1
    trained = np.zeros(length, dtype=bool)
    trained[list(positions)] = True
    zeros = np.zeros(length, dtype=np.float32)
    return Datum(
        datum_id=name,
        stage="execution",
        trajectory_id=name,
        group_id="0/check",
        depth=0,
        token_ids=np.asarray(ids[:length], dtype=np.int32),
        trained=trained,
        logprobs=zeros,
        advantages=zeros,
        versions=np.where(trained, 0, -1).astype(np.int32),
        policy_version=0,
    )
