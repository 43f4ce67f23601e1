"""Processes that train one pocket policy together: each takes its rows of every batch, gradients are summed.

Two threads of one process meet in every small operation, two processes of one thread each once a step.

Invariant: after a step all ranks hold the same weights, those of one process up to rounding; what one rank alone would
decide by its clock, rank 0 decides for all. A rank that is lost ends the others with an error; the checkpoint stays.

Run: ``sera pocket build --out DIR --threads 2``.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.distributed import FileStore, ProcessGroupGloo

from sera_data.errors import SeraError

Row = TypeVar("Row")


class RankLost(SeraError):
    """Another process of the training has ended."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that train; the default is one process alone, which exchanges nothing.

    group: how it reaches the others. It is a group of its own: whether the process has a default one does not matter.
    """

    rank: int = 0
    size: int = 1
    group: Any = None

    @property
    def first(self) -> bool:
        """Whether this is the process that reports and writes checkpoints."""
        return self.rank == 0

    def rows(self, batch: Sequence[Row]) -> Sequence[Row]:
        """The rows of a batch that are this rank's; none, if there are more ranks than rows."""
        return batch[self.rank :: self.size]

    def agreed(self, value: float) -> float:
        """The value of rank 0."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        with _lost():
            self.group.broadcast(shared, 0).wait()
        return float(shared)

    def add(self, parameters: Iterable[torch.nn.Parameter], figures: Sequence[float]) -> list[float]:
        """Sum the gradients of all ranks in place, and return the sums of `figures`; no gradient counts as 0."""
        if self.size == 1:
            return list(figures)
        trained = list(parameters)
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        grads = [parameter.grad for parameter in trained if parameter.grad is not None]
        flat = torch.cat([*(grad.flatten() for grad in grads), torch.tensor(figures)])
        with _lost():
            self.group.allreduce([flat]).wait()
        *summed, sums = flat.split([*(grad.numel() for grad in grads), len(figures)])
        for grad, total in zip(grads, summed, strict=True):
            grad.copy_(total.view_as(grad))
        return sums.tolist()


@contextmanager
def together(size: int, work: Callable[[Ranks], None]) -> Iterator[Ranks]:
    """Rank 0 for this process, while `size` - 1 spawned ones run `work(ranks)`; they end with the block."""
    if size == 1:
        yield Ranks()
        return
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        others = [context.Process(target=_follow, args=(rank, size, meeting, work)) for rank in range(1, size)]
        for process in others:
            process.daemon = True
            process.start()
        try:
            yield _meet(0, size, meeting)
        finally:
            for process in others:
                process.terminate()
                process.join()


def _follow(rank: int, size: int, meeting: Path, work: Callable[[Ranks], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 hears Ctrl-C and ends this one
    torch.set_num_threads(1)
    try:
        work(_meet(rank, size, meeting))
    except RankLost:
        os._exit(1)  # the one that is gone was rank 0 or has told why itself


def _meet(rank: int, size: int, meeting: Path) -> Ranks:
    patience = timedelta(minutes=5)  # to start, and for a step; the default is half an hour
    with _lost():
        return Ranks(rank, size, ProcessGroupGloo(FileStore(str(meeting), size), rank, size, patience))


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        msg = f"a process of the training has ended: {error}"
        raise RankLost(msg, hint="the last checkpoint is whole: run the same command again") from error
