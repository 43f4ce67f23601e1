"""LoRA: adapters trained as plain PyTorch would, exported merged and alone, resumed exactly, handed over unchanged."""

import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from collect.policy_directory import read_policy_directory
from learn.attention import NAME
from learn.checkpoint import Checkpoint, CheckpointError, State, latest
from learn.config import EngineConfig, LoraConfig, OptimizerConfig
from learn.engine import Engine, open_engine
from learn.lora import insert_adapters, merged, write_adapter
from learn.network import Network, load_network
from learn.objective import Objective
from learn.packing import Pack, micro_batch, plan_packs
from learn.ranks import join
from learn.resume import adapter_base
from sera_data.errors import ConfigError
from tests.learn.puppet import Puppet, make_policy
from tests.learn.test_engine import CISPO, LENGTHS, reference
from tests.learn.test_phase import PLAYED, Killed, collect_epoch, copied, learn

LORA = LoraConfig(r=3, alpha=6)
SETS = ("lora={r: 3, alpha: 6}", "engine.checkpoint_every=1")


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_adapters_make_the_plain_step_and_the_rest_stands_still(tiny_model, make_datums, zero):
    datums, plain, mine = make_datums(LENGTHS), tiny_model(), tiny_model()
    before = {n: p.clone() for n, p in plain.named_parameters()}
    insert_adapters(plain, LORA)
    losses, norms = reference(plain, datums, 3, 1e-2)
    insert_adapters(mine, LORA)
    mine.set_attn_implementation(NAME)
    config, optimizer = EngineConfig(zero=zero), OptimizerConfig(lr=1e-2)
    engine = Engine(Network(mine), ranks=join(), config=config, optimizer=optimizer, lora=LORA)
    rows = [engine.update(plan_packs(datums, budget=14), CISPO, version=v) for v in range(3)]
    assert [r["loss"] for r in rows] == pytest.approx(losses, abs=1e-5)
    assert [r["grad_norm"] for r in rows] == pytest.approx(norms, rel=1e-4)
    tensors = engine.tensors()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(tensors[name], parameter.detach(), atol=2e-5, rtol=1e-4, msg=name)
    frozen = {n.replace(".base_layer.", "."): t for n, t in tensors.items() if ".lora_" not in n}
    assert all(torch.equal(frozen[n], weight) for n, weight in before.items())
    assert engine.weights().keys() == before.keys()
    moved = [n for n, weight in engine.weights().items() if not torch.equal(weight, before[n])]
    assert sorted(moved) == sorted(n for n in before if n.split(".")[-2] in LORA.targets)


def logprobs(network, datums):
    with torch.no_grad():
        return torch.cat([network(micro_batch(Pack((d,))))[0] for d in datums])


def test_new_adapters_change_nothing_and_both_exports_say_what_the_engine_says(tmp_path, make_datums):
    policy, datums = make_policy(tmp_path / "policy"), make_datums(LENGTHS)
    plain = load_network(policy.path, dtype=torch.float32)
    engine = open_engine(
        policy.path, ranks=join(), config=EngineConfig(), optimizer=OptimizerConfig(lr=3e-2), lora=LORA
    )
    network = engine.deepspeed.module
    assert torch.equal(logprobs(network, datums), logprobs(plain, datums))
    for version in range(3):
        engine.update(plan_packs(datums, budget=100), CISPO, version=version)
    now = logprobs(network, datums)
    assert (now - logprobs(plain, datums)).abs().max() > 1e-2
    plain.model.load_state_dict(engine.weights() | {"lm_head.weight": plain.model.lm_head.weight})
    torch.testing.assert_close(logprobs(plain, datums), now, atol=1e-5, rtol=1e-5)
    adapter = write_adapter(tmp_path / "adapter", engine.tensors(), LORA, base=str(policy.path))
    base = AutoModelForCausalLM.from_pretrained(policy.path, dtype=torch.float32, attn_implementation="eager")
    loaded = PeftModel.from_pretrained(base, adapter)
    for datum in datums:
        ids = torch.as_tensor(datum.token_ids, dtype=torch.int64)
        full = loaded(input_ids=ids[None]).logits[0].log_softmax(-1)
        chosen = torch.as_tensor(datum.trained).nonzero()[:, 0]
        torch.testing.assert_close(
            full[chosen - 1, ids[chosen]].detach(), logprobs(network, [datum]), atol=1e-5, rtol=1e-5
        )


