"""Rates from rows: errors apart and as failures, breakdowns, seeds, success@k; intervals against scipy."""

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from collect.intervals import student_t, wilson
from collect.rates import breakdown, over_seeds, rates, spread, success_at_ks


def row(task, success, *, sample=0, difficulty="easy", **more):
    return {"task_id": task, "sample": sample, "success": success, "difficulty": difficulty, "family": None,
            "true_depth": 2, "max_depth": 1, **more}  # fmt: skip


@pytest.mark.parametrize("df", [*range(1, 12), 30, 99])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_student_t_equals_scipy(df, confidence):
    assert student_t(df, confidence=confidence) == pytest.approx(stats.t.ppf(0.5 + confidence / 2, df), rel=1e-9)


def test_three_seeds_have_mean_sd_and_the_t_interval_of_scipy():
    body = spread([0.70, 0.72, 0.77])
    low, high = stats.t.interval(0.95, 2, loc=fmean([0.70, 0.72, 0.77]), scale=stats.sem([0.70, 0.72, 0.77]))
    assert (body["mean"], body["sd"]) == (fmean([0.70, 0.72, 0.77]), stdev([0.70, 0.72, 0.77]))
    assert body["interval"] == pytest.approx([low, high])
    assert spread([0.5, None])["sd"] is None
    assert spread([None])["mean"] is None


def test_errors_are_failures_in_one_rate_and_absent_from_the_other():
    body = rates([row("a", True), row("b", False), row("c", None), row("d", None)])
    assert (body["success"], body["benchmark_success"], body["errors"], body["trees"]) == (0.5, 0.25, 2, 2)
    assert body["wilson"] == [wilson(1, 2).low, wilson(1, 2).high]
    assert body["benchmark_wilson"] == [wilson(1, 4).low, wilson(1, 4).high]
    empty = rates([row("a", None)])
    assert (empty["success"], empty["benchmark_success"], empty["bootstrap"]) == (None, 0.0, [None, None])


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([True, False, None])), min_size=1, max_size=40))
def test_a_breakdown_adds_up_to_the_whole(pairs):
    rows = [row(task, success, difficulty=task) for task, success in pairs]
    whole, parts = rates(rows), breakdown(rows, "difficulty")
    for key in ("trees", "successes", "errors", "tasks"):
        assert sum(part[key] for part in parts.values()) == whole[key]
    low, high = whole["benchmark_wilson"]
    assert low <= whole["benchmark_success"] + 1e-12
    assert whole["benchmark_success"] <= high + 1e-12
    assert breakdown(rows, "family") == {}


def test_levels_come_in_natural_order():
    rows = [row("a", True, true_depth=10), row("b", True, true_depth=2), row("c", True, true_depth=None)]
    assert list(breakdown(rows, "true_depth")) == ["2", "10"]


def test_seeds_are_averaged_and_tasks_pooled():
    runs = [[row("a", True), row("b", seed > 0), row("c", None)] for seed in range(3)]
    body = over_seeds(runs)
    assert body["runs"] == 3
    assert body["success"]["values"] == [0.5, 1.0, 1.0]
    assert body["success"]["mean"] == pytest.approx(5 / 6)
    assert body["benchmark_success"]["values"] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert (body["errors"], body["by_difficulty"]["easy"]["mean"]) == (3, pytest.approx(5 / 6))
    assert over_seeds(runs[:1])["success"]["interval"] is None


def test_success_at_k_goes_to_the_fewest_judged_samples():
    rows = [row(task, sample == 0, sample=sample) for task in "ab" for sample in range(4)]
    assert success_at_ks(rows) == {"1": 0.25, "2": 0.5, "4": 1.0}
    assert success_at_ks([*rows, row("c", True)]) == {"1": pytest.approx(0.5)}
    assert success_at_ks([]) == {}
    assert not math.isnan(success_at_ks(rows)["2"])
