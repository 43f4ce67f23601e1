"""Depth weights: the golden vector, the sum over a batch, the clip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learn.datum import Datum
from learn.depth_rule import DepthRule
from learn.depth_weights import batch_weights, depth_weights, weigh


def datum(name: str, depth: int, advantage: float = 1.0, n_parts: int = 1, part: int = 0) -> Datum:
    return Datum(
        datum_id=f"{name}@execution.{part}",
        stage="execution",
        trajectory_id=name,
        group_id="3/a",
        depth=depth,
        token_ids=np.array([1, 2, 3], np.int32),
        trained=np.array([False, False, True]),
        logprobs=np.array([0, 0, -1], np.float32),
        advantages=np.array([0, 0, advantage], np.float32),
        versions=np.array([-1, -1, 0], np.int32),
        policy_version=0,
        n_parts=n_parts,
    )


def test_golden_weights():
    got = depth_weights({0: 70, 1: 130, 2: 30, 3: 2}, {0: 64, 1: 120, 2: 30, 3: 2})
    assert got == {
        0: pytest.approx(0.8678304, abs=1e-7),
        1: pytest.approx(0.4628429, abs=1e-7),
        2: pytest.approx(1.8513716, abs=1e-7),
        3: pytest.approx(27.7705736, abs=1e-7),
    }


def test_the_batch_counts_distinct_trajectories_and_parts():
    batch = [datum("a", 0), datum("a", 0, part=1), datum("b", 0), datum("c", 1, n_parts=3)]
    assert batch_weights(batch) == depth_weights({0: 3, 1: 3}, {0: 2, 1: 1})


def test_one_depth_changes_nothing():
    batch = [datum("a", 2, 0.3), datum("b", 2, -0.7)]
    for before, after in zip(batch, weigh(batch), strict=True):
        assert after.advantages.tolist() == before.advantages.tolist()


def test_weighted_advantages_are_cut_at_twenty():
    batch = [datum(f"n{i}", 0, 1.0) for i in range(100)] + [datum("deep", 3, -1.0)]
    out = weigh(batch)
    assert out[-1].advantages.tolist() == [0, 0, -20.0]
    assert out[0].advantages[2] == pytest.approx(101 / 200)
    assert weigh(batch, clip=1000.0)[-1].advantages[2] == pytest.approx(-50.5)
    assert batch[-1].advantages[2] == -1.0, "the datums given are not changed"


def test_depths_without_trajectories_and_empty_batches():
    assert depth_weights({}, {}) == {}
    assert depth_weights({0: 2}, {0: 0}) == {0: 0.0}
    assert weigh([]) == []
    with pytest.raises(ValueError, match="0 or more"):
        depth_weights({0: -1}, {0: 1})


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=40))
def test_the_weights_of_all_parts_sum_to_their_number(parts):
    batch = [
        replace(datum(f"n{depth}-{name}", depth, n_parts=n), datum_id=str(index))
        for index, (depth, name, n) in enumerate(parts)
    ]
    weights = batch_weights(batch)
    total = sum(d.n_parts for d in batch)
    assert sum(weights[d.depth] * d.n_parts for d in batch) == pytest.approx(total)


def test_gamma_weights_by_depth_alone():
    got = depth_weights({0: 2, 1: 2, 2: 1}, {0: 2, 1: 1}, rule=DepthRule(rule="gamma", gamma=0.5))
    total = 2 * 1 + 2 * 0.5 + 1 * 0.25
    assert got == {d: pytest.approx(0.5**d * 5 / total) for d in (0, 1, 2)}
    assert depth_weights({0: 2, 3: 9}, {0: 1, 3: 9}, rule=DepthRule(rule="none")) == {0: 1.0, 3: 1.0}


def test_a_cap_bounds_the_ratio_of_weights_and_keeps_their_sum():
    parts, trajectories = {0: 70, 1: 130, 2: 30, 3: 2}, {0: 64, 1: 120, 2: 30, 3: 2}
    got = depth_weights(parts, trajectories, rule=DepthRule(cap=4.0))
    assert got[3] == got[2] == pytest.approx(4 * got[1])
    assert got[0] == pytest.approx(got[1] * 120 / 64)
    assert sum(got[d] * parts[d] for d in parts) == pytest.approx(232)
    assert depth_weights(parts, trajectories, rule=DepthRule(cap=1000)) == depth_weights(parts, trajectories)


def test_a_batch_is_weighed_by_the_rule_given():
    batch = [datum(f"n{i}", 0, 1.0) for i in range(100)] + [datum("deep", 3, 1.0)]
    out = weigh(batch, rule=DepthRule(cap=2.0))
    assert out[-1].advantages[2] == pytest.approx(2 * float(out[0].advantages[2]))
