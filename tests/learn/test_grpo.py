"""The clipped surrogate: values and gradients of its four cases."""

from __future__ import annotations

import pytest
import torch

from learn.grpo import grpo
from learn.tokens import Tokens


def test_the_gradient_stops_where_the_advantage_pushes_out_of_the_bounds():
    old = torch.tensor([-1.0, -1.0, -1.0, -1.0])
    ratios = torch.tensor([1.5, 1.5, 0.5, 0.5])
    new = (old + ratios.log()).requires_grad_()
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])
    tokens = Tokens(old, signs, torch.ones(4), torch.zeros(4), torch.zeros(4, dtype=torch.long), 1)
    losses, weight = grpo(new, tokens, ratio_min=0.8, ratio_max=1.2)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([-1.2, 1.5, -0.5, 0.8])
    assert new.grad.tolist() == pytest.approx([0.0, 1.5, -0.5, 0.0])
    assert weight.tolist() == pytest.approx([1.2, 1.2, 0.8, 0.8])
