"""Power: the smallest difference between two methods that a comparison would see, before it is run.

Invariant: a pure function of the numbers shown beside it. What is not known yet (the spread between seeds, and of the
effect over tasks) is stated or measured from an earlier comparison; the variance within a task comes from the start
weights' samples where they are there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from learn.compare_config import START, CompareConfig
from learn.comparison_figures import Figures
from learn.contrast import smallest_effect, standard_error

SEED_SD, EFFECT_SD, WITHIN = 0.03, 0.2, 0.25
"""Assumed where nothing is measured: 3 points between seeds, 20 over tasks, and coin flips within a task."""


@dataclass(frozen=True, slots=True)
class Spreads:
    """Standard deviations as shares; `within` = mean p (1 - p) of a task."""

    seed_sd: float
    effect_sd: float
    within: float
    source: str


def spreads(figures: Figures, protocol: str, *, samples: int) -> Spreads:
    """Measured from what is done, assumed where it is not."""
    by_row = figures.success.get(protocol, {})
    within, seed_sd, effect_sd, source = WITHIN, SEED_SD, EFFECT_SD, []
    start = next(iter(by_row.get(START, {}).values()), None)
    if start and samples > 1:
        p = np.array(list(start.values()))
        within = float((p * (1 - p)).mean() * samples / (samples - 1))
        source.append("within tasks from the start weights")
    trained = {row: cells for row, cells in by_row.items() if row != START and len(cells) > 1}
    if trained:
        means = [[np.mean(list(tasks.values())) for tasks in cells.values()] for cells in trained.values()]
        noise = within / (samples * max(1, len(start or next(iter(next(iter(trained.values())).values())))))
        seed_sd = float(np.sqrt(max(0.0, np.mean([np.var(m, ddof=1) for m in means]) - noise)))
        source.append(f"between seeds from {len(trained)} methods")
    return Spreads(seed_sd, effect_sd, within, "; ".join([*source, "the rest assumed"]))


def power_table(config: CompareConfig, figures: Figures, *, tasks: int, chance: float = 0.8) -> dict[str, Any]:
    """Smallest effect by number of seeds, for the first protocol."""
    protocol, measured = next(iter(config.protocols.items()))
    known = spreads(figures, protocol, samples=measured.samples)
    n_tasks = min(tasks, measured.limit or tasks)
    rows = []
    for seeds in sorted({1, 2, 3, 5, 8, 12, len(config.seeds)}):
        error = standard_error(
            seeds=seeds, tasks=n_tasks, samples=measured.samples,
            seed_sd=known.seed_sd, effect_sd=known.effect_sd, within=known.within,
        )  # fmt: skip
        effect = smallest_effect(error, contrasts=len(config.contrasts), chance=chance)
        rows.append(
            {"seeds": seeds, "standard_error": error, "smallest_effect": effect, "planned": seeds == len(config.seeds)}
        )
    return {
        "protocol": protocol,
        "tasks": n_tasks,
        "samples": measured.samples,
        "contrasts": len(config.contrasts),
        "chance": chance,
        "spreads": asdict(known),
        "rows": rows,
    }
