from dataclasses import replace

import pytest

from learn.model_shape import read_shape, shape_of
from learn.plan_memory import (
    Machine,
    Training,
    mixed_states,
    output_bytes,
    serving_memory,
    training_memory,
)
from sera_data.errors import ConfigError, UsageError

QWEN = read_shape("qwen3-4b")
GIB = 2**30


def test_the_shape_of_qwen3_4b_is_that_of_its_config():
    assert QWEN.body == 3_633_315_840  # 36 layers of q, k, v, o, gate, up, down
    assert QWEN.embedding == 388_956_160
    assert QWEN.parameters == 4_022_468_096
    assert QWEN.cache_bytes() == 147_456
    assert read_shape("qwen3-8b").parameters == 8_190_735_360  # untied: the vocabulary counts twice


def test_parameters_are_those_of_the_model_that_transformers_builds(tmp_path):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 96, "vocab_size": 128}
    for kind, more in (("qwen3", {"head_dim": 24}), ("qwen2", {}), ("llama", {}), ("mistral", {"head_dim": 16})):
        for tied in (True, False):
            config = AutoConfig.for_model(kind, **sizes, **more, tie_word_embeddings=tied)
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config)
            shape = shape_of(config.to_dict() | {"model_type": kind}, name=kind)
            assert shape.parameters == sum(p.numel() for p in model.parameters()), (kind, tied)


def test_models_that_are_not_counted_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="model_type 'qwen3_moe'"):
        shape_of({"model_type": "qwen3_moe"}, name="moe")
    with pytest.raises(ConfigError, match="hidden_size"):
        shape_of({"model_type": "qwen3"}, name="empty")
    with pytest.raises(UsageError, match=r"no model 'qwen3-5b'.*qwen3-4b"):
        read_shape("qwen3-5b")
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="JSON object"):
        read_shape(str(tmp_path))


@pytest.mark.parametrize("nodes,gpus", [(1, 1), (1, 8), (2, 8)])
def test_states_are_those_that_deepspeed_estimates(nodes, gpus):
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as stage3
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as stage2

    total, largest = QWEN.parameters, QWEN.largest_layer
    machine = Machine(nodes, gpus, 150e9)
    for offload in ("none", "optimizer"):
        host, device = stage2(total, gpus, nodes, cpu_offload=offload == "optimizer")
        found = mixed_states(total, 0, machine=machine, stage=2, offload=offload)
        assert found == pytest.approx((device, host), rel=1e-6)
    for offload in ("none", "optimizer", "parameters"):
        away = {"cpu_offload": offload != "none", "cpu_offload_params": offload == "parameters"}
        host, device, _ = stage3(total, largest, gpus, nodes, zero_init=True, **away)
        found = mixed_states(total, largest, machine=machine, stage=3, offload=offload)
        assert found == pytest.approx((device, host), rel=1e-6)


def test_higher_stages_never_need_more_on_many_gpus_and_one_gpu_gains_nothing():
    how = Training(recompute=True)
    many = [training_memory(QWEN, Machine(2, 8, 150e9), how, stage).parts["states"] for stage in (0, 1, 2)]
    assert many == sorted(many, reverse=True)
    one = [training_memory(QWEN, Machine(1, 1, 150e9), how, stage).parts["states"] for stage in (0, 1, 2)]
    assert one == [20 * QWEN.parameters] * 3


def test_the_output_layer_is_counted_as_the_learner_computes_it():
    from learn.plan_memory import KEEP, TILE
    from learn.vocabulary import peak_bytes

    for tokens, trained, chunk, precision in (
        (60_000, 1.0, 2048, "mixed"),
        (500, 0.4, 2048, "fp32"),
        (9, 1, 4, "fp32"),
    ):
        how = Training(tokens=tokens, trained=trained, chunk=chunk, precision=precision)
        size = 2 if precision == "mixed" else 4
        want = peak_bytes(round(tokens * trained), QWEN.vocabulary, QWEN.hidden, chunk=chunk, bytes_per_weight=size)
        assert output_bytes(QWEN, how) == want
    import learn.vocabulary as learner

    assert (learner.TILE, learner.KEEP) == (TILE, KEEP)
    assert output_bytes(QWEN, Training(tokens=60_000, trained=1.0)) < 2 * GIB


def test_qwen3_4b_fits_a_24_gb_gpu_with_adapters_and_not_with_full_weights():
    machine, how = Machine(1, 1, 24e9), Training(tokens=10_240, recompute=True)
    with_adapters = training_memory(QWEN, machine, replace(how, rank=16), 0)
    assert with_adapters.parts["states"] == 2 * QWEN.parameters + 20 * QWEN.adapters(16, how.targets)
    assert QWEN.adapters(16, how.targets) == 33_030_144
    assert with_adapters.total < machine.memory
    assert all(training_memory(QWEN, machine, how, stage).total > 3 * machine.memory for stage in (0, 1, 2, 3))
    held = training_memory(QWEN, machine, replace(how, offload="parameters"), 3)
    assert held.total < machine.memory < held.host  # the host takes what the GPU has no room for


def test_an_h200_holds_qwen3_4b_with_the_papers_micro_batch():
    memory = training_memory(QWEN, Machine(2, 8, 150e9), Training(tokens=60_000, recompute=True), 1)
    assert memory.total < 150e9 / 2
    served = serving_memory(QWEN, 150e9, context=10_240)
    assert 60 < served.sequences < 95


def test_an_unknown_target_of_adapters_is_refused():
    with pytest.raises(UsageError, match="no linear map 'lm_head'"):
        QWEN.adapters(8, ["q_proj", "lm_head"])


def test_frozen_start_weights_lie_whole_on_every_gpu():
    for precision, element in (("mixed", 2), ("fp32", 4)):
        how = Training(tokens=1000, recompute=True, precision=precision)
        for stage in (0, 3):
            machine = Machine(2, 8, 150e9)
            without, kept = (training_memory(QWEN, machine, h, stage) for h in (how, replace(how, start_kept=True)))
            assert "start" not in without.parts
            assert kept.parts["start"] == element * QWEN.parameters
            assert kept.total >= without.total + element * QWEN.parameters
