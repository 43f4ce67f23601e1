"""The summary of a credit: what each stage pays, which groups can train and why the others cannot.

Invariant: counts only; nothing here changes a row. Means are over trajectories (over delegating turns in the
delegation stage), so that a long episode weighs no more than a short one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from learn.credit import Credit, Dropped
from learn.registered import Registered, query
from schemas.words import Stage


def summarise(credit: Credit, stages: tuple[Stage, ...]) -> dict[str, Any]:
    """Plain JSON: totals, and per stage rows, tokens, groups, reasons and means by depth."""
    lines = _lines(credit)
    return {
        "method": credit.method,
        "rows": sum(line["n_rows"] for line in lines if line["depth"] is None),
        "groups_used": sum(len(credit.groups(stage)) for stage in stages),
        "groups_dropped": len(credit.dropped),
        "credit_sha256": credit.sha256,
        "stages": {stage: _stage(credit, stage, [x for x in lines if x["stage"] == stage]) for stage in stages},
        "dropped": [{"stage": d.stage, "group_id": d.group_id, "reason": d.reason} for d in credit.dropped],
    }


def _lines(credit: Credit) -> list[dict[str, Any]]:
    groups = [(stage, group) for stage, ids in credit.kept.items() for group in ids]
    wanted = pa.table(
        {
            "stage": pa.array([stage for stage, _ in groups], pa.string()),
            "group_id": pa.array([group for _, group in groups], pa.string()),
        }
    )
    with Registered(credit.connection, "wanted_groups", wanted):
        relation = credit.connection.sql(query("credit_summary"))
        return relation.to_arrow_table().to_pylist()


def _stage(credit: Credit, stage: Stage, lines: list[dict[str, Any]]) -> dict[str, Any]:
    whole = next((line for line in lines if line["depth"] is None), None) or {}
    dropped = [d for d in credit.dropped if d.stage == stage]
    return {
        "rows": whole.get("n_rows", 0),
        "trajectories": whole.get("trajectories", 0),
        "tokens": whole.get("tokens", 0),
        "training_tokens": whole.get("training_tokens", 0),
        "groups_used": len(credit.groups(stage)),
        "groups_dropped": len(dropped),
        "reasons": reasons(dropped),
        "mean_reward": _rounded(whole.get("mean_reward")),
        "mean_advantage": _rounded(whole.get("mean_advantage")),
        "by_depth": [_depth(line) for line in lines if line["depth"] is not None],
    }


def reasons(dropped: list[Dropped]) -> dict[str, int]:
    """How many groups were dropped for each reason, most frequent first."""
    return dict(sorted(Counter(d.reason for d in dropped).items(), key=lambda item: (-item[1], item[0])))


def _depth(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "depth": line["depth"],
        "rows": line["n_rows"],
        "trajectories": line["trajectories"],
        "tokens": line["tokens"],
        "mean_reward": _rounded(line["mean_reward"]),
        "mean_advantage": _rounded(line["mean_advantage"]),
        "mean_abs_advantage": _rounded(line["mean_abs_advantage"]),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 12) + 0.0
