"""Dealing tasks into groups and units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.dealing import deal, draw_tasks, lay_out, resolve_counts, share
from collect.world import Task
from sera_data.errors import UsageError


def make_tasks(n):
    return [
        Task(task_id=f"t{i:016x}", world="w", profile="p", split="s", difficulty="easy", goal="g", spec={"i": i})
        for i in range(n)
    ]


def test_all_takes_the_rest():
    assert resolve_counts({"execution": "all", "rubric": 2}, n_tasks=10) == {"execution": 8, "rubric": 2}


@pytest.mark.parametrize(("counts", "n"), [({"execution": 5, "rubric": 2}, 6), ({"eval": "all"}, 0)])
def test_too_few_tasks_is_refused(counts, n):
    with pytest.raises(UsageError, match="too few tasks"):
        resolve_counts(counts, n_tasks=n)
    with pytest.raises(UsageError, match="wants 7 different tasks, got 6"):
        draw_tasks(make_tasks(6), 7, seed=0, epoch=0)


@given(
    counts=st.fixed_dictionaries({p: st.integers(0, 9) for p in ("execution", "delegation", "rubric")}),
    size=st.integers(1, 4),
    processes=st.integers(1, 5),
    seed=st.integers(0, 5),
)
def test_every_group_is_dealt_once(counts, size, processes, seed):
    total = sum(counts.values())
    slots = lay_out(counts, groups_per_unit=size)
    drawn = draw_tasks(make_tasks(total + 3), total, seed=seed, epoch=2)
    units = deal(slots, drawn, n_samples=4)
    groups = [group for unit in units for group in unit.groups]
    assert len({group.task.task_id for group in groups}) == total
    assert {p: sum(g.purpose == p for g in groups) for p in counts} == counts
    assert all(1 <= len(u.groups) <= size and {g.purpose for g in u.groups} == {u.purpose} for u in units)
    assert len({unit.unit_id for unit in units}) == len(units)
    shares = [share(units, index=i, of=processes) for i in range(processes)]
    assert sorted(u.unit_id for part in shares for u in part) == sorted(u.unit_id for u in units)


def test_draw_depends_on_seed_and_epoch_and_not_on_file_order():
    tasks = make_tasks(50)
    first = draw_tasks(tasks, 10, seed=0, epoch=0)
    assert first == draw_tasks(tasks[::-1], 10, seed=0, epoch=0)
    assert first != draw_tasks(tasks, 10, seed=0, epoch=1)
    assert first != draw_tasks(tasks, 10, seed=1, epoch=0)
