"""Faults of DeepSpeed that the engine guards against: each shown on the bare library, then absent from the engine.

The other number of ranks is in test_checkpoint.py, the empty rank under two processes in test_engine.py.
"""

import numpy as np
import pytest
import torch

from learn.attention import NAME
from learn.config import EngineConfig, OptimizerConfig
from learn.engine import Engine
from learn.network import Network
from learn.objective import Objective
from learn.packing import Pack, Plan, micro_batch, plan_packs
from learn.ranks import import_deepspeed, join
from tests.learn.test_engine import CISPO, LENGTHS, reference


@pytest.fixture
def build(tiny_model):
    ranks = join()

    def engine(zero=0, **optimizer):
        model = tiny_model()
        model.set_attn_implementation(NAME)
        settings = OptimizerConfig(lr=1e-2, **optimizer)
        return Engine(Network(model), ranks=ranks, config=EngineConfig(zero=zero), optimizer=settings)

    return engine


def bare(model, *, zero, **settings):
    """DeepSpeed as its documentation starts it, one micro-batch a step."""
    join()
    network = Network(model)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": zero},
        "zero_allow_untested_optimizer": True,
        **settings,
    }
    adam = torch.optim.AdamW(network.parameters(), lr=1e-2, eps=1.0)
    engine, *_ = import_deepspeed().initialize(model=network, optimizer=adam, config=config, dist_init_required=False)
    return engine


def norm_of(engine, plan):
    """Gradient norm of a step with several backward calls and no word about their border."""
    for pack in plan.packs:
        batch = micro_batch(pack)
        engine.backward(CISPO.total(engine(batch)[0], batch.tokens) / plan.n_trained)
    engine.step()
    return float(engine.get_global_grad_norm())


@pytest.mark.parametrize("zero", [1, 2])
def test_micro_batches_before_the_last_one_are_lost_without_a_border_and_not_here(build, tiny_model, make_datums, zero):
    datums = make_datums(LENGTHS)
    plan = plan_packs(datums, budget=14)
    assert len(plan.packs) > 2
    model = tiny_model()
    model.set_attn_implementation(NAME)
    _, (right,) = reference(tiny_model(), datums, 1, 1e-2)
    lost = norm_of(bare(model, zero=zero), plan)
    assert abs(lost / right - 1) > 0.1
    assert build(zero).update(plan, CISPO, version=0)["grad_norm"] == pytest.approx(right, rel=1e-4)


def weights_after(engine, plan):
    engine.update(plan, CISPO, version=0)
    return engine.weights()


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_gradients_are_clipped_where_the_config_says_and_never_by_default(build, tiny_model, make_datums, zero):
    """DeepSpeed clips at 1.0 when it is told nothing. eps=1 makes Adam's first step nearly that of the gradient."""
    datums = make_datums(LENGTHS)
    plan = plan_packs(datums, budget=1000)
    start = {name: p.detach() for name, p in tiny_model().named_parameters()}
    assert bare(tiny_model(), zero=1).gradient_clipping() == 1.0
    found = {}
    for clip in (1e9, 1.0, 0.1):
        engine = build(zero, gradient_clip=clip, eps=1.0, weight_decay=0.0)
        row = engine.update(plan, CISPO, version=0)
        assert row["grad_norm"] > 1  # the norm before clipping, whatever the bound
        steps = [(w - start[name]).pow(2).sum() for name, w in engine.weights().items()]
        found[clip] = float(torch.stack(steps).sum().sqrt())
    assert found[1e9] > 1.3 * found[1.0] > 1.3 * 4 * found[0.1]


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_rank_with_anchors_alone_adds_an_exact_zero_and_no_nan(build, make_datums, zero):
    """An anchor's own data may be as bad as can be: 0 times it must be 0."""
    datums = make_datums(LENGTHS)
    plan = plan_packs(datums, budget=14)
    bad = make_datums([6])[0]
    object.__setattr__(bad, "logprobs", np.where(bad.trained, -3e38, 0).astype(np.float32))
    padded = Plan((*plan.packs, Pack((bad,), anchor=True)), 1)
    with_anchor, without = build(zero), build(zero)
    rows = [engine.update(p, CISPO, version=0) for engine, p in ((with_anchor, padded), (without, plan))]
    for name in ("loss", "grad_norm", "ratio_max", "kl", "entropy"):
        assert rows[0][name] == pytest.approx(rows[1][name], rel=1e-6), name
    mine, theirs = with_anchor.weights(), without.weights()
    assert all(torch.allclose(weight, theirs[name], atol=1e-7) for name, weight in mine.items())


def test_an_empty_pack_gives_a_zero_with_a_graph(tiny_model, make_datums):
    model = tiny_model()
    model.set_attn_implementation(NAME)
    network = Network(model)
    batch = micro_batch(Pack((make_datums([6])[0],), anchor=True))
    total = Objective("cispo", 0.0, 5.0, kl_coef=1.0).total(network(batch)[0], batch.tokens)
    assert total.item() == 0
    total.backward()
    assert all(p.grad is not None and not p.grad.any() for p in network.parameters())
