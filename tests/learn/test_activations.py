"""Layers that keep less: the values of transformers' layers, the gradients of autograd, and less kept."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm

from learn.activations import RmsNorm, SiluGate, keep_less

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
MODELS = {"qwen3": (Qwen3Config, Qwen3ForCausalLM, 2 * 5 + 1), "llama": (LlamaConfig, LlamaForCausalLM, 2 * 3 + 1)}


def pair(name, dtype):
    config, kind, count = MODELS[name]
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        model = kind(config(**SIZES)).to(dtype)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        models.append(model)
    models[1].load_state_dict(models[0].state_dict())
    assert keep_less(models[1]) == count
    return models


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_values_and_gradients(name):
    plain, lean = pair(name, torch.float32)
    ids = torch.arange(40).reshape(2, 20) % 50
    outputs = [model(input_ids=ids, labels=ids).loss for model in (plain, lean)]
    assert torch.equal(*outputs)
    for loss in outputs:
        loss.backward()
    assert list(plain.state_dict()) == list(lean.state_dict())
    for (key, one), other in zip(plain.named_parameters(), lean.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-6, msg=key)


def test_half_precision_rounds_where_transformers_rounds():
    plain, lean = pair("qwen3", torch.bfloat16)
    ids = torch.arange(20)[None] % 50
    with torch.no_grad():
        assert torch.equal(plain(input_ids=ids).logits, lean(input_ids=ids).logits)


def test_gradients_are_those_of_finite_differences():
    draw = torch.Generator().manual_seed(1)
    x, up = (torch.randn(3, 4, 6, dtype=torch.float64, generator=draw, requires_grad=True) for _ in range(2))
    weight = torch.randn(6, dtype=torch.float64, generator=draw, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, w: RmsNorm.apply(a, w, 1e-6), (x, weight))
    assert torch.autograd.gradcheck(SiluGate.apply, (x, up))


def test_a_frozen_weight_gets_no_gradient():
    x, weight = torch.randn(4, 6, requires_grad=True), torch.ones(6)
    RmsNorm.apply(x, weight, 1e-6).sum().backward()
    assert x.grad is not None
    assert weight.grad is None


def kept(module, x):
    """Bytes that a layer keeps for backward, its input and its parameters apart."""
    found = {}
    mine = {x.data_ptr(), *(p.data_ptr() for p in module.parameters())}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: found.setdefault(t.data_ptr(), t), lambda t: t):
        out = module(x)
    return sum(t.nbytes for at, t in found.items() if at not in mine), out


def test_layers_keep_less():
    x = torch.randn(64, 32, requires_grad=True)
    for layer, share in ((Qwen3RMSNorm(32), 0.1), (Qwen3MLP(Qwen3Config(**SIZES)), 0.8)):
        before, _ = kept(layer, x)
        assert keep_less(layer) >= 1
        after, _ = kept(layer, x)
        assert after <= share * before


def test_other_layers_are_left_alone():
    gelu = Qwen3MLP(Qwen3Config(**SIZES, hidden_act="gelu"))
    assert keep_less(gelu) == 0
    assert keep_less(torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4))) == 0
