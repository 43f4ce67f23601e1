"""What a job may spend: the price of its calls and the votes of its judge, counted as they are made.

Invariant: no call is made once a limit is reached, and a unit starts only when what is spent, the units in flight and
it itself are expected to fit, by the mean of the units that are done; so a limit ends a job between units, and only a
unit that costs much more than those before it is given up half way. Limits are no part of a configuration: a job that
was stopped goes on under a higher limit as the same run.

Run: ``sera collect ... --prices prices.yaml --max-cost 5 --max-labels 2000``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sera_data.errors import GateFailed
from sera_data.prices import Price, Prices

if TYPE_CHECKING:
    from sera_data.store import Store


class LimitReached(GateFailed):
    """A limit that was set ended the job; what is committed stays, a higher limit goes on."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Money in the price file's currency, and votes of a judge."""

    cost: float = 0.0
    labels: int = 0

    def plus(self, other: Amount, times: float = 1.0) -> Amount:
        """Sum with `times` the other."""
        return Amount(self.cost + times * other.cost, self.labels + round(times * other.labels))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may spend at most, None = no limit, and the prices by which its calls are counted."""

    prices: Prices | None = None
    max_cost: float | None = None
    max_labels: int | None = None

    def exceeded_by(self, amount: Amount) -> str | None:
        """The limit that the amount goes beyond, in words, or None."""
        if self.max_cost is not None and amount.cost > self.max_cost:
            return f"--max-cost {self.max_cost:g}"
        if self.max_labels is not None and amount.labels > self.max_labels:
            return f"--max-labels {self.max_labels}"
        return None

    def reached_by(self, amount: Amount) -> str | None:
        """The same for a limit that is used up."""
        if self.max_cost is not None and amount.cost >= self.max_cost:
            return f"--max-cost {self.max_cost:g}"
        if self.max_labels is not None and amount.labels >= self.max_labels:
            return f"--max-labels {self.max_labels}"
        return None

    def price(self, model: str, role: str) -> Price | None:
        """The price of a model in a role, None without one."""
        return None if self.prices is None else self.prices.of(model, role)


class Spending:
    """The meter of one process.

    before: what the run has spent already on `weight` trees or votes, as the store says.
    """

    def __init__(self, limits: Limits, *, before: Amount | None = None, weight: int = 0) -> None:
        self.limits = limits
        self.before = before or Amount()
        self.called = Amount()
        self.stopped_by: str | None = None
        self._done, self._weight_done, self._weight_in_flight = Amount(), weight, 0
        self._moved = asyncio.Event()

    @property
    def spent(self) -> Amount:
        """What the run has spent: before, and by calls of this process, committed or not."""
        return self.before.plus(self.called)

    @property
    def lost(self) -> Amount:
        """Of it what went into units that are not done."""
        return self.called.plus(self._done, -1.0)

    def charge(self, amount: Amount) -> None:
        """Count a call that was made."""
        self.called = self.called.plus(amount)

    def require_room(self) -> None:
        """Raise LimitReached when nothing more may be called."""
        name = self.limits.reached_by(self.spent)
        if name is not None:
            self.stopped_by = name
            msg = f"{name} is reached"
            raise LimitReached(msg)

    async def admit(self, weight: int) -> bool:
        """Whether a unit of `weight` trees or votes may start; waits while units in flight may tell. False: stop."""
        while True:
            name = self._over(weight)
            if name is None:
                self._weight_in_flight += weight
                return True
            if not self._weight_in_flight:
                self.stopped_by = name
                return False
            self._moved.clear()
            await self._moved.wait()

    def finish(self, weight: int, amount: Amount) -> None:
        """Count a unit that is done with what its rows say it cost."""
        self._done = self._done.plus(amount)
        self._weight_done += weight
        self._weight_in_flight -= weight
        self._moved.set()

    def _over(self, weight: int) -> str | None:
        used = self.limits.reached_by(self.spent)
        if used is not None or (self.limits.max_cost is None and self.limits.max_labels is None):
            return used
        if not self._weight_done:  # the first unit shows what one costs
            return "the first unit" if self._weight_in_flight else None
        known = self.before.plus(self._done)
        return self.limits.exceeded_by(known.plus(known, (self._weight_in_flight + weight) / self._weight_done))

    def message(self) -> str:
        """How the job ended and how it goes on."""
        unit = self.limits.prices.currency if self.limits.prices is not None else ""
        spent = self.spent
        parts = [f"{spent.cost:.4g} {unit} spent"] if self.limits.prices is not None else []
        parts += [f"{spent.labels} votes given"] if spent.labels or self.limits.max_labels is not None else []
        lost = self.lost
        if lost.cost > 1e-12 or lost.labels > 0:
            parts.append(f"of it {lost.cost:.4g} {unit} and {lost.labels} votes in units that were given up".strip())
        return f"stopped at {self.stopped_by}: {', '.join(parts)}; finished units are committed"


def amount_of(rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> Amount:
    """What rows say they cost, and the judge's votes among them."""
    labels = list(rows.get("labels", ()))
    cost = sum(row.get("cost") or 0.0 for row in (*rows.get("turns", ()), *labels))
    return Amount(cost, sum(row["kind"] == "judge" for row in labels))


def spent_before(store: Store, run_id: str, *, epochs: list[int] | None = None) -> Amount:
    """What the committed rows of a run say it has spent."""
    statement = files("collect").joinpath("sql", "spent.sql").read_text(encoding="utf-8")
    connection = store.connect(epochs=epochs, queries=[statement])
    try:
        cost, labels = connection.execute(statement, {"run_id": run_id, "epochs": epochs}).fetchone() or (0.0, 0)
    finally:
        connection.close()
    return Amount(float(cost), int(labels))
