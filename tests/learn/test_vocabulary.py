"""The chunked projection against autograd on full logits."""

import pytest
import torch
from torch import nn

import learn.vocabulary as module
from learn.vocabulary import TokenLogprob, Vocabulary

ALLOWED = torch.ones(13, dtype=torch.bool)
ALLOWED[[2, 5, 11]] = False


def naive(hidden, weight, targets, allowed, temperature):
    logits = hidden @ weight.T / temperature
    if allowed is not None:
        logits = logits.masked_fill(~allowed, float("-inf"))
    logp = logits.log_softmax(-1)
    entropy = -(logp.exp() * logp).nan_to_num(0.0).sum(-1)
    return logp.gather(1, targets[:, None])[:, 0], entropy


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
@pytest.mark.parametrize("allowed", [None, ALLOWED])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize(("tile", "keep"), [(2**24, 0), (2**24, 2**24), (12, 0), (12, 30), (1, 10**6)])
def test_equals_naive_log_softmax(chunk, allowed, temperature, tile, keep, monkeypatch):
    """In one tile and in many, with tiles kept, some of them, or none."""
    monkeypatch.setattr(module, "TILE", tile)
    torch.manual_seed(1)
    hidden, weight = torch.randn(7, 4), torch.randn(13, 4)
    targets, upstream = torch.tensor([0, 1, 3, 3, 12, 4, 6]), torch.randn(7)
    leaves = [(hidden.clone().requires_grad_(), weight.clone().requires_grad_()) for _ in range(2)]
    expected, entropy = naive(*leaves[0], targets, allowed, temperature)
    got, measured = TokenLogprob.apply(*leaves[1], targets, allowed, temperature, chunk, keep)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(measured, entropy, atol=1e-5, rtol=1e-5)
    assert not measured.requires_grad
    expected.backward(upstream)
    got.backward(upstream)
    for mine, theirs in zip(leaves[1], leaves[0], strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-6, rtol=1e-5)


def test_finite_differences():
    torch.manual_seed(2)
    hidden, weight = torch.randn(3, 4), torch.randn(13, 4)
    targets, step = torch.tensor([0, 3, 12]), 1e-2
    leaf = hidden.clone().requires_grad_()
    TokenLogprob.apply(leaf, weight, targets, ALLOWED, 1.0, 2)[0].sum().backward()
    for i in range(3):
        for j in range(4):
            moved = [hidden.clone(), hidden.clone()]
            moved[0][i, j] += step
            moved[1][i, j] -= step
            up, down = (TokenLogprob.apply(h, weight, targets, ALLOWED, 1.0, 2)[0].sum() for h in moved)
            assert leaf.grad[i, j].item() == pytest.approx(((up - down) / (2 * step)).item(), abs=2e-3)


def test_no_trained_token_gives_a_zero_with_a_graph():
    head = Vocabulary(nn.Parameter(torch.randn(13, 4)))
    hidden = torch.randn(0, 4, requires_grad=True)
    logprobs, _ = head(hidden, torch.zeros(0, dtype=torch.int64))
    logprobs.sum().backward()
    assert logprobs.sum().item() == 0
    assert head.weight.grad.abs().sum().item() == 0


def test_mask_is_not_part_of_the_weights():
    head = Vocabulary(nn.Parameter(torch.randn(13, 4)), allowed=ALLOWED)
    assert list(head.state_dict()) == ["weight"]


def test_half_precision_keeps_fp32_sums():
    torch.manual_seed(3)
    hidden, weight = torch.randn(5, 8).bfloat16(), torch.randn(13, 8).bfloat16()
    targets = torch.tensor([1, 2, 3, 4, 6])
    leaf = weight.clone().requires_grad_()
    got, _ = TokenLogprob.apply(hidden, leaf, targets, None, 1.0, 2)
    expected, _ = naive(hidden.float(), weight.float(), targets, None, 1.0)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    got.sum().backward()
    assert leaf.grad.dtype == torch.bfloat16


def test_a_second_backward_is_the_first():
    """Kept tiles are used up by the first one."""
    torch.manual_seed(4)
    hidden, weight = torch.randn(5, 4, requires_grad=True), torch.randn(13, 4, requires_grad=True)
    total = TokenLogprob.apply(hidden, weight, torch.arange(5), None, 1.0, 2, 40)[0].sum()
    first = torch.autograd.grad(total, (hidden, weight), retain_graph=True)
    second = torch.autograd.grad(total, (hidden, weight))
    for mine, theirs in zip(second, first, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_frozen_weight_gets_no_gradient():
    hidden, weight = torch.randn(5, 4, requires_grad=True), torch.randn(13, 4)
    TokenLogprob.apply(hidden, weight, torch.arange(5), None, 1.0, 2)[0].sum().backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_memory_is_bounded_by_the_chunk(monkeypatch):
    rows = []
    logits = module._logits

    def counted(hidden, *rest):
        rows.append(len(hidden))
        return logits(hidden, *rest)

    monkeypatch.setattr(module, "_logits", counted)
    weight = torch.randn(13, 4, requires_grad=True)
    out, _ = TokenLogprob.apply(torch.randn(50, 4), weight, torch.zeros(50, dtype=torch.int64), None, 1.0, 8)
    out.sum().backward()
    assert max(rows) == 8
    assert sum(rows) == 100
