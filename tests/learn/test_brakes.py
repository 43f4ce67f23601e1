"""The brakes: each off leaves the loss bitwise alone, each on does what it says; the start weights of old data."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learn.config import LearnConfig
from learn.engine import open_engine
from learn.network import load_network
from learn.objective import LOSSES, Objective, k3, objective_of
from learn.packing import micro_batch, plan_packs
from learn.ranks import join
from learn.reference import StartWeights, with_reference
from learn.staleness import Stale
from learn.tokens import Tokens
from sera_data.config import load_config
from sera_data.errors import ConfigError
from tests.learn.puppet import make_policy

OFF = {"kl_coef": 0.0, "veto": 0.0, "entropy_floor": 0.0}
numbers = st.integers(-900, -1).map(lambda hundredths: hundredths / 100)


@st.composite
def batches(draw):
    n = draw(st.integers(1, 12))
    column = st.lists(numbers, min_size=n, max_size=n)
    batch = Tokens(
        logprobs=torch.tensor(draw(column)),
        advantages=torch.tensor(draw(column)) + 4,
        weight=torch.ones(n),
        versions=torch.tensor(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))),
        segment=torch.zeros(n, dtype=torch.int64),
        n_segments=1,
    )
    return torch.tensor(draw(column)), batch


@given(batches(), st.sampled_from(sorted(LOSSES)))
@settings(max_examples=60, deadline=None)
def test_each_brake_off_gives_bitwise_the_loss_and_gradient_without_brakes(drawn, kind):
    current, batch = drawn
    found = []
    for brakes in ({}, OFF, {"veto": 1e-30}, {"entropy_floor": 3.0}):
        logprobs = current.clone().requires_grad_(True)
        total = Objective(kind, 0.0, 5.0, stale=Stale(9), **brakes).total(logprobs, batch)
        total.backward()
        found.append((total.detach(), logprobs.grad))
    plain = current.clone().requires_grad_(True)
    losses = LOSSES[kind](plain, batch, ratio_min=0.0, ratio_max=5.0)[0]
    if kind in ("topr", "sft", "m2po"):  # the others treat old tokens otherwise
        losses.sum().backward()
        found.append((losses.sum().detach(), plain.grad))
    assert all(torch.equal(total, found[0][0]) and torch.equal(grad, found[0][1]) for total, grad in found)


def test_the_veto_takes_the_push_from_unlikely_tokens_and_nothing_else():
    batch = Tokens(
        logprobs=torch.tensor([-5.0, -5.0, -1.0, -5.0]),
        advantages=torch.tensor([-1.0, 1.0, -1.0, -1.0]),
        weight=torch.ones(4),
        versions=torch.zeros(4, dtype=torch.int64),
        segment=torch.zeros(4, dtype=torch.int64),
        n_segments=1,
    )
    logprobs = torch.tensor([-5.0, -5.0, -1.0, -4.5], requires_grad=True)
    objective = Objective("cispo", 0.0, 5.0, veto=0.01)  # log .01 = -4.605
    objective.total(logprobs, batch).backward()
    assert logprobs.grad.tolist() == pytest.approx([0, -1, 1, math.exp(0.5)])
    assert objective.vetoed(logprobs, batch).tolist() == [1, 0, 0, 0]


def test_the_kl_pulls_to_the_start_weights_and_not_to_those_that_sampled():
    stored, start = torch.tensor([-1.0]), torch.tensor([-2.0])
    ones, zero = torch.ones(1), torch.zeros(1, dtype=torch.int64)
    batch = Tokens(stored, torch.zeros(1), ones, zero, zero, 1)
    objective = Objective("cispo", 0.0, 5.0, kl_coef=0.5)
    current = torch.tensor([-1.5])
    assert objective.total(current, batch).item() == pytest.approx(0.5 * k3(current, stored).item())
    moved = replace(batch, reference=start)
    assert objective.total(current, moved).item() == pytest.approx(0.5 * k3(current, start).item())


@pytest.fixture
def policy(tmp_path):
    return make_policy(tmp_path / "policy")


def test_start_weights_are_loaded_for_data_of_other_weights_only(policy, make_datum):
    def start(*settings):
        config = load_config(LearnConfig, None, list(settings))
        return StartWeights(policy.path, version=3, config=config, place=torch.device("cpu"), half=False)

    fresh, old = [make_datum("a", 9, version=3)], [make_datum("a", 9, version=3), make_datum("b", 9, version=1)]
    assert start().wanted("rubric", old) is None
    braked = start("loss.kl_coef={rubric: 0.1}")
    assert braked.wanted("rubric", fresh) is None
    assert braked.wanted("execution", old) is None
    network = braked.wanted("rubric", old)
    assert network is braked.wanted("rubric", old)
    assert not any(parameter.requires_grad for parameter in network.parameters())
    batch = micro_batch(plan_packs(old, budget=64).packs[0])
    same = load_network(policy.path, dtype=torch.float32)(batch)[0]
    assert torch.equal(with_reference(batch, network).tokens.reference, same.detach())


def test_on_old_data_the_pull_is_nothing_at_the_start_and_grows_with_the_distance(policy, make_datums):
    config = load_config(LearnConfig, None, ["loss.kl_coef=1", "loss.kind=topr", "optimizer.lr=1e-2"])
    plan = plan_packs([replace(d, advantages=0 * d.advantages) for d in make_datums([9, 12])], budget=64)
    start = StartWeights(policy.path, version=5, config=config, place=torch.device("cpu"), half=False)
    frozen = start.wanted("execution", [d for pack in plan.packs for d in pack.datums])
    engine = open_engine(policy.path, ranks=join(), config=config.engine, optimizer=config.optimizer)
    objective = objective_of(config, "execution", 5)
    first = engine.update(plan, objective, version=5, start=frozen)
    assert first["loss"] == pytest.approx(0, abs=1e-9)
    assert first["kl"] > 0.01  # the stored log-probabilities are those of other weights
    moved = engine.update(plan, Objective("cispo", 0.0, 5.0), version=5)  # weight decay moves the weights
    assert moved["grad_norm"] == 0
    assert engine.update(plan, objective, version=5, start=frozen)["loss"] > 0


def test_below_the_entropy_floor_no_weight_changes(policy, make_datums):
    config = load_config(LearnConfig, None, [])
    engine = open_engine(policy.path, ranks=join(), config=config.engine, optimizer=config.optimizer)
    plan, before = plan_packs(make_datums([9, 12]), budget=64), engine.weights()
    row = engine.update(plan, Objective("cispo", 0.0, 5.0, entropy_floor=50.0), version=0)
    assert list(row) == ["skip_reason"]
    assert "below loss.entropy_floor 50: the phase ends here, no weight was changed" in row["skip_reason"]
    assert all(torch.equal(before[name], value) for name, value in engine.weights().items())


def test_brakes_are_a_number_or_one_per_stage_and_checked():
    config = load_config(
        LearnConfig, None, ["loss.veto={rubric: 1e-3}", "loss.entropy_floor=0.05", "loss.m2_bound=0.01"]
    )
    rubric, execution = (objective_of(config, stage, 0) for stage in ("rubric", "execution"))
    assert (rubric.veto, execution.veto) == (1e-3, 0.0)
    assert (rubric.entropy_floor, rubric.m2_bound) == (0.05, 0.01)
    for setting, message in (
        ("loss.veto=1", "veto is a probability below 1"),
        ("loss.veto=-0.1", "veto is 0 or more"),
        ("loss.entropy_floor={rubric: -1}", "entropy_floor is 0 or more, got -1.0 for rubric"),
        ("loss.m2_bound=0", "greater than 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(LearnConfig, None, [setting])
