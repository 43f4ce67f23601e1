"""The processes of a learn phase: rank, world size, device, and the few collectives the learner needs.

Invariant: the same code runs alone, under torchrun and under the deepspeed launcher; no op of DeepSpeed is ever
compiled on the fly; nothing is printed on stdout by a library.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from sera_data.errors import SeraError

SETTLE_S = 0.2


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among all of them."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """True for the one process that writes."""
        return self.rank == 0

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum over ranks."""
        return self._reduce(tensor, torch.distributed.ReduceOp.SUM)

    def max(self, tensor: torch.Tensor) -> torch.Tensor:
        """Maximum over ranks."""
        return self._reduce(tensor, torch.distributed.ReduceOp.MAX)

    def gather(self, items: list[str]) -> list[str]:
        """The items of all ranks, in the order of ranks; every rank calls this."""
        if self.size == 1:
            return items
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, items)
        return [item for part in found for item in part]

    def gather_numbers(self, numbers: torch.Tensor) -> torch.Tensor:
        """The numbers [n] of all ranks, in the order of ranks; every rank calls this, n may differ."""
        if self.size == 1:
            return numbers
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, numbers.cpu())
        return torch.cat(found)

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.size > 1:
            torch.distributed.barrier()

    def require_same(self, text: str, *, what: str) -> None:
        """Raise SeraError on every rank unless all ranks hold the same text."""
        if self.size == 1:
            return
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, text)
        if len(set(found)) > 1:
            msg = f"the ranks disagree on {what}: {sorted(set(found))}"
            raise SeraError(msg, hint="all ranks must see the same store, configuration and code")

    def _reduce(self, tensor: torch.Tensor, op: Any) -> torch.Tensor:
        if self.size == 1:
            return tensor
        moved = tensor.to(self.device)
        torch.distributed.all_reduce(moved, op=op)
        return moved.to(tensor.device)


def join(*, threads: int = 1) -> Ranks:
    """Join the process group that the launcher describes, or be the only process."""
    cuda = torch.cuda.is_available()
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # DeepSpeed compiles a function when it is imported
        torch.set_num_threads(threads)
    deepspeed = import_deepspeed()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if not torch.distributed.is_initialized():
        backend = "nccl" if cuda else "gloo"
        if "RANK" not in os.environ:
            _be_alone(backend)
        deepspeed.init_distributed(dist_backend=backend, verbose=False)
    return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size(), device)


def _be_alone(backend: str) -> None:
    """A group of one. It meets in memory: a port that was free a moment ago may be another process's by now."""
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed reads this one later
    torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)


def leave() -> None:
    """Close the process group, if there are others in it; a group of one ends with its process.

    DeepSpeed keeps groups of its own, so a closed one could not be joined again in the same process.
    """
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        # gloo's threads let go of the last tensors a moment after the call is over, which takes the interpreter's lock:
        # one that still waits for it when the interpreter ends aborts the process, and all was done for nothing
        time.sleep(SETTLE_S)
        torch.distributed.destroy_process_group()


def import_deepspeed() -> Any:
    """DeepSpeed with its messages on stderr, from warnings on, and without any op that it would compile."""
    import deepspeed

    # DeepSpeed calls collectives by names that torch is about to rename; nothing a user could act on
    warnings.filterwarnings("ignore", message=r"`torch\.distributed\.", category=FutureWarning)
    logger = logging.getLogger("DeepSpeed")
    logger.setLevel(logging.WARNING)
    for handler in logger.handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)
    # No compiled op at all: gloo does the same collectives, the build takes minutes, a killed build blocks all later
    # ones, and even asking which ops could be built runs a compiler.
    vars(deepspeed.ops)["__compatible_ops__"] = {}
    return deepspeed
