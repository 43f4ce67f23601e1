"""Learn phases on real trees of a puppet policy: rows, resume, refusals."""

import shutil

import pytest
import torch

import sera_data as sd
from collect.job import claim_job, run_job
from collect.tasks import load_tasks
from learn.checkpoint import CheckpointError, latest
from learn.config import LearnConfig
from learn.method import open_method
from learn.phase import learn_phase, open_phase
from learn.ranks import join
from learn.record import FruitlessError, require_fruitful
from sera_data.config import load_config
from sera_data.errors import ConfigError, StoreError
from tests.collect.job_lab import small_config
from tests.learn.puppet import Puppet, make_policy

SETTINGS = ("schedule=execution:2,delegation:1,rubric:1", "updates_per_collect=4", "optimizer.lr=1e-3")


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """A store with one sealed epoch of a puppet, and its policy."""
    root = tmp_path_factory.mktemp("phase")
    policy = make_policy(root / "policy")
    collect_epoch(root / "store", policy)
    return root


def collect_epoch(path, policy, *overrides):
    config = small_config("groups={execution: 4, delegation: 2, rubric: 2}", "samples=3", *overrides)
    store = sd.create(path)
    policies = dict.fromkeys(("act", "writer", "scorer"), Puppet(policy))
    job = claim_job(store, config, tasks=load_tasks(config), policies=policies)
    run_job(store, job, policies=policies, style="terse", quiet=True)
    sd.seal(store, job.plan.name)
    return store


@pytest.fixture
def place(collected, tmp_path):
    """A copy of the collected store to learn from, beside the policy."""
    shutil.copytree(collected / "store", tmp_path / "store")
    shutil.copytree(collected / "policy", tmp_path / "policy")
    return tmp_path


def learn(place, *overrides, out="run", policy=None, on_row=lambda row: None, epoch=None):
    config = load_config(LearnConfig, None, [*SETTINGS, *overrides])
    phase = open_phase(
        sd.open(place / "store"),
        config=config,
        method=open_method(config.method),
        policy=policy or place / "policy",
        out=place / out,
        epoch=epoch,
    )
    return learn_phase(phase, ranks=join(), on_row=on_row)


def weights(path):
    from safetensors.torch import load_file

    return load_file(path / "model.safetensors")


