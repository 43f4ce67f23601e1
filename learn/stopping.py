"""Where a learn phase stops when it is asked to: between two updates, at the same one on every rank.

Invariant: a signal never strikes inside an update, which other ranks would wait for. Before each update the ranks add
up who was asked to stop, so that all of them see the same answer, write one checkpoint together and end with exit code
75 (130 where it was Ctrl-C); the same command goes on from that update. Several ranks hold signals back from their
first collective to their last one, a single one while it trains.

Run: used by ``sera learn``; `learn_phase(..., stopping=Stopping(ranks, interruption))`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from collect.interruption import HINT, Interruption, stop_error
from learn.ranks import Ranks
from sera_data.errors import Preempted, SeraError


class Stopping:
    """Holds signals back while a phase works, and asks all ranks before each update."""

    def __init__(self, ranks: Ranks, interruption: Interruption | None = None) -> None:
        self.ranks, self.interruption = ranks, interruption or Interruption()

    @contextlib.contextmanager
    def of_phase(self) -> Iterator[None]:
        """Around a whole phase: with several ranks no signal strikes inside it, because the others would hang."""
        if self.ranks.size == 1:
            yield
            return
        with self.interruption.between_steps():
            yield

    @contextlib.contextmanager
    def of_updates(self) -> Iterator[None]:
        """Around the updates: a signal waits for the end of the one that runs."""
        with self.interruption.between_steps():
            yield

    def agreed(self) -> bool:
        """Whether any rank was asked to stop; the same answer on all. A collective: every rank calls it."""
        asked = torch.tensor([float(self.interruption.error is not None)])
        return bool(self.ranks.sum(asked).item())

    def error(self, *, updates: int, checkpoint: Path | None) -> SeraError:
        """What this rank ends with."""
        where = f"checkpoint {checkpoint} holds {updates} updates" if checkpoint else "nothing was trained yet"
        number = self.interruption.number
        if number is None:
            return Preempted(f"stopped with the other ranks; {where}", hint=HINT)
        self.interruption.error = stop_error(number, kept=where)  # says more than the one that the signal left
        return self.interruption.error
