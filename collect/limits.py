"""The limits of a command line: `--prices`, `--max-cost`, `--max-labels`.

Invariant: a limit in money without prices is refused; a job that a limit ended says how it goes on and exits with 3,
not with 75, because the same command again would end at once.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from sera_data.errors import UsageError

if TYPE_CHECKING:
    from collect.spending import Limits


def read_limits(prices: Path | None, *, max_cost: float | None, max_labels: int | None = None) -> Limits | None:
    """The limits of a command, None when it has none; UsageError for what is no limit."""
    from collect.spending import Limits
    from sera_data.prices import read_prices

    if max_cost is not None and not (math.isfinite(max_cost) and max_cost > 0):
        msg = f"--max-cost wants an amount above 0, got {max_cost}"
        raise UsageError(msg)
    if max_labels is not None and max_labels < 1:
        msg = f"--max-labels wants a number of votes above 0, got {max_labels}"
        raise UsageError(msg)
    if max_cost is not None and prices is None:
        msg = "--max-cost needs to know what tokens cost"
        raise UsageError(msg, hint="--prices FILE; docs/roles.md shows one")
    if prices is None and max_labels is None:
        return None
    return Limits(None if prices is None else read_prices(prices), max_cost, max_labels)


def raise_when_stopped(stopped: str | None) -> None:
    """Raise LimitReached with what a job says of the limit that ended it; nothing when none did."""
    from collect.spending import LimitReached

    if stopped is not None:
        raise LimitReached(stopped, hint="the same command with a higher limit goes on in the same store")
