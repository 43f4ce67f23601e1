"""The Job: equal configs give equal stores, whoever plays, however often it is stopped."""

import asyncio
import os
import signal

import pytest

from collect.interruption import Interrupted, Interruption
from collect.job import Share
from collect.playing import play_units
from collect.policies import open_policies, open_policy
from collect.policy import PolicyError
from collect.shard import InfrastructureError
from collect.summary import phase_summary
from collect.tasks import load_tasks
from sera_data.errors import Preempted, StoreError, UsageError
from tests.collect.job_lab import Wrapped, play, sealed_hash, small_config


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    store, job, work = play(tmp_path_factory.mktemp("once"), small_config())
    return sealed_hash(store, job), phase_summary(store, job.plan), work


def test_a_phase_holds_what_the_config_asks_for(once):
    _, summary, work = once
    assert work.complete
    assert summary["units"] == {"planned": 6, "committed": 6}
    assert summary["trees"] == 12
    assert summary["success"] == 1.0
    assert {name: part["trees"] for name, part in summary["purposes"].items()} == {
        "execution": 6,
        "delegation": 2,
        "rubric": 4,
    }
    assert summary["forked"] > 0
    assert summary["rows"]["runs"] == 6
    assert summary["rows"]["tasks"] == 6
    assert summary["rows"]["rubrics"] > 0


def test_same_config_same_content_hash(once, tmp_path):
    store, job, _ = play(tmp_path, small_config())
    assert sealed_hash(store, job) == once[0]


def test_another_seed_draws_other_tasks(once, tmp_path):
    store, job, _ = play(tmp_path, small_config("seed=1"))
    assert sealed_hash(store, job) != once[0]


def test_two_processes_join_one_plan(once, tmp_path):
    config = small_config()
    _, _, first = play(tmp_path, config, part=Share(0, 2))
    assert not first.complete
    store, job, second = play(tmp_path, config, part=Share(1, 2))
    assert second.complete
    assert set(first.committed) & set(second.committed) == set()
    assert sealed_hash(store, job) == once[0]


@pytest.mark.parametrize(
    ("number", "error", "code"),
    [(signal.SIGINT, Interrupted, 130), (signal.SIGTERM, Preempted, 75), (signal.SIGUSR1, Preempted, 75)],
)
def test_stopped_by_a_signal_and_resumed(once, tmp_path, number, error, code):
    config = small_config()
    spec = config.policy.model

    def stop(policy):
        if policy.requests == 25:
            os.kill(os.getpid(), number)

    stopping = dict.fromkeys(config.roles(), Wrapped(open_policy(spec), stop))
    interruption = Interruption()
    with pytest.raises(error, match="the same command continues") as caught, interruption.active():
        play(tmp_path, config, policies=stopping, interruption=interruption)
    assert caught.value.exit_code == code
    store, job, work = play(tmp_path, config)
    assert 0 < len(work.skipped) < 6
    assert len(work.skipped) + len(work.committed) == 6
    assert sealed_hash(store, job) == once[0]


def test_a_complete_phase_is_not_played_again(tmp_path):
    config = small_config("groups={execution: 1}")
    play(tmp_path, config)
    refuse = Wrapped(open_policy(config.policy.model), lambda _: pytest.fail("played again"))
    _, job, work = play(tmp_path, config, policies=dict.fromkeys(config.roles(), refuse))
    assert (work.committed, work.skipped, work.complete) == ((), ("u0000",), True)
    assert job.plan.name == "e000000"


def test_a_sealed_phase_is_followed_by_the_next_epoch(tmp_path):
    config = small_config("groups={execution: 2}")
    store, job, _ = play(tmp_path, config)
    sealed_hash(store, job)
    _, second, _ = play(tmp_path, config)
    assert (second.plan.epoch, second.run_id) == (1, job.run_id)
    drawn = [[group.task.task_id for unit in j.units for group in unit.groups] for j in (job, second)]
    assert drawn[0] != drawn[1]


def test_infrastructure_faults_stop_the_job_and_commit_nothing(tmp_path):
    config = small_config("groups={execution: 2}", "budgets.retries=0", "concurrency=1")

    def fail(policy):
        if policy.requests > 3:
            msg = "engine is down"
            raise PolicyError(msg)

    broken = Wrapped(open_policy(config.policy.model), fail)
    with pytest.raises(InfrastructureError, match=r"trees ended in infrastructure errors.*engine is down"):
        play(tmp_path, config, policies=dict.fromkeys(config.roles(), broken))
    store, job, work = play(tmp_path, config)
    assert work.complete
    assert phase_summary(store, job.plan)["outcomes"] == {"finished": 4}


def test_a_restart_with_another_policy_or_other_tasks_is_refused(tmp_path):
    config = small_config("groups={execution: 2}")
    play(tmp_path, config, part=Share(0, 2))
    careless = open_policies(config.policy.model_copy(update={"model": "scripted:careless"}))
    with pytest.raises(StoreError, match="two policies must not share an epoch"):
        play(tmp_path, config, policies={role: careless[role] for role in config.roles()})
    with pytest.raises(StoreError, match="made from other tasks"):
        play(tmp_path, config, tasks=load_tasks(config)[:-1])


def test_too_few_tasks_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="wants at least 9 different tasks, got 8"):
        play(tmp_path, small_config("groups={execution: 9}"))
    assert list((tmp_path / "plans").iterdir()) == []


class FakeUnit:
    def __init__(self, name, trees):
        self.name, self.plans = name, [f"{name}{i}" for i in range(trees)]


def run_fakes(units, *, overlap, concurrency, play=None):
    running, seen, handed = set(), [], []

    async def tree(plan):
        running.add(plan)
        seen.append(len(running))
        for _ in range(1 + hash_free(plan)):
            await asyncio.sleep(0)
        if play:
            play(plan)
        running.discard(plan)
        return plan

    async def hand_over(unit, results):
        handed.append((unit.name, results))

    asyncio.run(
        play_units(
            [(unit, unit.plans) for unit in units],
            play=tree,
            hand_over=hand_over,
            concurrency=concurrency,
            overlap=overlap,
        )
    )
    return handed, max(seen)


def hash_free(plan):
    return sum(plan.encode()) % 5


@pytest.mark.parametrize("overlap", [True, False])
def test_units_are_handed_over_whole_and_in_planned_order_of_trees(overlap):
    units = [FakeUnit(name, 5) for name in "abcd"]
    handed, most = run_fakes(units, overlap=overlap, concurrency=3)
    assert sorted(handed) == [(unit.name, unit.plans) for unit in units]
    assert most <= 3
    if not overlap:
        assert [name for name, _ in handed] == list("abcd")


def test_the_first_fault_of_a_tree_stops_the_rest():
    def fail(plan):
        if plan == "b1":
            msg = "no such thing"
            raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="no such thing"):
        run_fakes([FakeUnit(name, 3) for name in "abc"], overlap=True, concurrency=4, play=fail)
