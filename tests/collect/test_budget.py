"""Budgets: the published soft cap, agents of a path, caps of completions; the draw of forks."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect.budget import AgentLedger, Deadline, EnvironmentBudget, completion_cap
from collect.forks import draw
from collect.settings import Budgets


@pytest.mark.parametrize("cap,groups,created", [(16, 2, 17), (96, 12, 97), (1, 0, 1)])
def test_the_soft_cap(cap, groups, created):
    budget = EnvironmentBudget(cap)
    positions = [budget.reserve(8) for _ in range(20)]
    assert [p for p in positions if p is not None] == [1 + 8 * i for i in range(groups)]
    assert budget.created == created


def test_a_copied_ledger_is_independent():
    ledger = AgentLedger(2)
    copy = ledger.copy()
    copy.start()
    assert not copy.admits()
    assert ledger.admits()


def test_completion_caps():
    assert completion_cap(Budgets(), max_tokens=5, n_prompt=1000) == 5
    assert completion_cap(Budgets(context=100), max_tokens=50, n_prompt=70) == 30
    assert completion_cap(Budgets(context=100), max_tokens=50, n_prompt=None) == 50
    assert completion_cap(Budgets(tokens=60), max_tokens=50, n_prompt=9, n_used=55) == 5


def test_deadlines():
    assert not Deadline(None).passed()
    assert Deadline(None).remaining() is None
    assert Deadline(0).passed()
    assert Deadline(0).remaining() == 0


def test_turns_by_depth():
    assert [Budgets(turns=(14, 10)).turns_at(d) for d in range(3)] == [14, 10, 10]


depths = st.lists(st.integers(1, 4), max_size=12)


@given(depths, st.integers(0, 15), st.integers(0, 2**40))
def test_a_draw_has_the_right_size_and_spreads_over_depths(depths, m, seed):
    chosen = draw(depths, m=m, seed=seed)
    assert len(chosen) == min(m, len(depths))
    assert list(chosen) == sorted(chosen)
    assert all(0 < p <= 1 for p in chosen.values())
    taken, there = Counter(depths[i] for i in chosen), Counter(depths)
    for depth in there:  # a depth has one less than another only when it has no more candidates
        assert all(taken[depth] >= taken[other] - 1 or taken[depth] == there[depth] for other in there)
    assert draw(depths, m=m, seed=seed) == chosen


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=7), st.integers(1, 6))
def test_the_recorded_probability_is_the_frequency(depths, m):
    n = 3000
    draws = [draw(depths, m=m, seed=seed) for seed in range(n)]
    recorded: dict[int, set[float]] = {}
    for chosen in draws:
        for index, probability in chosen.items():
            recorded.setdefault(index, set()).add(probability)
    for index, values in recorded.items():
        assert len(values) == 1  # a property of the candidate, not of the draw
        probability = values.pop()
        seen = sum(index in chosen for chosen in draws) / n
        assert abs(seen - probability) < 5 * (probability * (1 - probability) / n) ** 0.5 + 1e-9
