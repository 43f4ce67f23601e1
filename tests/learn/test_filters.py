"""Filters by age and finish reason choose among paid rows; by effective samples, versions of an update."""

from dataclasses import replace

import pytest
import torch

import sera_data as sd
from collect.policy_directory import read_policy_directory
from learn.config import LearnConfig
from learn.credit import compute_credit
from learn.engine import open_engine
from learn.filters import Filters, filters_of, filters_sha256
from learn.objective import Objective
from learn.packing import plan_packs
from learn.phase import learn_phase, open_phase
from learn.ranks import join
from learn.refreshed import method_of
from sera_data.config import load_config
from sera_data.errors import ConfigError
from sera_data.snapshot import read_snapshot
from tests.learn.forest import Forest
from tests.learn.one_stage import one_stage
from tests.learn.puppet import Puppet, make_policy
from tests.learn.test_phase import collect_epoch


@pytest.fixture(scope="module")
def connection():
    forest = Forest()
    for sample in range(3):
        root = forest.root("a", sample, sample % 2)
        forest.child(root, 0, score=0.4)
    for turn in forest.rows["turns"]:
        turn["finish_reason"] = "stop"
    return forest.connect()


def test_a_filter_changes_what_is_trained_and_no_advantage(connection):
    method = one_stage("execution", reward="rubric")
    whole = compute_credit(connection, method)
    ((version,),) = connection.sql("select distinct policy_version from turns").fetchall()
    fresh = compute_credit(connection, method, filters=Filters(version + 4, 4, ("stop",)))
    assert fresh.groups("execution") == whole.groups("execution")
    for filters in (Filters(version + 5, 4, ()), Filters(version, None, ("length",))):
        old = compute_credit(connection, method, filters=filters)
        assert old.sha256 == whole.sha256
        assert old.rows.equals(whole.rows)
        assert old.groups("execution") == []
        assert [dropped.reason for dropped in old.dropped] == [f"left out by {filters}"]


def test_settings_without_a_filter_are_no_filter():
    config = load_config(LearnConfig, None, [])
    assert filters_of(config, 3) is None
    assert filters_sha256(config, 3) is None
    some = load_config(LearnConfig, None, ["filter.max_gap=2", "filter.finish_reasons=[stop]"])
    assert str(filters_of(some, 3)) == "filter.max_gap=2 and filter.finish_reasons=[stop]"
    assert filters_sha256(some, 3) != filters_sha256(some, 4)
    with pytest.raises(ConfigError, match=r"filter\.finish_reasons"):
        load_config(LearnConfig, None, ["filter.finish_reasons=[end]"])


def test_filters_that_leave_nothing_are_refused_and_others_are_hashed_into_the_snapshot(tmp_path):
    policy = make_policy(tmp_path / "policy")
    played = ("groups={execution: 2}", "samples=3", "delegation.k=2", "delegation.forks_per_tree=0")
    store = collect_epoch(tmp_path / "store", Puppet(read_policy_directory(policy.path)), *played)

    def phase(*settings):
        always = ("schedule=execution:1", "updates_per_collect=1", "method=rao")
        config = load_config(LearnConfig, None, [*always, *settings])
        return open_phase(
            store, config=config, method=method_of(config), policy=policy.path, out=tmp_path / "run", epoch=None
        )

    with pytest.raises(ConfigError, match=r"finish_reasons=\[error\] leaves nothing to train: the \d+ credited turns"):
        learn_phase(phase("filter.finish_reasons=[error]"), ranks=join())
    result = learn_phase(phase("filter.max_gap=0"), ranks=join())
    assert result.version == 1
    (name,) = [path.stem for path in store.layout.snapshots.glob(f"{result.run_id}-*.json")]
    assert read_snapshot(sd.open(tmp_path / "store"), name).hashes["filter_hash"]


def test_versions_with_too_few_effective_samples_count_for_nothing(make_datum, tmp_path):
    policy = make_policy(tmp_path / "policy")
    config = load_config(LearnConfig, None, ["optimizer.lr=1e-3"])
    old, near = make_datum("a", 20, version=1), make_datum("b", 20, version=2)
    wild = old.logprobs.copy()
    wild[old.trained] -= torch.arange(old.n_trained).numpy()  # ratios that grow by e: one sample counts for all
    plan = plan_packs([replace(old, logprobs=wild), near], budget=64)

    def engine():
        return open_engine(policy.path, ranks=join(), config=config.engine, optimizer=config.optimizer)

    whole = engine().update(plan, Objective("cispo", 0.0, 5.0), version=2)
    lowest = min(part["ess"] for part in whole["gaps"])
    highest = max(part["ess"] for part in whole["gaps"])
    assert lowest < highest
    one = engine().update(plan, Objective("cispo", 0.0, 5.0, filter_ess=(lowest + highest) / 2), version=2)
    assert sorted(part["gated_share"] for part in one["gaps"]) == [0, 1]
    assert abs(one["loss"]) != abs(whole["loss"])
    none = engine().update(plan, Objective("cispo", 0.0, 5.0, filter_ess=1.0), version=2)
    assert none == {"skip_reason": "filter.min_ess 1 leaves no version of the data"}
