"""Joint updates: the groups of several stages in one update, each stage with a token mean of its own."""

from __future__ import annotations

import pytest

import sera_data as sd
from learn.config import LearnConfig
from learn.feed import Feed
from learn.method import open_method
from learn.schedule import parse_schedule
from sera_data.errors import ConfigError
from tests.sera_data.small_store import small_store

JOINT = "execution+delegation:1"


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    path = tmp_path_factory.mktemp("joint") / "store"
    small_store(path, tasks=6, samples=2, k=2)
    with sd.open(path).connect(view="sealed") as found:
        yield found


def feed(connection, schedule: str, **loss: object) -> Feed:
    config = LearnConfig(schedule=schedule, updates_per_collect=2, groups_per_update=1, loss=loss)
    return Feed(connection, config=config, method=open_method("sera"), epoch=0, start=0, tokenizer_sha256=None)


def test_the_text_form_of_a_joint_schedule():
    schedule = parse_schedule("execution+delegation+rubric:1")
    assert str(schedule) == "execution+delegation+rubric:1"
    assert [schedule.stages_at(v) for v in (0, 7)] == [("execution", "delegation", "rubric")] * 2
    assert schedule.deal(3, 2, 4) == {"execution": 8, "delegation": 8, "rubric": 8}
    assert str(open_method("joint").schedule) == str(schedule)
    with pytest.raises(ConfigError, match="train in every update, so ':1' must follow them, got '2'"):
        parse_schedule("execution+rubric:2")
    with pytest.raises(ConfigError, match="named twice"):
        parse_schedule("rubric+rubric:1")


def test_an_update_takes_groups_of_all_stages_and_each_mean_counts_the_same(connection):
    joint = feed(connection, JOINT)
    meal = joint.next(version=0, done=0, consumed={})
    assert meal.joint
    assert meal.taken == {"execution": 1, "delegation": 1}
    assert {d.stage for d in meal.datums} == {"execution", "delegation"}
    total = sum(d.n_trained for d in meal.datums)
    for stage in ("execution", "delegation"):
        alone = feed(connection, f"{stage}:1").next(version=0, done=0, consumed={})
        mean = sum(float(d.advantages.sum()) for d in alone.datums) / sum(d.n_trained for d in alone.datums)
        part = sum(float(d.advantages.sum()) for d in meal.datums if d.stage == stage) / total
        assert part == pytest.approx(mean, abs=1e-6)
    second = joint.next(version=1, done=1, consumed=meal.taken)
    assert set(second.groups).isdisjoint(meal.groups)


def test_a_stage_without_groups_ends_the_phase_with_its_reason(connection):
    meal = feed(connection, "execution+rubric:1").next(version=0, done=0, consumed={})
    assert meal.exhausted
    assert meal.skip_reason.startswith("stage rubric has no usable group, 2 were dropped: homogeneous")
    assert feed(connection, "execution+rubric:1").starts_empty()


def test_bounds_by_stage_are_refused_where_stages_train_together(connection):
    with pytest.raises(ConfigError, match=r"loss.ratio_max must be one number for all"):
        feed(connection, JOINT, ratio_max={"execution": 2.0})


def test_a_method_is_trained_with_its_loss(connection):
    config = LearnConfig(method="single_grpo")
    with pytest.raises(ConfigError, match=r"is trained with loss.kind=grpo.*--set loss.kind=grpo --set loss.ratio_max"):
        Feed(connection, config=config, method=open_method("single_grpo"), epoch=0, start=0, tokenizer_sha256=None)