def test_merging_keeps_the_dtype_and_leaves_other_tensors():
    a, b, base = torch.randn(2, 5), torch.randn(4, 2), torch.randn(4, 5).bfloat16()
    parts = {"q.base_layer.weight": base, "q.base_layer.bias": torch.ones(4), "norm.weight": torch.ones(3)}
    done = merged(parts | {"q.lora_A.default.weight": a, "q.lora_B.default.weight": b}, 2.0)
    assert sorted(done) == ["norm.weight", "q.bias", "q.weight"]
    assert torch.equal(done["q.weight"], (base.float() + 2 * (b @ a)).bfloat16())


@pytest.mark.parametrize("target", ["q_projection", "lm_head", "embed_tokens"])
def test_a_target_that_is_no_linear_layer_is_refused(tiny_model, target):
    with pytest.raises(ConfigError, match=rf"'{target}'.*allowed: .*q_proj"):
        insert_adapters(tiny_model(), LoraConfig(targets=("q_proj", target)))


def test_a_killed_phase_ends_bitwise_as_one_that_was_not(collected, tmp_path):
    straight = learn(copied(collected, tmp_path / "straight"), *SETS)
    place = copied(collected, tmp_path / "killed")

    def kill(row):
        if row["version_out"] == 2:
            raise Killed

    with pytest.raises(Killed):
        learn(place, *SETS, on_row=kill)
    resumed = learn(place, *SETS)
    for name in ("policies/v000004/model.safetensors", "adapters/v000004/adapter_model.safetensors"):
        mine, theirs = (load_file(root / "run" / name) for root in (place, tmp_path / "straight"))
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[n], theirs[n]) for n in theirs)
    plain = [[{k: v for k, v in row.items() if k != "timings"} for row in r.rows] for r in (straight, resumed)]
    assert plain[0] == plain[1]
    settings = json.loads((place / "run/adapters/v000004/adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"]) == (3, 6)
    with pytest.raises(CheckpointError, match=r"trained with lora .* the config says full weights"):
        learn(place, policy=resumed.policy)


@pytest.mark.slow
def test_the_next_phase_starts_from_what_collectors_loaded(collected, tmp_path):
    place = copied(collected, tmp_path)
    first = learn(place, *SETS)
    collect_epoch(place / "store", Puppet(read_policy_directory(first.policy)), *PLAYED)
    second = learn(place, *SETS, policy=first.policy)
    row = second.rows[0]
    assert row["ratio_max"] == pytest.approx(1, abs=1e-4)  # the merged weights say what the adapters say
    assert row["mismatch"] < 1e-5
    state = latest(place / "run" / "checkpoints").state
    base = read_policy_directory(place / "policy")
    assert (state.version, state.lora["base_sha256"]) == (second.version, base.sha256)
    # both adapters belong to the first policy: merged into it they are the exported policies
    for result in (first, second):
        adapter = place / "run" / "adapters" / f"v{result.version:06d}"
        model = AutoModelForCausalLM.from_pretrained(base.path, dtype=torch.float32, attn_implementation="eager")
        merged_by_peft = PeftModel.from_pretrained(model, adapter).merge_and_unload().state_dict()
        exported = load_file(result.policy / "model.safetensors")
        for name, weight in exported.items():
            torch.testing.assert_close(merged_by_peft[name], weight, atol=1e-6, rtol=1e-5, msg=name)


def test_another_number_of_ranks_needs_the_policy_that_the_adapters_belong_to(tmp_path):
    """DeepSpeed's universal form leaves frozen weights out."""
    policy = make_policy(tmp_path / "policy")
    lora = {"config": {}, "base": str(policy.path), "base_sha256": policy.sha256}
    found = Checkpoint(tmp_path, State("r", 0, 2, 2, False, "p", "t", "s", world_size=2, lora=lora))
    assert adapter_base(found) == policy.path
    make_policy(policy.path, seed=1)
    with pytest.raises(CheckpointError, match=r"which is not there as it was .*continue with 2 ranks"):
        adapter_base(found)


def test_half_precision_adapters_have_fp32_masters(tmp_path, make_datums):
    policy = make_policy(tmp_path / "policy")
    config = EngineConfig(zero=1, dtype="bfloat16")
    engine = open_engine(policy.path, ranks=join(), config=config, optimizer=OptimizerConfig(lr=1e-3), lora=LORA)
    row = engine.update(plan_packs(make_datums(LENGTHS), budget=100), Objective("cispo", 0.0, 5.0), version=0)
    assert row["grad_norm"] > 0
    masters = engine.deepspeed.optimizer.single_partition_of_fp32_groups
    trained = sum(t.numel() for n, t in engine.tensors().items() if ".lora_" in n)
    assert {m.dtype for m in masters} == {torch.float32}
    assert trained <= sum(m.numel() for m in masters) < trained + 8  # adapters alone, and padding
    assert {t.dtype for t in engine.weights().values()} == {torch.bfloat16}
