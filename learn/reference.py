"""The start weights of a phase, kept frozen beside the engine, for the KL brake on data of other weights.

Invariant: for tokens that the start weights sampled, their log-probabilities under them are the stored ones and nothing
is loaded; for an update with any older or newer token they come from a forward pass of the start policy's directory
alone, so a restarted phase takes the same numbers. Every rank holds one whole copy, in the engine's precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from learn.config import LearnConfig
from learn.datum import Datum
from learn.network import Network, load_network
from learn.packing import MicroBatch
from schemas.words import Stage


class StartWeights:
    """Opens the frozen network of a policy directory at the first update that needs it."""

    def __init__(self, policy: Path, *, version: int, config: LearnConfig, place: torch.device, half: bool) -> None:
        self.policy, self.version, self.config = policy, version, config
        self.place, self.dtype = place, torch.bfloat16 if half else torch.float32
        self._network: Network | None = None

    def wanted(self, stage: Stage, datums: Sequence[Datum]) -> Network | None:
        """The network where the KL brake is on and a datum was sampled by other weights, else None."""
        if not self.config.loss.kl(stage) or all(datum.policy_version == self.version for datum in datums):
            return None
        if self._network is None:
            temperature, chunk = self.config.loss.temperature, self.config.engine.vocabulary_chunk
            network = load_network(self.policy, dtype=self.dtype, temperature=temperature, chunk=chunk)
            self._network = network.to(self.place).requires_grad_(False).eval()
        return self._network


@torch.no_grad()
def with_reference(batch: MicroBatch, network: Network | None) -> MicroBatch:
    """The batch with the log-probabilities of its trained tokens under a frozen network; itself without one."""
    if network is None:
        return batch
    logprobs, _ = network(batch)
    return replace(batch, tokens=replace(batch.tokens, reference=logprobs))
