"""An excerpt: a datum that is nothing but views of the flat arrays it was read into.

Invariant: every field equals that of the datum with an array a token, which is made when a field is asked for and not
kept. What training reads, `token_ids` and `runs`, is there without a copy: 4 bytes a token and 4 a trained one, where
those arrays take 17 a token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learn.datum import FIELDS, Datum, Runs, places


class Excerpt(Datum):
    """A datum by its runs. Made by `excerpts`, from arrays that were checked together with those of others."""

    __slots__ = ("_runs",)
    _runs: Runs

    @property
    def n_trained(self) -> int:
        """Number of trained tokens."""
        return len(self._runs.logprobs)

    def runs(self) -> Runs:
        """The trained tokens, as they were read."""
        return self._runs

    def payable(self) -> NDArray[np.float32]:
        """float32[r]: the advantage of each run."""
        return self._runs.advantages

    def repaid(self, payable: NDArray[np.float32]) -> Datum:
        """The same excerpt with other advantages of its runs."""
        made = object.__new__(Excerpt)
        for give, take in _KEPT:
            take(made, give(self))
        starts, lengths, _, logprobs = self._runs
        _TAKE_RUNS(made, Runs(starts, lengths, payable, logprobs))
        return made

    @property
    def trained(self) -> NDArray[np.bool_]:  # type: ignore[override, unused-ignore]
        """bool[L]."""
        return self._spread(np.ones(self.n_trained, np.bool_), rest=False)

    @property
    def logprobs(self) -> NDArray[np.float32]:  # type: ignore[override, unused-ignore]
        """float32[L]."""
        return self._spread(self._runs.logprobs, rest=0)

    @property
    def advantages(self) -> NDArray[np.float32]:  # type: ignore[override, unused-ignore]
        """float32[L]."""
        return self._spread(np.repeat(self._runs.advantages, self._runs.lengths), rest=0)

    @property
    def versions(self) -> NDArray[np.int32]:  # type: ignore[override, unused-ignore]
        """int32[L]."""
        return self._spread(np.full(self.n_trained, self.policy_version, np.int32), rest=-1)

    def _spread(self, values: NDArray[Any], *, rest: float) -> NDArray[Any]:
        spread = np.full(len(self.token_ids), rest, values.dtype)
        spread[places(self._runs.starts, self._runs.lengths)] = values
        return spread

    def __reduce__(self) -> tuple[type[Datum], tuple[Any, ...]]:
        """Copied and sent as the datum with an array a token, without the flat arrays behind it."""
        return Datum, tuple(getattr(self, name) for name in FIELDS)


_SLOTS = {name: getattr(Datum, name) for name in FIELDS if name not in vars(Excerpt)} | {"runs": vars(Excerpt)["_runs"]}
"""What is kept: slots, which fill without the check that a datum is frozen."""
_KEPT = [(slot.__get__, slot.__set__) for name, slot in _SLOTS.items() if name != "runs"]
_TAKE_RUNS = _SLOTS["runs"].__set__


def excerpts(count: int, **columns: Iterable[Any]) -> list[Datum]:
    """Excerpts of checked arrays, `count` of them, field by field: `runs`, and those of a datum that are no array a
    token besides `token_ids`. Several times as fast as one by one."""
    made: list[Datum] = [object.__new__(Excerpt) for _ in range(count)]
    for name, values in columns.items():
        deque(map(_SLOTS[name].__set__, made, values), maxlen=0)
    return made
