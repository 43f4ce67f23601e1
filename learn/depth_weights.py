"""Depth weights: each depth of a batch gets its share, however few trajectories live there.

Invariant: the weights belong to one global batch after selection and are never stored; the sum of weight over
datums equals the number of datums (SERA paper, arXiv 2610.04902).

    raw_d = 1 / T_d,   w_d = raw_d * (sum_d D_d) / (sum_d D_d * raw_d)          (learn/queries/depth_weights.sql)

T_d counts the distinct trajectories at depth d, D_d the parts: a training sequence, or in the delegation stage each
delegating turn of a sequence. A trained token's advantage becomes clip(w_d * A, -clip, clip).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from learn.datum import Datum
from learn.depth_rule import DepthRule
from learn.registered import Registered, query, scratch

CLIP = 20.0
PUBLISHED = DepthRule()


def depth_weights(
    parts: Mapping[int, int], trajectories: Mapping[int, int], *, rule: DepthRule = PUBLISHED
) -> dict[int, float]:
    """w_d per depth from D_d (`parts`) and T_d (`trajectories`); a depth without trajectories gets weight 0."""
    if any(count < 0 for count in (*parts.values(), *trajectories.values())):
        msg = f"counts must be 0 or more, got parts {dict(parts)}, trajectories {dict(trajectories)}"
        raise ValueError(msg)
    depths = sorted({*parts, *trajectories})
    table = pa.table(
        {
            "depth": pa.array(depths, pa.int32()),
            "parts": pa.array([parts.get(d, 0) for d in depths], pa.int64()),
            "trajectories": pa.array([trajectories.get(d, 0) for d in depths], pa.int64()),
        }
    )
    connection = scratch()
    with Registered(connection, "depths", table):
        return dict(connection.execute(query("depth_weights"), rule.model_dump()).fetchall())


def batch_weights(datums: Sequence[Datum], *, rule: DepthRule = PUBLISHED) -> dict[int, float]:
    """w_d of one global batch of datums."""
    parts: dict[int, int] = defaultdict(int)
    owners: dict[int, set[str]] = defaultdict(set)
    for datum in datums:
        parts[datum.depth] += datum.n_parts
        owners[datum.depth].add(datum.trajectory_id)
    return depth_weights(parts, {depth: len(ids) for depth, ids in owners.items()}, rule=rule)


def weigh(datums: Sequence[Datum], *, clip: float = CLIP, rule: DepthRule = PUBLISHED) -> list[Datum]:
    """The same datums with advantages times their depth's weight, cut to [-clip, clip]."""
    weights = batch_weights(datums, rule=rule)
    return times(datums, [weights[datum.depth] for datum in datums], clip=clip)


def times(datums: Sequence[Datum], factors: Sequence[float], *, clip: float = np.inf) -> list[Datum]:
    """The same datums with advantages times a factor each, in fp32, cut to [-clip, clip]."""
    if not datums:
        return []
    parts = [datum.payable() for datum in datums]
    sizes = [len(part) for part in parts]
    old = np.concatenate(parts)
    new = old * np.repeat(np.array(factors, np.float32), sizes)
    np.clip(new, -clip, clip, out=new)
    if np.array_equal(new, old):  # one depth: every weight is 1
        return list(datums)
    ends = accumulate(sizes)
    return [datum.repaid(new[end - size : end]) for datum, size, end in zip(datums, sizes, ends, strict=True)]