def test_a_phase_trains_every_stage_and_writes_rows_and_policy(place):
    seen = []
    result = learn(place, on_row=seen.append)
    assert [row["stage"] for row in result.rows] == ["execution", "execution", "delegation", "rubric"]
    assert result.version == 4
    assert seen == result.rows
    store = sd.open(place / "store")
    rows = store.updates.pl().sort("update").to_dicts()
    assert [r["version_out"] for r in rows] == [1, 2, 3, 4]
    assert all(r["n_trained_tokens"] > 0 and r["grad_norm"] > 0 for r in rows)
    first = rows[0]
    # data sampled by these very weights: the ratio is 1 until the first step
    assert first["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert first["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert first["version_gap_mean"] == 0
    assert rows[3]["version_gap_mean"] == 3
    snapshot = sd.read_snapshot(store, f"{result.run_id}-v000000-e000000")
    assert list(snapshot.directories) == ["e000000"]
    assert {r["snapshot_sha256"] for r in rows} == {snapshot.sha256}
    sd.verify(store)


def test_the_exported_policy_is_the_next_version_with_the_same_tokenizer(place):
    from collect.policy_directory import read_policy_directory

    result = learn(place)
    parent, child = (read_policy_directory(p) for p in (place / "policy", result.policy))
    assert (child.version, child.parent, child.run_id) == (4, parent.sha256, result.run_id)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (result.policy / name).read_bytes() == (place / "policy" / name).read_bytes()
    assert child.tokenizer_sha256 == parent.tokenizer_sha256
    old, new = weights(place / "policy"), weights(result.policy)
    assert old.keys() == new.keys()
    assert any(not torch.equal(old[n], new[n]) for n in old)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(result.policy, dtype=torch.float32)
    assert torch.equal(model.lm_head.weight, new["model.embed_tokens.weight"])


class Killed(Exception):
    pass


def test_resume_is_bitwise_the_uninterrupted_run(place):
    straight = learn(place, "engine.checkpoint_every=1")

    (place / "store").rename(place / "first")
    shutil.copytree(place / "first", place / "store", ignore=shutil.ignore_patterns("*.a001*", "snapshots"))
    (place / "store" / "snapshots").mkdir()

    def kill_after(version):
        def watch(row):
            if row["version_out"] == version:
                raise Killed

        return watch

    for version in (1, 2, 3, 4):  # each time before the checkpoint of that update is written
        with pytest.raises(Killed):
            learn(place, "engine.checkpoint_every=1", out="second", on_row=kill_after(version))
        (place / "second" / "checkpoints" / ".tmp-c000001").mkdir(parents=True, exist_ok=True)  # half-written rubbish
        if version < 4:
            continue
    resumed = learn(place, "engine.checkpoint_every=1", out="second")
    assert not resumed.repeated
    mine, theirs = weights(resumed.policy), weights(straight.policy)
    assert all(torch.equal(mine[n], theirs[n]) for n in theirs)
    drop = ("timings",)
    strip = [[{k: v for k, v in row.items() if k not in drop} for row in r.rows] for r in (straight, resumed)]
    assert strip[0] == strip[1]


def test_a_finished_phase_is_not_run_again(place):
    first = learn(place)
    again = learn(place)
    assert again.repeated
    assert (again.version, again.policy, again.plan) == (first.version, first.policy, first.plan)
    assert [r["loss"] for r in again.rows] == [r["loss"] for r in first.rows]
    assert len(sd.open(place / "store").updates.pl()) == 4


def test_the_next_phase_goes_on_with_the_optimizer(place):
    first = learn(place)
    from collect.policy_directory import read_policy_directory

    collect_epoch(place / "store", read_policy_directory(first.policy))
    second = learn(place, policy=first.policy)
    assert (second.epoch, second.version) == (1, 8)
    assert second.rows[0]["ratio_max"] == pytest.approx(1, abs=1e-4)  # the export is what the engine holds
    assert latest(place / "run" / "checkpoints").state.version == 8


def test_a_checkpoint_of_another_tokenizer_or_policy_is_refused(place):
    learn(place)
    other = make_policy(place / "other", texts=("abc abc",))
    store = sd.open(place / "store")
    config = load_config(LearnConfig, None, SETTINGS)
    phase = open_phase(
        store, config=config, method=open_method("sera"), policy=other.path, out=place / "run", epoch=None
    )
    with pytest.raises(StoreError, match="tokenizer"):
        learn_phase(phase, ranks=join())
    from learn.checkpoint import read, require_tokenizer

    with pytest.raises(CheckpointError, match="belongs to tokenizer"):
        require_tokenizer(read(latest(place / "run" / "checkpoints").path), other.tokenizer_sha256)
    with pytest.raises(CheckpointError, match="another --out"):
        learn(place, "seed=1")


def test_an_empty_stage_is_skipped_with_its_reason_and_the_clock_stands(place):
    result = learn(place, "schedule=execution:1,rubric:3", "method=sera", "updates_per_collect=4")
    assert [r["stage"] for r in result.rows[:2]] == ["execution", "rubric"]
    last = result.rows[-1]
    if last["skip_reason"]:
        assert last["version_in"] == last["version_out"] == result.version
        assert last["loss"] is None


def test_three_fruitless_phases_end_with_advice(place):
    policy = place / "policy"
    for epoch in range(3):
        result = learn(place, "method=" + str(nothing(place)), epoch=epoch, policy=policy)
        assert result.version == 0
        assert result.policy == policy
        assert "no group" in result.rows[0]["skip_reason"] or "no usable group" in result.rows[0]["skip_reason"]
        if epoch < 2:
            require_fruitful(result)
            copy_epoch(place)
    with pytest.raises(FruitlessError, match="3 learn phases"):
        require_fruitful(result)


def nothing(place):
    path = place / "nothing.sql"
    path.write_text(
        "select turn_id, node_id as trajectory_id, 'execution' as stage, 0::int as token_start, 1::int as token_end,"
        " 0.0 as reward, 0.0 as baseline, 0.0 as advantage, 0::int as depth, 'x' as group_id from turns where false"
    )
    return path


def copy_epoch(place):
    from collect.policy_directory import read_policy_directory

    collect_epoch(place / "store", read_policy_directory(place / "policy"))


def test_kl_brake_refuses_data_of_other_weights(place):
    learn(place, "loss.kl_coef=0.1")  # data of the start weights: fine
    config = load_config(LearnConfig, None, ["updates_per_collect=2"])
    assert config.loss.kl("rubric") == 0


def test_temperature_of_the_data_must_match(place):
    with pytest.raises(ConfigError, match=r"temperature 1, loss.temperature is 0.7"):
        learn(place, "loss.temperature=0.7")


def test_an_unsealed_epoch_is_refused(place):
    with pytest.raises(StoreError, match="epoch 7 is not among them"):
        learn(place, epoch=7)
