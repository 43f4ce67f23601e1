"""Rubric updates on refreshed rubrics: on-policy at the first step, while delegations and branches keep their age."""

import json
from itertools import pairwise

import pytest

import sera_data as sd
from collect.policies import policy_hash
from collect.policy_directory import read_policy_directory
from collect.refresh_config import RefreshConfig
from collect.refresh_job import run_refresh
from learn.config import LearnConfig
from learn.phase import learn_phase, open_phase
from learn.ranks import join
from learn.refreshed import method_of
from learn.rehearsal import rehearse
from sera_data.cli import main
from sera_data.config import load_config
from sera_data.errors import ConfigError, StoreError
from tests.learn import feed_lab
from tests.learn.puppet import Puppet
from tests.learn.test_phase import copied

pytestmark = pytest.mark.slow
RUBRIC = ("schedule=rubric:1", "updates_per_collect=2", "optimizer.lr=1e-3")


@pytest.fixture(scope="module")
def place(collected, tmp_path_factory):
    """A store played at version 0, a newer policy, and a refresh of the store by it: (root, refresh run)."""
    root = tmp_path_factory.mktemp("refreshed")
    copied(collected, root)
    store = sd.open(root / "store")
    first = learn(root, "schedule=execution:1", "updates_per_collect=2", out="first", policy=root / "policy")
    (root / "newer").symlink_to(first.policy)
    puppet = Puppet(read_policy_directory(first.policy))
    policies = dict.fromkeys(("writer", "scorer"), puppet)
    spec = str(first.policy)
    config = RefreshConfig(work="rubrics", writer=spec, scorer=spec, served=policy_hash(policies), k=3)
    summary = run_refresh(store, config, policies, quiet=True)
    assert summary.sealed
    return root, config.run_id


def learn(root, *overrides, out, policy):
    config = load_config(LearnConfig, None, [*RUBRIC, *overrides])
    store = sd.open(root / "store")
    phase = open_phase(store, config=config, method=method_of(config), policy=policy, out=root / out, epoch=None)
    return learn_phase(phase, ranks=join())


def test_the_first_update_is_on_policy_in_the_rubric_tokens_and_the_branches_keep_their_age(place):
    root, run = place
    result = learn(root, f"refresh={run}", out="rubric", policy=root / "newer")
    first, second = result.rows
    assert (first["stage"], first["version_in"], first["skip_reason"]) == ("rubric", 2, None)
    assert first["version_gap_mean"] == 0
    assert first["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert first["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert second["version_gap_mean"] == 1
    store = sd.open(root / "store")
    trained = {name.partition("@")[0] for name in first["datum_ids"]}
    rows = store.sql("select rubric_id, run_id, writer_version from rubrics").fetchall()
    assert {(r, v) for name, r, v in rows if name in trained} == {(run, 2)}
    assert {row[0] for row in store.sql("select distinct policy_version_max from nodes").fetchall()} == {0}
    sd.verify(store)


def test_without_a_name_the_rubrics_of_the_trees_are_trained(place):
    root, _ = place
    result = learn(root, out="own", policy=root / "newer")
    assert [row["version_gap_mean"] for row in result.rows] == [2, 3]
    trained = {name.partition("@")[0] for row in result.rows for name in row["datum_ids"]}
    rows = sd.open(root / "store").sql("select rubric_id, phase from rubrics").fetchall()
    assert {phase for name, phase in rows if name in trained} == {"collect"}


def test_rubrics_of_one_delegation_compete_with_each_other(place):
    _, run = place
    config = load_config(LearnConfig, None, [*RUBRIC, f"refresh={run}"])
    rule = next(rule for rule in method_of(config).rules if rule.stages == ("rubric",))
    assert (dict(rule.params)["refresh"], dict(rule.params)["baseline"]) == (run, "delegation")


def test_held_out_tasks_are_never_trained_and_are_the_same_for_every_run(place):
    root, run = place
    shares = [feed(root, f"hold_out={share}", f"refresh={run}").order["rubric"] for share in (0, 0.3, 0.6, 0.9, 0.999)]
    assert all(set(less) <= set(more) for more, less in pairwise(shares))
    assert len(shares[0]) > len(shares[-1]) == 0
    kept = set(feed(root, "hold_out=0.6").order["rubric"])
    assert kept & set(shares[0]) <= set(shares[2])
    held = feed(root, "hold_out=0.6").held_out
    with sd.open(root / "store").connect(held_out=0.6) as con:  # what the audit looks at
        assert held == {task for (task,) in con.sql("select distinct task_id from nodes").fetchall()}
    assert not held & {group.partition("/")[2] for group in kept}
    meal = feed(root, "hold_out=0.999").next(version=2, done=0, consumed={})
    assert "held out" in meal.skip_reason


def feed(root, *overrides):
    return feed_lab.feed(root / "store", root / "newer", *RUBRIC, *overrides)


def test_data_beyond_the_limit_are_refused_unless_allowed_or_safe(place):
    root, run = place
    with pytest.raises(
        ConfigError, match=r"sampled 2 updates ago .*cispo takes up to 1.*loss.kind=topr.*--allow-stale"
    ):
        feed(root, "loss.stale.limit=1").next(version=2, done=0, consumed={})
    for setting in ("loss.stale.beyond=allow", "loss.kind=topr", f"refresh={run}"):
        assert feed(root, "loss.stale.limit=1", setting).next(version=2, done=0, consumed={}).datums


def test_a_refresh_that_is_not_there_is_refused_by_name(place, capsys):
    root, run = place
    with pytest.raises(StoreError, match=f"no refresh 'rubrics-none' of epoch 0; finished ones: {run}"):
        learn(root, "refresh=rubrics-none", out="none", policy=root / "newer")
    config = load_config(LearnConfig, None, [*RUBRIC, "refresh=rubrics-none"])
    with pytest.raises(StoreError, match="no refresh"):
        rehearse(root / "store", config, method_of(config), root / "newer", None)
    with pytest.raises(ConfigError, match="no rubric credit that reads refreshed rubrics"):
        method_of(load_config(LearnConfig, None, ["method=rao", "refresh=rubrics-none"]))


def test_the_command_trains_one_stage_alone(place, capsys):
    root, run = place
    command = ["learn", "--store", str(root / "store"), "--from", str(root / "newer"), "--out", str(root / "alone")]
    assert main([*command, "--stage", "rubric", "--refresh", run, "--dry-run", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schedule"] == "rubric:1"
    assert body["config"]["refresh"] == run
    assert body["updates"][0]["datums"] > 0
    assert main([*command, "--stage", "rubrics", "--dry-run"]) == 2
    assert "unknown stage 'rubrics'" in capsys.readouterr().err
