"""Attention on flat rows and the thin last layer: values and gradients of transformers' own layers."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from learn.attention import NAME, Segments
from learn.heads import TurnedHeads, flatten_heads
from learn.last_layer import thin
from learn.rows_attention import attend_rows

MODELS = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}
LENGTHS = (7, 1, 12)
CHOSEN = [0, 3, 5, 7, 11, 11, 19]


def backbone(name, dtype=torch.float32):
    torch.manual_seed(0)
    config, kind = MODELS[name]
    model = kind(
        config(
            vocab_size=50,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            attn_implementation=NAME,
        )
    ).model.to(dtype)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def call(model, **wanted):
    lengths = torch.tensor([0, *LENGTHS])
    positions = torch.cat([torch.arange(n) for n in LENGTHS])
    segments = Segments(LENGTHS, lengths.cumsum(0).int())
    ids = torch.arange(sum(LENGTHS)) * 7 % 50
    return model(
        input_ids=ids[None], position_ids=positions[None], segments=segments, use_cache=False, **wanted
    ).last_hidden_state


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_chosen_positions_and_all_gradients_are_those_of_the_whole_model(name, recompute):
    plain, lean = backbone(name), backbone(name)
    assert flatten_heads(lean) == 2
    assert thin(lean)
    if recompute:
        lean.train().gradient_checkpointing_enable({"use_reentrant": False})
    chosen = torch.tensor(CHOSEN)
    torch.testing.assert_close(call(lean), call(plain), atol=1e-5, rtol=1e-5)
    found, expected = call(lean, predicting=chosen), call(plain).index_select(1, chosen)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    draw = torch.Generator().manual_seed(1)
    upstream = torch.randn(expected.shape, generator=draw) / 8
    found.backward(upstream)
    expected.backward(upstream)
    assert list(plain.state_dict()) == list(lean.state_dict())
    for (key, one), other in zip(plain.named_parameters(), lean.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, atol=1e-5, rtol=1e-4, msg=key)


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_rounds_where_transformers_rounds(name):
    plain, lean = backbone(name, torch.bfloat16), backbone(name, torch.bfloat16)
    assert thin(lean)
    chosen = torch.tensor(CHOSEN)
    with torch.no_grad():
        assert torch.equal(call(lean), call(plain))
        close = {"atol": 0.02, "rtol": 0.02}  # a product with fewer rows may add up in another order
        torch.testing.assert_close(call(lean, predicting=chosen), call(plain).index_select(1, chosen), **close)


def test_less_is_kept_where_less_is_predicted():
    lean = backbone("qwen3")
    assert thin(lean)

    def kept(**wanted):
        found = {}

        def note(tensor):
            found[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            out = call(lean, **wanted)
        assert out.requires_grad
        return sum(t.untyped_storage().nbytes() for t in found.values())

    rows = sum(LENGTHS) - 2
    assert kept() - kept(predicting=torch.tensor([4, 9])) >= rows * 4 * 3 * 48  # the feed-forward's three at least


def test_gradients_of_turned_heads_are_those_of_finite_differences():
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(1, 5, 2, 6, dtype=torch.float64, generator=draw, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, generator=draw, requires_grad=True)
    angles = torch.randn(1, 5, 3, dtype=torch.float64, generator=draw).repeat(1, 1, 2)
    turn = angles.cos(), angles.sin()
    assert torch.autograd.gradcheck(lambda a, w: TurnedHeads.apply(a, w, 1e-6, *turn), (x, weight))
    assert torch.autograd.gradcheck(lambda a: TurnedHeads.apply(a, None, 0.0, *turn), (x,))


@pytest.mark.parametrize("lengths", [LENGTHS, (20,)])
def test_rows_attend_like_every_sequence_alone(lengths):
    draw = torch.Generator().manual_seed(1)
    mine = [torch.randn(1, 20, n, 8, generator=draw).transpose(1, 2).requires_grad_() for n in (4, 2, 2)]
    theirs = [t.detach().clone().requires_grad_() for t in mine]
    found = attend_rows(*mine, lengths)
    parts = zip(*(t.split(lengths, dim=2) for t in theirs), strict=True)
    expected = torch.cat([scaled_dot_product_attention(*p, is_causal=True, enable_gqa=True) for p in parts], dim=2)
    assert found.transpose(1, 2).is_contiguous()
    torch.testing.assert_close(found, expected)
    upstream = torch.randn(found.shape, generator=draw)
    found.backward(upstream)
    expected.backward(upstream)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_other_models_and_other_attention_are_left_alone():
    model = backbone("qwen3")
    model.set_attn_implementation("sdpa")
    assert flatten_heads(model) == 0
    assert not thin(model)
    assert not thin(torch.nn.Linear(2, 2))
