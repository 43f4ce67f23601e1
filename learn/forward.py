"""The trainer's forward pass on sequences that an engine sampled: what `sera policy check` compares the engine with.

Invariant: it is the learner's own network, packing and output layer, with the policy's vocabulary mask and the sampling
temperature, so what differs from the engine's log-probabilities here is what the ratio will see.

Run: ``sera policy check DIR --engine vllm``; registered as `learner` in the entry-point group `sera.forwards`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from learn.datum import Datum

BUDGET = 16_384
"""Tokens of a micro-batch, or of the longest sequence where that has more."""


def token_logprobs(
    directory: Path,
    sequences: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    temperature: float,
    dtype: str,
    device: str,
) -> list[NDArray[np.float32]]:
    """Log-probabilities of chosen tokens, float32 per sequence.

    sequences: (token ids, ascending positions of the tokens asked for, none of them 0). dtype: float32, bfloat16 or
    float16, of weights and activations; the softmax is fp32.
    """
    import torch

    from learn.network import load_network
    from learn.packing import micro_batch, plan_packs

    datums = [_datum(f"{i:08d}", ids, positions) for i, (ids, positions) in enumerate(sequences)]
    network = load_network(directory, dtype=getattr(torch, dtype), temperature=temperature).to(device).eval()
    found: dict[str, NDArray[np.float32]] = {}
    budget = max(BUDGET, *(len(datum) for datum in datums))
    for pack in plan_packs(datums, budget=budget).packs:
        with torch.inference_mode():
            logprobs, _ = network(micro_batch(pack, device))
        parts = np.split(logprobs.float().cpu().numpy(), np.cumsum([d.n_trained for d in pack.datums])[:-1])
        found |= {datum.datum_id: part for datum, part in zip(pack.datums, parts, strict=True)}
    return [found[datum.datum_id] for datum in datums]


def _datum(name: str, ids: Sequence[int], positions: Sequence[int]) -> Datum:
    length = positions[-1] + 1
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
