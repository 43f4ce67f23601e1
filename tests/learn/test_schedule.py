"""The schedule and the batches: golden positions, counts, and that both are pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learn.batches import next_groups, order_groups, plan_batches
from learn.schedule import DEFAULT, parse_schedule
from schemas.words import STAGES
from sera_data.errors import ConfigError


@pytest.mark.parametrize("version, stage, cycle, step", [
    (0, "execution", 0, 0), (15, "execution", 0, 15), (16, "delegation", 0, 0), (17, "delegation", 0, 1),
    (18, "rubric", 0, 0), (19, "rubric", 0, 1), (20, "execution", 1, 0), (35, "execution", 1, 15),
    (36, "delegation", 1, 0),
])  # fmt: skip
def test_golden_positions(version, stage, cycle, step):
    position = parse_schedule(DEFAULT).position(version)
    assert (position.stage, position.cycle, position.step_in_stage) == (stage, cycle, step)


@pytest.mark.parametrize("text, n, counts", [
    (DEFAULT, 250, {"execution": 202, "delegation": 24, "rubric": 24}),
    (DEFAULT, 400, {"execution": 320, "delegation": 40, "rubric": 40}),
    ("execution:16,rubric:2", 250, {"execution": 224, "rubric": 26}),
    ("execution:16,rubric:2", 400, {"execution": 356, "rubric": 44}),
    ("execution:12,delegation:4", 250, {"execution": 190, "delegation": 60}),
    ("execution:12,delegation:4", 400, {"execution": 300, "delegation": 100}),
])  # fmt: skip
def test_golden_update_counts(text, n, counts):
    assert parse_schedule(text).updates(0, n) == counts


def test_a_phase_deals_groups_to_the_stages_of_its_updates():
    schedule = parse_schedule("execution:2,delegation:1,rubric:1")
    assert schedule.deal(0, 4, 8) == {"execution": 16, "delegation": 8, "rubric": 8}
    assert schedule.deal(3, 2, 8) == {"rubric": 8, "execution": 8}
    assert parse_schedule(DEFAULT).deal(18, 2, 8) == {"rubric": 16}


@pytest.mark.parametrize("text, fault", [
    ("execution:16,plan:2", "unknown stage 'plan'; allowed: execution, delegation, rubric"),
    ("execution:0", "above 0"), ("execution", "above 0"), ("execution:2,execution:3", "twice"),
    ("", "unknown stage ''"), ("execution:-1", "above 0"),
])  # fmt: skip
def test_a_bad_schedule_is_refused_with_the_reason(text, fault):
    with pytest.raises(ConfigError) as caught:
        parse_schedule(text)
    assert fault in str(caught.value)


def test_one_stage_alone_is_a_schedule():
    assert parse_schedule("rubric:1").deal(7, 3, 4) == {"rubric": 12}


def test_text_form_round_trips_and_versions_are_not_negative():
    assert str(parse_schedule(" execution:16, delegation:2 ,rubric:2")) == DEFAULT
    with pytest.raises(ValueError, match="0 or more"):
        parse_schedule(DEFAULT).position(-1)


GROUPS = st.dictionaries(st.sampled_from(STAGES), st.sets(st.integers(0, 60).map(lambda n: f"3/t{n}")))


@settings(deadline=None, max_examples=60)
@given(GROUPS, st.integers(0, 50), st.integers(1, 24), st.integers(0, 5), st.integers(1, 3))
def test_every_group_is_used_exactly_reuse_times_and_evenly(groups, version, n_updates, seed, reuse):
    schedule = parse_schedule(DEFAULT)
    plan = plan_batches(schedule, groups, version=version, n_updates=n_updates, seed=seed, epoch=3, reuse=reuse)
    assert [b.stage for b in plan] == [schedule.stage_at(version + i) for i in range(n_updates)]
    for stage in {b.stage for b in plan}:
        batches = [b.group_ids for b in plan if b.stage == stage]
        used = [g for batch in batches for g in batch]
        assert all(len(set(batch)) == len(batch) for batch in batches)
        if reuse == 1:
            assert sorted(used) == sorted(groups.get(stage, ()))
            assert max(map(len, batches)) - min(map(len, batches)) <= 1
        assert all(used.count(g) <= reuse for g in used)


def test_the_order_is_a_hash_of_seed_epoch_stage_and_group():
    groups = [f"3/t{n}" for n in range(30)]
    base = order_groups(groups, seed=0, epoch=3, stage="execution")
    assert base == order_groups(reversed(groups), seed=0, epoch=3, stage="execution")
    assert sorted(base) == sorted(groups)
    for other in ({"seed": 1}, {"epoch": 4}, {"stage": "rubric"}):
        assert base != order_groups(groups, **{"seed": 0, "epoch": 3, "stage": "execution", **other})


def test_a_resumed_phase_continues_where_it_stopped():
    schedule = parse_schedule("execution:2,delegation:1,rubric:1")
    groups = {"execution": [f"3/t{n}" for n in range(7)]}
    plan = plan_batches(schedule, groups, version=0, n_updates=6, seed=0, epoch=3)
    sequence = order_groups(groups["execution"], seed=0, epoch=3, stage="execution")
    taken = len(plan[0].group_ids)
    assert next_groups(sequence, consumed=taken, updates_left=3) == plan[1].group_ids
    assert next_groups(sequence, consumed=7, updates_left=1) == ()


def test_wrong_counts_are_refused():
    with pytest.raises(ValueError, match="reuse"):
        order_groups(["3/a"], seed=0, epoch=3, stage="rubric", reuse=0)
    with pytest.raises(ValueError, match="updates_left"):
        next_groups(["3/a"], consumed=0, updates_left=0)
