"""A figure with its uncertainty: low, expected and high.

Invariant: low <= expected <= high, all finite and none negative; sums and products keep the order, because every
quantity of a plan (counts, tokens, seconds, prices) grows with each of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sera_data.errors import UsageError


@dataclass(frozen=True, slots=True)
class Spread:
    """low, expected, high of one quantity; `Spread.of(x)` is exact."""

    low: float
    expected: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.expected <= self.high < float("inf"):
            msg = f"want finite 0 <= low <= expected <= high, got {self.low:g}, {self.expected:g}, {self.high:g}"
            raise UsageError(msg, hint="give one number, or three in rising order")

    @classmethod
    def of(cls, value: float | Sequence[float] | Spread) -> Spread:
        """A number (exact) or three numbers; UsageError for any other count."""
        if isinstance(value, Spread):
            return value
        if isinstance(value, (int, float)):
            return cls(float(value), float(value), float(value))
        if len(value) != 3:
            msg = f"want one number or three (low, expected, high), got {len(value)}"
            raise UsageError(msg, hint="for example 9000 or 6000,9000,12000")
        return cls(*map(float, value))

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def __mul__(self, other: Spread | float) -> Spread:
        by = Spread.of(other)
        return Spread(self.low * by.low, self.expected * by.expected, self.high * by.high)

    __rmul__ = __mul__

    def at_speed(self, rate: Spread) -> Spread:
        """Seconds for this amount at a rate per second: least at the highest rate."""
        return Spread(self.low / rate.high, self.expected / rate.expected, self.high / rate.low)

    def less(self, other: Spread) -> Spread:
        """The part that is left when `other`, a part of it, is taken away point by point."""
        parts = (self.low - other.low, self.expected - other.expected, self.high - other.high)
        low, expected, high = sorted(max(part, 0.0) for part in parts)
        return Spread(low, expected, high)

    def at_most(self, limit: float) -> Spread:
        """The same, cut at a limit."""
        return Spread(min(self.low, limit), min(self.expected, limit), min(self.high, limit))

    def body(self, digits: int = 3) -> dict[str, float]:
        """As plain JSON."""
        return {name: round(getattr(self, name), digits) for name in ("low", "expected", "high")}


NOTHING = Spread(0.0, 0.0, 0.0)


def total(parts: Sequence[Spread]) -> Spread:
    """Sum of any number of spreads."""
    result = NOTHING
    for part in parts:
        result = result + part
    return result


def parse_spread(text: str, *, what: str) -> Spread:
    """'9000' or '6000,9000,12000'; UsageError says what was wanted."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        msg = f"{what} wants one number or three (low,expected,high), got {text!r}"
        raise UsageError(msg, hint="for example 9000 or 6000,9000,12000") from None
    return Spread.of(numbers[0] if len(numbers) == 1 else numbers)
