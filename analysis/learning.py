"""The learning table: one row per epoch with success, mixed share, pair accuracy, hinge and updates per stage.

Invariant: pair accuracy and hinge are the audit's own slices by epoch, not written a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.metrics import METRICS
from analysis.query import counted, rows
from analysis.results import Epoch, Estimate, Slice, StageUpdates
from schemas.words import STAGES

if TYPE_CHECKING:
    import duckdb


def epochs(con: duckdb.DuckDBPyConnection, slices: Sequence[Slice]) -> list[Epoch]:
    """Every epoch that has trees or updates, in order; `slices` are the audit's."""
    trees = {row["epoch"]: row for row in counted(con, "epoch_trees")}
    steps: dict[int, dict[str, StageUpdates]] = {}
    for row in rows(con, "epoch_updates"):
        epoch, stage = row.pop("epoch"), row.pop("stage")
        steps.setdefault(epoch, {})[stage] = StageUpdates(**row)
    parts = {int(part.level): part for part in slices if part.slice == "epoch"}
    return [
        Epoch(
            **(trees.get(epoch) or {"epoch": epoch}),
            pairs=parts[epoch].pairs if epoch in parts else 0,
            updates=steps.get(epoch, {}),
            pair_accuracy=_estimate("pair_accuracy", parts.get(epoch)),
            mean_hinge=_estimate("mean_hinge", parts.get(epoch)),
            calibration_error=_estimate("calibration_error", parts.get(epoch)),
        )
        for epoch in sorted({*trees, *steps, *parts})
    ]


def stages(epochs: Sequence[Epoch]) -> tuple[str, ...]:
    """Stages that a table of these epochs has columns for; joint, an update of all at once, where there is one."""
    return (*STAGES, "joint") if any("joint" in epoch.updates for epoch in epochs) else STAGES


def _estimate(name: str, part: Slice | None) -> Estimate:
    if part is not None:
        return part.metrics[name]
    return Estimate(metric=name, value=None, unit=METRICS[name].unit, note="no scored nodes in this epoch")
