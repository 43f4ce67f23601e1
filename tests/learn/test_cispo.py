"""The losses on golden numbers, and the two baselines beside them."""

import math

import pytest
import torch

from learn.cispo import cispo
from learn.objective import Objective, k3
from learn.sft import sft
from learn.tokens import Tokens
from learn.topr import topr


def tokens(logprobs, advantages, *, weight=None, segment=None):
    n = len(logprobs)
    return Tokens(
        logprobs=torch.tensor(logprobs),
        advantages=torch.tensor(advantages),
        weight=torch.ones(n) if weight is None else torch.tensor(weight),
        versions=torch.zeros(n, dtype=torch.int64),
        segment=torch.tensor(segment or [0] * n),
        n_segments=1 + max(segment or [0]),
    )


GOLDEN = tokens([-1.2, -0.5, -4.0, -0.05], [0.4, 0.4, -0.6, -0.6])
LOGPROBS = [-1.0, -0.5, -2.0, -0.1]


def test_golden_vector():
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    losses, coefficient = cispo(logprobs, GOLDEN)
    loss = losses.sum() / 4
    loss.backward()
    assert coefficient.tolist() == pytest.approx([1.2214027582, 1, 5, 0.9512294245], rel=1e-6)
    assert loss.item() == pytest.approx(-1.3421281656, rel=1e-6)
    assert logprobs.grad.tolist() == pytest.approx([-0.1221402758, -0.1, 0.75, 0.1426844137], rel=1e-6)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 1.3, 8.0])
def test_bounds_are_absolute_ratios(ratio):
    _, coefficient = cispo(torch.tensor([math.log(ratio) - 3]), tokens([-3.0], [1.0]))
    assert coefficient.item() == pytest.approx(min(ratio, 5.0), rel=1e-5)
    _, coefficient = cispo(torch.tensor([math.log(ratio) - 3]), tokens([-3.0], [1.0]), ratio_min=0.4, ratio_max=1.2)
    assert coefficient.item() == pytest.approx(min(max(ratio, 0.4), 1.2), rel=1e-5)


def test_a_huge_gap_stays_finite():
    logprobs = torch.tensor([-0.1], requires_grad=True)
    losses, _ = cispo(logprobs, tokens([-500.0], [1.0]))
    losses.sum().backward()
    assert logprobs.grad.item() == -5


def test_sft_trains_only_what_earned_credit():
    losses, weight = sft(torch.tensor(LOGPROBS), GOLDEN)
    assert weight.tolist() == [1, 1, 0, 0]
    assert losses.tolist() == [1.0, 0.5, 0.0, 0.0]


def test_topr_tapers_a_bad_sequence_by_its_own_ratio():
    logprobs = torch.tensor([-1.0, -0.5, -2.0, -0.1])
    batch = tokens([-1.5, -0.5, -1.0, -0.6], [1.0, 1.0, -1.0, -1.0], segment=[0, 0, 1, 1])
    losses, weight = topr(logprobs, batch)
    taper = math.exp(-1.0 + 0.5)
    assert weight.tolist() == pytest.approx([1, 1, taper, taper])
    assert losses.tolist() == pytest.approx([1.0, 0.5, -2 * taper, -0.1 * taper])


def test_anchors_add_an_exact_zero_with_a_graph():
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    anchor = tokens([-1.2, -0.5, -4.0, -0.05], [0.0] * 4, weight=[0.0] * 4)
    total = Objective("cispo", 0.0, 5.0, kl_coef=0.1).total(logprobs, anchor)
    total.backward()
    assert total.item() == 0
    assert logprobs.grad.tolist() == [0] * 4


def test_kl_brake_is_zero_at_the_start_and_pulls_back():
    start = torch.tensor([-1.0, -2.0])
    assert k3(start, start).tolist() == [0, 0]
    logprobs = torch.tensor([-0.5, -3.0], requires_grad=True)
    k3(logprobs, start).sum().backward()
    assert logprobs.grad[0] > 0 > logprobs.grad[1]  # descending moves both towards the start
