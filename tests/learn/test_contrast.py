"""Contrasts: known answers, coverage and power by simulation, Holm against statsmodels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from learn.contrast import difference, holm, mean, smallest_effect, standard_error


def cells(values):
    return {s: {f"t{i}": float(v) for i, v in enumerate(row)} for s, row in enumerate(values)}


def test_a_constant_difference_has_no_spread():
    found = difference(cells([[0.5, 0.7], [0.2, 0.9]]), cells([[0.4, 0.6], [0.1, 0.8]]), resamples=500)
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.1)
    assert (found.n_seeds, found.n_tasks, found.positive) == (2, 2, 2)
    assert found.p == pytest.approx(2 / 501)


def test_tasks_are_paired_and_only_shared_ones_count():
    better = {1: {"a": 1.0, "b": 0.0, "c": 1.0}}
    worse = {1: {"a": 0.0, "b": 0.0}}
    found = difference(better, worse, resamples=500)
    assert found.value == pytest.approx(0.5)
    assert found.n_tasks == 2


def test_start_weights_stand_beside_every_seed():
    found = difference(cells([[1, 1], [0, 1], [1, 0]]), cells([[0, 0]]), resamples=500)
    assert found.n_seeds == 3
    assert found.value == pytest.approx(4 / 6)


def test_nothing_in_common_is_no_difference():
    assert difference({1: {"a": 1.0}}, {1: {"b": 1.0}}) is None
    assert difference({1: {"a": 1.0}, 2: {"a": 0.0}}, {3: {"a": 1.0}, 4: {"a": 1.0}}) is None


def test_the_same_draws_give_the_same_interval():
    rng = np.random.default_rng(1)
    better, worse = cells(rng.random((5, 40))), cells(rng.random((5, 40)))
    assert difference(better, worse, resamples=1000) == difference(better, worse, resamples=1000)


def test_mean_of_a_row_is_its_mean():
    found = mean(cells([[0.2, 0.4], [0.6, 0.8]]), resamples=500)
    assert found.value == pytest.approx(0.5)


def simulated(rng, *, effect, seeds, tasks, samples, seed_sd, effect_sd):
    """Success shares of two methods; the same tasks for all, an effect that varies over tasks and seeds."""
    base = rng.uniform(0.25, 0.75, tasks)
    change = effect + rng.normal(0, effect_sd, tasks)

    def trained(shift):
        p = np.clip(base + shift + rng.normal(0, seed_sd, (seeds, 1)), 0, 1)
        return rng.binomial(samples, p) / samples

    return cells(trained(change)), cells(trained(0.0))


SIZE = {"seeds": 8, "tasks": 60, "samples": 4, "seed_sd": 0.03, "effect_sd": 0.1}


def test_without_an_effect_few_intervals_leave_out_zero():
    rng = np.random.default_rng(2)
    found = [difference(*simulated(rng, effect=0.0, **SIZE), resamples=400) for _ in range(100)]
    wrong = sum(f.low > 0 or f.high < 0 for f in found) / len(found)
    assert wrong <= 0.1  # 5 % nominal; a bootstrap over 8 seeds is a little too sure


def test_the_smallest_effect_is_seen_with_about_its_chance():
    within = 0.25 - 1 / 48 - 0.03**2  # E p (1 - p) of p uniform in [.25, .75], less the spread of the seeds
    error = standard_error(**SIZE, within=within)
    effect = smallest_effect(error, chance=0.8)
    rng = np.random.default_rng(3)
    seen = [difference(*simulated(rng, effect=effect, **SIZE), resamples=400).low > 0 for _ in range(100)]
    assert 0.7 <= np.mean(seen) <= 0.93


def test_more_contrasts_need_a_larger_effect():
    assert smallest_effect(0.01, contrasts=3) > smallest_effect(0.01) > 0
    assert smallest_effect(0.01) == pytest.approx(0.01 * (1.959964 + 0.841621), rel=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_equals_statsmodels(p_values):
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_no_p_value_needs_no_correction():
    assert holm([]) == []
    assert math.isfinite(standard_error(seeds=1, tasks=1, samples=1, seed_sd=0, effect_sd=0, within=0.25))
