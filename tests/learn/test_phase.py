"""Learn phases on real trees of a puppet policy: rows, resume, refusals."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import sera_data as sd
from collect.job import claim_job, run_job
from collect.policies import open_policy
from collect.policy_directory import read_policy_directory
from collect.tasks import load_tasks
from learn.checkpoint import CheckpointError, latest, require_tokenizer
from learn.config import LearnConfig
from learn.learn_progress import gate_word
from learn.method import open_method
from learn.phase import learn_phase, open_phase
from learn.ranks import join
from learn.record import FruitlessError, require_fruitful
from learn.rehearsal import rehearse
from sera_data.config import load_config
from sera_data.errors import ConfigError, SeraError, StoreError
from tests.collect.job_lab import small_config
from tests.learn.puppet import Puppet, make_policy

SETTINGS = ("schedule=execution:2,delegation:1,rubric:1", "updates_per_collect=4", "optimizer.lr=1e-3")


PLAYED = (
    "groups={execution: 3, delegation: 2, rubric: 3}",
    "samples=3",
    "delegation.k=6",
    "delegation.forks_per_tree=2",
)


def collect_epoch(path, policy, *overrides):
    config = small_config(*overrides)
    store = sd.create(path)
    policies = dict.fromkeys(("act", "writer", "scorer"), policy)
    job = claim_job(store, config, tasks=load_tasks(config), policies=policies)
    run_job(store, job, policies=policies, style="terse", quiet=True)
    sd.seal(store, job.plan.name)
    return store


def copied(collected, to):
    shutil.copytree(collected / "store", to / "store")
    shutil.copytree(collected / "policy", to / "policy")
    return to


@pytest.fixture
def place(collected, tmp_path):
    """A copy of the collected store to learn from, beside the policy."""
    return copied(collected, tmp_path)


@pytest.fixture(scope="module")
def learned(collected, tmp_path_factory):
    """The same after one learn phase: (place, result, rows seen on the way)."""
    place, seen = copied(collected, tmp_path_factory.mktemp("learned")), []
    return place, learn(place, "engine.checkpoint_every=1", on_row=seen.append), seen


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
    return load_file(path / "model.safetensors")


def test_a_phase_trains_every_stage_and_writes_rows(learned):
    place, result, seen = learned
    assert [row["stage"] for row in result.rows] == ["execution", "execution", "delegation", "rubric"]
    assert result.version == 4
    assert seen == result.rows
    # the second update is the first one's version ahead of its data
    assert [[(part["gap"], part["stale"]) for part in row["gaps"]] for row in result.rows[:2]] == [[(0, 0)], [(1, 0)]]
    assert gate_word(result.rows) == "unused"
    store = sd.open(place / "store")
    rows = store.updates.pl().sort("update").to_dicts()
    assert [r["version_out"] for r in rows] == [1, 2, 3, 4]
    assert all(r["n_trained_tokens"] > 0 and r["grad_norm"] > 0 for r in rows)
    # data sampled by these very weights: the ratio is 1 until the first step
    assert rows[0]["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert rows[0]["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert [r["version_gap_mean"] for r in rows] == [0, 1, 2, 3]
    snapshot = sd.read_snapshot(store, f"{result.run_id}-v000000-e000000")
    assert list(snapshot.directories) == ["e000000"]
    assert {r["snapshot_sha256"] for r in rows} == {snapshot.sha256}
    sd.verify(store)


def test_the_exported_policy_is_the_next_version_with_the_same_tokenizer(learned):
    place, result, _ = learned
    parent, child = (read_policy_directory(p) for p in (place / "policy", result.policy))
    assert (child.version, child.parent, child.run_id) == (4, parent.sha256, result.run_id)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (result.policy / name).read_bytes() == (place / "policy" / name).read_bytes()
    assert child.tokenizer_sha256 == parent.tokenizer_sha256
    old, new = weights(place / "policy"), weights(result.policy)
    assert old.keys() == new.keys()
    assert any(not torch.equal(old[n], new[n]) for n in old)
    model = AutoModelForCausalLM.from_pretrained(result.policy, dtype=torch.float32)
    assert torch.equal(model.lm_head.weight, new["model.embed_tokens.weight"])


def test_a_finished_phase_is_not_run_again(learned):
    place, first, _ = learned
    again = learn(place, "engine.checkpoint_every=1")
    assert again.repeated
    assert (again.version, again.policy, again.plan) == (first.version, first.policy, first.plan)
    assert [r["loss"] for r in again.rows] == [r["loss"] for r in first.rows]
    assert len(sd.open(place / "store").updates.pl()) == 4


def test_a_finished_phase_whose_policy_is_elsewhere_says_so(learned):
    place, _, _ = learned
    with pytest.raises(SeraError, match=r"finished before .* but its policy is not at .*elsewhere.*--set name=again"):
        learn(place, "engine.checkpoint_every=1", out="elsewhere")


def test_a_phase_is_not_mistaken_for_one_with_other_credit_rules(learned):
    place, _, _ = learned
    config = load_config(LearnConfig, None, [*SETTINGS, "engine.checkpoint_every=1"])
    method = open_method("sera").with_params({"margin": 0.123})
    store, policy = sd.open(place / "store"), place / "policy"
    phase = open_phase(store, config=config, method=method, policy=policy, out=place / "run", epoch=None)
    with pytest.raises(StoreError, match=r"with another credit, so this is not that phase.*--set name=again"):
        learn_phase(phase, ranks=join())


def test_other_tokenizers_and_runs_are_refused(learned, tmp_path):
    place, _, _ = learned
    other = make_policy(tmp_path / "other", texts=("abc abc",))
    with pytest.raises(StoreError, match="tokenizer"):
        learn(place, policy=other.path)
    with pytest.raises(CheckpointError, match="belongs to tokenizer"):
        require_tokenizer(latest(place / "run" / "checkpoints"), other.tokenizer_sha256)
    with pytest.raises(CheckpointError, match="another --out"):
        learn(place, "seed=1")


class Killed(Exception):
    pass


def test_resume_is_bitwise_the_uninterrupted_run(learned, place):
    _, straight, _ = learned

    def kill_after(version):
        def watch(row):
            if row["version_out"] == version:
                raise Killed

        return watch

    for version in (1, 3, 4):  # each time before the checkpoint of that update is written
        with pytest.raises(Killed):
            learn(place, "engine.checkpoint_every=1", on_row=kill_after(version))
        (place / "run" / "checkpoints" / ".tmp-c000001").mkdir(parents=True, exist_ok=True)  # half-written rubbish
    resumed = learn(place, "engine.checkpoint_every=1")
    assert not resumed.repeated
    mine, theirs = weights(resumed.policy), weights(straight.policy)
    assert all(torch.equal(mine[n], theirs[n]) for n in theirs)
    plain = [[{k: v for k, v in row.items() if k != "timings"} for row in r.rows] for r in (straight, resumed)]
    assert plain[0] == plain[1]


@pytest.mark.slow
def test_the_next_phase_goes_on_with_the_optimizer(place):
    first = learn(place)
    collect_epoch(place / "store", Puppet(read_policy_directory(first.policy)), *PLAYED)
    second = learn(place, policy=first.policy)
    assert second.epoch == 1
    assert second.version > 4
    assert second.rows[0]["ratio_max"] == pytest.approx(1, abs=1e-4)  # the export is what the engine holds
    assert latest(place / "run" / "checkpoints").state.version == second.version


SCRIPTED = ("groups={execution: 1}", "samples=2", "rubric.purposes=[]")


@pytest.mark.slow
def test_three_phases_without_a_usable_group_end_with_advice(tmp_path):
    policy = make_policy(tmp_path / "policy").path
    for epoch in range(3):
        collect_epoch(tmp_path / "store", open_policy("scripted:oracle"), *SCRIPTED)
        result = learn(tmp_path, "schedule=execution:1,rubric:1", epoch=epoch)
        (row,) = result.rows
        assert row["skip_reason"].startswith("stage execution has no usable group, 1 were dropped: homogeneous")
        assert row["version_in"] == row["version_out"] == result.version == 0  # the clock stands
        assert (row["loss"], row["n_datums"], row["n_groups_dropped"]) == (None, 0, 1)
        assert result.policy == policy
        if epoch < 2:
            require_fruitful(result)
    with pytest.raises(FruitlessError, match="3 learn phases"):
        require_fruitful(result)
    assert not (tmp_path / "run" / "checkpoints").exists()
    sd.verify(sd.open(tmp_path / "store"))


def flipped(file):
    """One bit of a value; most such files can still be read."""
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 4
    file.write_bytes(data)


def truncated(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize(
    ("harm", "fault"),
    [(flipped, "is damaged: its sha256"), (truncated, "bytes"), (lambda file: file.unlink(), "is missing")],
    ids=["flipped", "truncated", "missing"],
)
def test_a_damaged_store_is_never_trained_from(place, harm, fault):
    (file,) = (place / "store" / "epochs" / "e000000").glob("turns*.parquet")
    sound = file.read_bytes()
    harm(file)
    with pytest.raises(StoreError, match=rf"turns.*\.parquet.* {fault}.*hint: restore epochs/e000000"):
        learn(place)
    assert not (place / "run").exists()
    file.write_bytes(sound)
    assert rehearse(
        place / "store", load_config(LearnConfig, None, [*SETTINGS]), open_method("sera"), place / "policy", None
    )["updates"]


def test_a_store_of_a_newer_version_is_refused_before_anything_is_written(place):
    document = place / "store" / "store.json"
    body = json.loads(document.read_text())
    document.write_text(json.dumps({**body, "schema_version": "99.0"}))
    with pytest.raises(StoreError, match=r"store.*99"):
        learn(place)
    assert not (place / "run").exists()


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_leads_to_the_same_weights(learned, place):
    _, straight, _ = learned

    def kill(row):
        if row["version_out"] == 3:
            raise Killed

    with pytest.raises(Killed):
        learn(place, "engine.checkpoint_every=1", on_row=kill)
    newest = latest(place / "run" / "checkpoints").path
    truncated(max((f for f in newest.rglob("*.pt")), key=lambda f: f.stat().st_size))
    with pytest.raises(CheckpointError, match=rf"checkpoint {newest} is damaged: .*hint: remove {newest}; the check"):
        learn(place, "engine.checkpoint_every=1")
    shutil.rmtree(newest)
    resumed = learn(place, "engine.checkpoint_every=1")
    mine, theirs = weights(resumed.policy), weights(straight.policy)
    assert all(torch.equal(mine[n], theirs[n]) for n in theirs)


def test_data_that_the_loss_could_not_treat_honestly_are_refused(place):
    with pytest.raises(ConfigError, match=r"temperature 1, loss.temperature is 0.7"):
        learn(place, "loss.temperature=0.7")
    with pytest.raises(StoreError, match="epoch 7 is not among them"):
        learn(place, epoch=7)


@pytest.mark.slow
def test_the_kl_brake_is_nothing_at_the_start_weights_whoever_sampled_the_data(learned):
    place, result, _ = learned
    row = learn(place, "loss.kl_coef=0.1", out="braked").rows[0]
    assert row["loss"] == pytest.approx(result.rows[0]["loss"], abs=1e-6)
    free, braked = (
        learn(place, f"loss.kl_coef={pull}", "loss.kind=topr", policy=result.policy, out=f"old{pull}").rows
        for pull in (0, 10)
    )
    assert (free[0]["version_in"], free[0]["version_gap_mean"]) == (4, 4)
    assert braked[0]["loss"] == pytest.approx(free[0]["loss"], abs=1e-6)
    assert braked[1]["loss"] > free[1]["loss"] + 1e-6


def test_below_the_entropy_floor_the_phase_ends_with_its_reason(place):
    result = learn(place, "loss.entropy_floor=50")
    (row,) = result.rows
    assert (row["version_in"], row["version_out"], row["n_datums"], row["loss"]) == (0, 0, 0, None)
    assert "below loss.entropy_floor 50" in row["skip_reason"]
    assert row["group_ids"]
    assert result.policy.samefile(place / "policy")


def test_a_rehearsal_shows_the_same_batches(learned):
    place, result, _ = learned
    config = load_config(LearnConfig, None, [*SETTINGS, "engine.checkpoint_every=1"])
    body = rehearse(place / "store", config, open_method("sera"), place / "policy", None)
    assert body["run_id"] == result.run_id
    assert [u["trained"] for u in body["updates"]] == [row["n_trained_tokens"] for row in result.rows]
