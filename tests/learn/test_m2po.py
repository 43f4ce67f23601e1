"""M2PO on numbers worked out by hand: the mask, the loss, its gradient, and one mask for a whole update."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learn.cispo import cispo
from learn.config import LearnConfig
from learn.engine import open_engine
from learn.m2po import highest_square, m2po, squares, trusted
from learn.objective import Objective
from learn.packing import plan_packs
from learn.ranks import join
from learn.tokens import Tokens
from sera_data.config import load_config
from tests.learn.puppet import make_policy


def tokens(log_ratios, advantages, *, weight=None):
    """Tokens whose log ratio under log-probabilities of -2 is as given."""
    n = len(log_ratios)
    return Tokens(
        logprobs=-2 - torch.tensor(log_ratios),
        advantages=torch.tensor(advantages),
        weight=torch.ones(n) if weight is None else torch.tensor(weight),
        versions=torch.zeros(n, dtype=torch.int64),
        segment=torch.zeros(n, dtype=torch.int64),
        n_segments=1,
    )


def test_golden_numbers():
    # squares .01 .04 .09 .25 .00; in order 0 .01 .04 .09 .25, their running means 0 .005 .01667 .035 .078: the last
    # one is left out at a bound of .04, and the line lies between .09 and .25
    batch = tokens([0.1, -0.2, 0.3, 0.5, 0.0], [1.0, -2.0, 0.5, 3.0, -1.0])
    logprobs = torch.full((5,), -2.0, requires_grad=True)
    assert highest_square(squares(logprobs, batch), bound=0.04) == pytest.approx(0.17, rel=1e-5)
    losses, weight = m2po(logprobs, batch)
    losses.sum().backward()
    expected = [1.105170918, 0.818730753, 1.349858808, 0.0, 1.0]
    assert weight.tolist() == pytest.approx(expected, rel=1e-5)
    # - weight * A * log pi, log pi = -2
    assert losses.tolist() == pytest.approx([2.210341836, -3.274923012, 1.349858808, 0, -2], rel=1e-5)
    assert logprobs.grad.tolist() == pytest.approx([-1.105170918, 1.637461506, -0.674929404, 0, 1], rel=1e-5)


def test_the_gradient_is_that_of_the_papers_product_of_ratio_and_advantage():
    batch = tokens([0.1, -0.2, 0.3, 0.5, 0.0], [1.0, -2.0, 0.5, 3.0, -1.0])
    ours, papers = (torch.full((5,), -2.0, requires_grad=True) for _ in range(2))
    m2po(ours, batch)[0].sum().backward()
    mask = torch.tensor([1.0, 1, 1, 0, 1])
    (-mask * (papers - batch.logprobs).exp() * batch.advantages).sum().backward()
    torch.testing.assert_close(ours.grad, papers.grad)


def test_fresh_data_lose_nothing_and_are_cispo():
    batch = tokens([0.1, -0.1, 0.0], [1.0, -1.0, 2.0])
    logprobs = torch.full((3,), -2.0)
    assert highest_square(squares(logprobs, batch), bound=0.04) == math.inf
    assert torch.equal(m2po(logprobs, batch)[0], cispo(logprobs, batch)[0])


def test_anchors_have_no_say_in_the_mask():
    batch = tokens([0.0, 9.0], [1.0, 0.0], weight=[1.0, 0.0])
    assert squares(torch.full((2,), -2.0), batch).tolist() == [0.0]


@given(
    st.lists(st.sampled_from([0.0, 0.01, 0.04, 0.09, 0.25, 1.0, 400.0]), min_size=1, max_size=30),
    st.sampled_from([0.004, 0.04, 0.3]),
)
def test_the_mean_is_within_the_bound_and_no_square_more_would_be(found, bound):
    values = torch.tensor(found, dtype=torch.float64)
    line = highest_square(values, bound=bound)
    kept = values[values <= line]
    assert not len(kept) or kept.mean() <= bound
    assert highest_square(values.flip(0), bound=bound) == line
    if line < math.inf:
        following = values[values > line].min()
        assert values[values <= following].mean() > bound or (values == following).sum() > 1


def test_the_mask_of_an_update_does_not_depend_on_its_split(make_datums, tmp_path):
    policy = make_policy(tmp_path / "policy")
    config = load_config(LearnConfig, None, ["loss.kind=m2po", "optimizer.lr=1e-3"])
    datums, rows, weights = make_datums([9, 12, 20, 6]), [], []
    for budget in (200, 24):
        engine = open_engine(policy.path, ranks=join(), config=config.engine, optimizer=config.optimizer)
        plan = plan_packs(datums, budget=budget)
        rows.append(engine.update(plan, Objective("m2po", 0.0, 5.0, m2_bound=4.0), version=0))
        weights.append(engine.weights())
    one, several = rows
    assert 0 < one["gaps"][0]["gated_share"] < 1
    assert one["gaps"][0]["gated_share"] == several["gaps"][0]["gated_share"]
    assert one["loss"] == pytest.approx(several["loss"], rel=1e-5)
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], atol=2e-5)


def test_what_the_objective_stops_is_what_the_loss_leaves_out():
    batch = tokens([0.1, -0.2, 0.3, 0.5, 0.0], [1.0] * 5)
    logprobs = torch.full((5,), -2.0)
    objective = Objective("m2po", 0.0, 5.0)
    assert objective.stopped(logprobs, batch).tolist() == [0, 0, 0, 1, 0]
    assert trusted(logprobs, batch, bound=0.01).tolist() == [1, 0, 0, 0, 1]
