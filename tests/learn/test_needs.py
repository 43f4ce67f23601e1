"""What methods need from the collector: set where the config is open, refused where it or the store says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.config import CollectConfig
from learn.collect_needs import flags, settle
from learn.method import open_method
from learn.store_needs import require_collected
from sera_data.errors import ConfigError, StoreError
from tests.learn.forest import Forest


def settled(name: str, **config: object) -> CollectConfig:
    method = open_method(name)
    return settle(method.needs, CollectConfig(**config), start=Path("runs/start"), method=method.name)


def test_open_settings_are_set_to_what_the_method_needs():
    assert settled("rao") == CollectConfig()
    assert settled("rao_rubric").rubric.purposes == ("rubric",)
    assert settled("sera_k4").delegation.k == 4
    assert settled("sera_branch").delegation.fork_share == 1.0
    assert settled("global_rubric").rubric.source == "global"
    assert settled("direct").rubric.source == "direct"
    assert settled("scorer_training").sampling.scorer.temperature == 1.0
    assert settled("frozen_scorer").policy.roles.scorer == "runs/start"
    single = settled("single_cispo")
    assert (single.budgets.depth, single.delegation.mode) == (0, "plain")


@pytest.mark.parametrize("name, config, fault", [
    ("sera_k4", {"delegation": {"k": 8}}, "method 'sera_k4' needs delegation.k=4, the config says 8"),
    ("single_cispo", {"budgets": {"depth": 2}}, "needs budgets.depth=0, the config says 2"),
    ("sera", {"rubric": {"for": ["rubric"]}}, "needs rubrics in execution groups, rubric.for says rubric"),
    ("external_writer", {}, "needs another writer than the acting policy: policy.roles.writer is not set"),
    ("global_rubric", {"rubric": {"source": "policy"}}, "needs rubric.source=global, the config says policy"),
])  # fmt: skip
def test_settings_that_contradict_the_method_are_refused(name, config, fault):
    with pytest.raises(ConfigError) as caught:
        settled(name, **config)
    assert fault in str(caught.value)


def test_settings_that_give_more_than_needed_are_kept():
    more = settled("rao_rubric", rubric={"for": ["execution", "rubric", "delegation"]})
    assert more.rubric.purposes == ("execution", "rubric", "delegation")
    named = settled("external_scorer", policy={"roles": {"writer": "openai:big", "scorer": "openai:big"}})
    assert named.policy.roles.writer == "openai:big"


def store(
    *,
    k: int = 4,
    writer: str = "policy",
    writes: int | None = None,
    scorer: str = "policy",
    version: int = 0,
    depth: int = 1,
) -> Forest:
    forest = Forest(version=version)
    for purpose, task in (("execution", "a"), ("rubric", "c")):
        root = forest.root(task, 0, 1, purpose=purpose)
        for branch in range(k if depth else 0):
            forest.child(root, 0, branch=branch, k=k, label=branch % 2, score=0.5)
    for row in forest.rows["rubrics"]:
        row.update(writer=writer, writer_version=version if writes is None else writes)
    for row in forest.rows["scores"]:
        row.update(scorer=scorer, scorer_version=version)
    return forest


@pytest.mark.parametrize("name, facts, fault", [
    ("single_cispo", {}, "learns from agents that never delegate, the store has agents of depth 1"),
    ("sera_k8", {}, "reads 8 branches of a fork, the store has forks of 4"),
    ("sera", {"writer": "global"}, "needs rubrics by the acting policy policy, the store's are by global"),
    ("sera", {"writer": "big"}, "needs rubrics by the acting policy policy, the store's are by big"),
    ("external_writer", {}, "needs rubrics by another policy than the acting policy, the store's are by policy"),
    ("sera", {"writes": 12}, "needs rubrics by the acting policy policy, the store's are by policy of version 12"),
    ("external_scorer", {"writer": "big"}, "needs scores by another policy than the acting policy"),
    ("global_rubric", {}, "needs one fixed rubric, the store's are by policy"),
    ("direct", {"writer": "global"}, "needs scores without a rubric, the store's are by global"),
    ("frozen_scorer", {"version": 3}, "by the start policy, the store's are by the acting policy of version 3"),
    ("rubric_reward", {"scorer": "big"}, "needs scores by the acting policy policy at its version, the store's are by"),
])  # fmt: skip
def test_a_store_collected_otherwise_is_refused_with_the_settings_to_collect_it(name, facts, fault):
    method = open_method(name)
    with pytest.raises(StoreError) as caught:
        require_collected(store(**facts).connect(), method)
    assert fault in str(caught.value)
    assert f"collect with {flags(method.needs)}" in str(caught.value)


def test_a_store_without_rubrics_is_no_store_of_sera():
    forest = Forest()
    forest.child(forest.root("a", 0, 1), 0)
    with pytest.raises(StoreError, match=r"needs rubrics in execution and rubric groups; the store has 1 children"):
        require_collected(forest.connect(), open_method("sera"))
    require_collected(forest.connect(), open_method("rao"))


@pytest.mark.parametrize("name, facts", [
    ("sera", {}), ("sera_k2", {}), ("rao", {"writer": "global"}), ("single_cispo", {"depth": 0}),
    ("rao_rubric", {}), ("external_writer", {"writer": "big"}), ("external_writer", {"writes": 12}),
    ("external_scorer", {"writer": "big", "scorer": "big"}),
    ("global_rubric", {"writer": "global"}), ("direct", {"writer": "direct"}), ("frozen_scorer", {}),
    ("frozen_scorer", {"version": 3, "scorer": "start"}),
])  # fmt: skip
def test_a_store_that_fits_is_taken(name, facts):
    require_collected(store(**facts).connect(), open_method(name))


@pytest.mark.parametrize("weights, own", [("aa", True), ("bb", False)])
def test_weights_of_another_training_are_another_policy_under_the_same_name_and_version(weights, own):
    forest = store(version=12)
    names = {"name": "policy", "tokenizer_sha256": "t", "template_sha256": "t", "engine": "transformers", "version": 12}
    hashes = {"act": "aa", "writer": weights, "scorer": "aa"}
    forest.add("runs", policies=[{"role": role, "weights_sha256": sha, **names} for role, sha in hashes.items()])
    refused = open_method("external_writer" if own else "rao_rubric")
    with pytest.raises(StoreError, match=r"the store's are by policy of version 12"):
        require_collected(forest.connect(), refused)
    require_collected(forest.connect(), open_method("rao_rubric" if own else "external_writer"))
