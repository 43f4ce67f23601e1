"""The summary of a credit: what each stage pays, which groups can train and why the others cannot.

Invariant: counts only; nothing here changes a row. Means are over trajectories (over delegating turns in the
delegation stage), so that a long episode weighs no more than a short one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl

from learn.credit import Credit, Dropped
from schemas.words import Stage


def summarise(credit: Credit, stages: tuple[Stage, ...]) -> dict[str, Any]:
    """Plain JSON: totals, and per stage rows, tokens, groups, reasons and means by depth."""
    return {
        "method": credit.method,
        "rows": len(credit.rows),
        "groups_used": sum(len(credit.groups(stage)) for stage in stages),
        "groups_dropped": len(credit.dropped),
        "credit_sha256": credit.sha256,
        "stages": {stage: _stage(credit, stage) for stage in stages},
        "dropped": [{"stage": d.stage, "group_id": d.group_id, "reason": d.reason} for d in credit.dropped],
    }


def _stage(credit: Credit, stage: Stage) -> dict[str, Any]:
    rows = credit.rows.filter(pl.col("stage") == stage)
    used = credit.training_rows(stage, credit.groups(stage))
    dropped = [d for d in credit.dropped if d.stage == stage]
    return {
        "rows": len(rows),
        "trajectories": rows["trajectory_id"].n_unique(),
        "tokens": _tokens(rows),
        "training_tokens": _tokens(used),
        "groups_used": used["group_id"].n_unique(),
        "groups_dropped": len(dropped),
        "reasons": reasons(dropped),
        "mean_reward": _mean(rows, "reward"),
        "mean_advantage": _mean(rows, "advantage"),
        "by_depth": [_depth(rows.filter(pl.col("depth") == d), d) for d in sorted(set(rows["depth"]))],
    }


def reasons(dropped: list[Dropped]) -> dict[str, int]:
    """How many groups were dropped for each reason, most frequent first."""
    return dict(sorted(Counter(d.reason for d in dropped).items(), key=lambda item: (-item[1], item[0])))


def _depth(rows: pl.DataFrame, depth: int) -> dict[str, Any]:
    return {
        "depth": depth,
        "rows": len(rows),
        "trajectories": rows["trajectory_id"].n_unique(),
        "tokens": _tokens(rows),
        "mean_reward": _mean(rows, "reward"),
        "mean_advantage": _mean(rows, "advantage"),
        "mean_abs_advantage": _mean(rows.with_columns(pl.col("advantage").abs()), "advantage"),
    }


def _tokens(rows: pl.DataFrame) -> int:
    return int((rows["token_end"] - rows["token_start"]).sum())


def _mean(rows: pl.DataFrame, column: str) -> float | None:
    units = rows.unique(["trajectory_id", "reward", "baseline", "advantage"], maintain_order=True)
    if rows["stage"].eq("delegation").any():
        units = rows.unique("turn_id", maintain_order=True)
    value = units[column].mean()
    return None if value is None else round(float(value), 12) + 0.0  # type: ignore[arg-type]
