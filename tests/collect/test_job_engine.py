"""Jobs on the slot engine: with `deterministic: true` a job repeats bit for bit, stopped and resumed or not."""

import os
import signal

import pytest

from collect.interruption import Interruption
from collect.policies import open_policies
from collect.policy_directory import write_policy_json
from learn.pocket_build import Watcher, build
from learn.pocket_ground import Recipe
from learn.pocket_textcraft import GROUND
from learn.pocket_training import Shape
from sera_data.errors import Preempted
from tests.collect.job_lab import Wrapped, play, sealed_hash, small_config

SILENT = Watcher(lambda index: None, lambda course, progress: None)
TINY = Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, mlp=48)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tiny")
    recipe = Recipe(trees=6, rubric_share=0.5, warm=1, late=1, practice=2)
    made = build(GROUND, place / "policy", place / "work", watch=SILENT, recipe=recipe, shape=TINY, threads=1)
    write_policy_json(made, name="tiny", version=3, style="terse")
    return made


class Served(Wrapped):
    trainable = True

    @property
    def renderer(self):
        return self.inner.renderer


def config_of(folder):
    return small_config(
        f"policy.model={folder}",
        "policy.options={slots: 8}",
        "deterministic=true",
        "concurrency=6",
        "samples=4",
        "budgets.turns=4",
        "budgets.context=900",
        "sampling.act.max_tokens=24",
        "sampling.writer.max_tokens=24",
        "sampling.scorer.max_tokens=24",
    )


@pytest.mark.slow
def test_deterministic_jobs_repeat_bit_for_bit_stopped_or_not(folder, tmp_path):
    config = config_of(folder)
    store, job, _ = play(tmp_path / "once", config)
    once = sealed_hash(store, job)
    assert store.turns.pl()["policy_version"].unique().to_list() == [3]
    assert store.turns.pl()["trainable"].any()
    assert sealed_hash(*play(tmp_path / "twice", config)[:2]) == once

    def stop(policy):
        if policy.requests == 60:
            os.kill(os.getpid(), signal.SIGTERM)

    inner = open_policies(config.policy)["act"]
    interruption = Interruption()
    stopping = dict.fromkeys(config.roles(), Served(inner, stop))
    with pytest.raises(Preempted), interruption.active():
        play(tmp_path / "stopped", config, policies=stopping, interruption=interruption)
    store, job, work = play(tmp_path / "stopped", config)
    assert work.skipped
    assert work.committed
    assert sealed_hash(store, job) == once
