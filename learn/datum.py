"""A datum: one training sequence, the form in which credit reaches the loss.

Invariant: `token_ids` is exactly what the engine saw, prompt and completions concatenated, cut after the last trained
token. `trained[t]` says that token t is predicted (from position t - 1) and credited; position 0 is never trained,
because nothing predicts it. Every per-token array has the length of `token_ids`; where `trained` is false, `logprobs`
and `advantages` are 0 and `versions` is -1. `learn.sequence.build_datums` makes them from credit rows; `weigh` in
`learn.depth_weights` applies the depth weights to a whole batch. Packing reads a datum as `runs`, because trained
tokens lie in few long runs; `learn.excerpt` has datums that hold nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.words import Stage
from sera_data.errors import StoreError


class Runs(NamedTuple):
    """The n trained tokens of a datum in order, as r runs of one advantage each.

    starts, lengths: int64[r], where a run starts in the datum and how many tokens it has. advantages: float32[r].
    logprobs: float32[n], of every trained token.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    advantages: NDArray[np.float32]
    logprobs: NDArray[np.float32]


def places(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], kind: type[np.int32] | type[np.int64] = np.int64
) -> NDArray[Any]:
    """kind[n]: start, start + 1, ... of every run, one run after the other."""
    found = (starts - lengths.cumsum() + lengths).astype(kind).repeat(lengths)
    found += counting(len(found), kind)
    return found


def counting(n: int, kind: type[np.int32] | type[np.int64] = np.int64) -> NDArray[Any]:
    """0 to n - 1, of that kind, read-only: made once for many."""
    return _counted(1 << n.bit_length(), np.dtype(kind))[:n]


@lru_cache(maxsize=64)
def _counted(n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    made = np.arange(n, dtype=kind)
    made.flags.writeable = False
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Datum:
    """One training sequence of L tokens.

    datum_id: stable id, '<trajectory_id>@<stage>.<n>', n counting the sequences of the trajectory from 0.
    trajectory_id: node_id, or rubric_id in the rubric stage. group_id: 'epoch/task_id'. depth: of the trajectory.
    token_ids: int32[L]. trained: bool[L], token t is a target. logprobs: float32[L], stored natural-log
    probability of a trained token under the distribution it was sampled from. advantages: float32[L], advantage of a
    trained token. versions: int32[L], policy version that sampled a trained token. policy_version: the one version
    of all trained tokens. n_parts: what the depth weights count, 1, or the delegating turns of a delegation datum.
    """

    datum_id: str
    stage: Stage
    trajectory_id: str
    group_id: str
    depth: int
    token_ids: NDArray[np.int32]
    trained: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    advantages: NDArray[np.float32]
    versions: NDArray[np.int32]
    policy_version: int
    n_parts: int = 1

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            msg = f"datum {self.datum_id}: {fault}"
            raise StoreError(msg)

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def n_trained(self) -> int:
        """Number of trained tokens: this datum's part of N, the denominator of the token mean."""
        return int(self.trained.sum())

    def runs(self) -> Runs:
        """The trained tokens, where packing finds them."""
        at = np.flatnonzero(self.trained)
        paid = self.advantages[at]
        bits = paid.view(np.int32)  # equal to the bit: what is made of runs is what was put in
        breaks = (np.diff(at) != 1) | (bits[1:] != bits[:-1])
        heads = np.flatnonzero(np.concatenate([[True], breaks]))
        return Runs(at[heads], np.diff(heads, append=len(at)), paid[heads], self.logprobs[at])

    def payable(self) -> NDArray[np.float32]:
        """The advantages as they are kept: some numbers in order, finite."""
        return self.advantages

    def repaid(self, payable: NDArray[np.float32]) -> Datum:
        """The same datum with other numbers in place of `payable`, finite and 0 where the old ones are."""
        fields = {name: getattr(self, name) for name in FIELDS}
        return checked_as_a_whole(**{**fields, "advantages": payable})

    def _fault(self) -> str | None:
        length = len(self.token_ids)
        arrays = {
            "token_ids": (self.token_ids, np.int32),
            "trained": (self.trained, np.bool_),
            "logprobs": (self.logprobs, np.float32),
            "advantages": (self.advantages, np.float32),
            "versions": (self.versions, np.int32),
        }
        for name, (array, kind) in arrays.items():
            if array.shape != (length,) or array.dtype != kind:
                return f"{name} must be {np.dtype(kind).name}[{length}], got {array.dtype}{list(array.shape)}"
        if length < 2 or self.trained[0] or not self.trained[-1]:
            return "needs at least two tokens, an untrained first and a trained last token"
        if not (np.isfinite(self.logprobs).all() and np.isfinite(self.advantages).all()):
            return "logprobs and advantages must be finite"
        if (self.versions[self.trained] != self.policy_version).any():
            found = sorted(set(self.versions[self.trained].tolist()))
            return f"trained tokens must be of policy_version {self.policy_version}, got versions {found}"
        rest = ~self.trained
        if self.logprobs[rest].any() or self.advantages[rest].any() or (self.versions[rest] != -1).any():
            return "untrained tokens must have logprob 0, advantage 0 and version -1"
        return None


FIELDS = tuple(Datum.__dataclass_fields__)


def checked_as_a_whole(**fields: Any) -> Datum:
    """A datum whose arrays were checked together with those of others: the invariant is not looked at again."""
    made = object.__new__(Datum)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
