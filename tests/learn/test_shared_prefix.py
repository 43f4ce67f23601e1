"""Shared prefixes: the tree layout gives the losses and gradients of every sequence alone, and computes less."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen3Config, Qwen3ForCausalLM

from learn.attention import NAME
from learn.learn_progress import computed_share, describe
from learn.measures import Measures
from learn.network import Network
from learn.objective import Objective
from learn.packing import Pack, micro_batch, plan_packs
from learn.staleness import Stale
from sera_data.errors import ConfigError
from tests.learn.branching import datum_of, forests, story

CISPO = Objective("cispo", 0.0, 5.0)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=37,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    model = Qwen3ForCausalLM(config)
    model.set_attn_implementation(NAME)
    return Network(model, chunk=4)


def step(network, plan, objective=CISPO):
    """Loss, gradients by name, and measured figures of a plan; sequences of a `rows` plan may be packs of one."""
    network.zero_grad()
    measures, total = Measures([0]), 0.0
    for pack in plan.packs:
        batch = micro_batch(pack)
        logprobs, entropies = network(batch)
        loss = objective.total(logprobs, batch.tokens)
        (loss / plan.n_trained).backward()
        measures.add(loss, logprobs, entropies, batch.tokens, ratio_max=5.0, version=0)
        total += loss.item() / plan.n_trained
    return total, {name: p.grad.clone() for name, p in network.named_parameters()}, measures.row()


def alone(datums):
    """A plan of one datum a micro-batch: nothing packed, nothing shared."""
    return plan_packs(datums, budget=max(map(len, datums)), share="off")


def same(network, datums, plan, objective=CISPO):
    loss, grads, row = step(network, plan, objective)
    expected_loss, expected, expected_row = step(network, alone(datums), objective)
    assert loss == pytest.approx(expected_loss, abs=1e-5, rel=1e-5)
    assert row == pytest.approx(expected_row, rel=1e-4, abs=1e-5)
    for name, grad in grads.items():
        torch.testing.assert_close(grad, expected[name], atol=1e-5, rtol=1e-4, msg=name)


@given(forests(), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_tree_gradient_equals_that_of_each_sequence_alone(network, datums, extra):
    plan = plan_packs(datums, budget=max(map(len, datums)) + extra, share="on")
    assert {pack.layout for pack in plan.packs} == {"tree"}
    same(network, datums, plan)


@pytest.mark.parametrize("kind", ["cispo", "topr", "sft", "grpo"])
def test_every_loss_counts_a_shared_token_for_each_datum(network, kind):
    datums = story()
    plan = plan_packs(datums, budget=1000, share="on")
    same(network, datums, plan, Objective(kind, 0.0, 5.0, kl_coef=0.1, stale=Stale(9), min_ess=0.0))


def test_a_token_trained_twice_has_the_sum_of_both_gradients(network):
    ids, mask = [3, 1, 4, 1, 5], [False, True, True, True, True]
    one, other = datum_of("a", ids, mask, 1), datum_of("b", ids, mask, 2)
    batch = micro_batch(plan_packs([one, other], budget=100, share="on").packs[0])
    assert batch.token_ids.shape[1] == 5
    assert batch.targets.tolist() == [1, 4, 1, 5]  # predicted once
    assert batch.pick.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]  # counted twice
    assert batch.tokens.advantages.tolist() == [*one.advantages[1:], *other.advantages[1:]]
    same(network, [one, other], plan_packs([one, other], budget=100, share="on"))


def test_branches_of_one_delegation_share_up_to_the_middle_of_a_turn():
    datums = story()
    plan = plan_packs(datums, budget=1000, share="on")
    assert plan.n_computed == 25 + sum(len(d) - 25 for d in datums)
    batch = micro_batch(plan.packs[0])
    assert batch.positions[0].tolist() == [*range(25), *(p for d in datums for p in range(25, len(d)))]
    assert len(batch.segments.nodes) == 9
    # the last shared token predicts another one in each branch
    assert (batch.before == 24).sum() == 8


def test_recomputed_activations_give_the_same_gradient(network):
    datums = story()
    plan = plan_packs(datums, budget=1000, share="on")
    _, expected, _ = step(network, plan)
    network.train()
    network.model.gradient_checkpointing_enable({"use_reentrant": False})
    try:
        _, grads, _ = step(network, plan)
    finally:
        network.model.gradient_checkpointing_disable()
        network.eval()
    for name, grad in grads.items():
        torch.testing.assert_close(grad, expected[name], msg=name)


@given(forests(), st.integers(1, 4), st.integers(0, 40))
@settings(max_examples=80, deadline=None)
def test_plan_holds_every_datum_once_within_the_budget(datums, world, extra):
    budget = max(map(len, datums)) + extra
    plan = plan_packs(datums, budget=budget, world_size=world, share="on")
    assert sorted(plan.datum_ids) == sorted(d.datum_id for d in datums)
    assert len({len(plan.of_rank(r)) for r in range(world)}) == 1
    for pack in plan.packs:
        assert pack.n_computed == micro_batch(pack).token_ids.shape[1] <= budget
    assert plan.n_computed <= sum(map(len, datums))
    assert plan_packs(datums, budget=budget, world_size=world, share="on").sha256 == plan.sha256


def test_parts_are_balanced_by_what_they_compute():
    datums = [datum_of(f"d{i:02d}", [i // 4, *range(30)], [True] * 31, i) for i in range(16)]
    plan = plan_packs(datums, budget=70, share="on")
    assert [pack.n_computed for pack in plan.packs] == [62, 62]
    assert [pack.n_computed for pack in plan_packs(datums, budget=70, world_size=4, share="on").packs] == [31] * 4


def test_auto_shares_only_where_it_saves_enough():
    draw = np.random.default_rng(0)
    apart = [datum_of(f"d{i}", [i, *draw.integers(0, 9, 20)], [True] * 21, i) for i in range(4)]
    rows, auto = (plan_packs(apart, budget=100, share=share) for share in ("off", "auto"))
    assert auto.sha256 == rows.sha256
    assert {pack.layout for pack in auto.packs} == {"rows"}
    assert {pack.layout for pack in plan_packs(story(), budget=100, share="auto").packs} == {"tree"}


def test_the_hash_of_a_plan_tells_the_layouts_apart():
    plans = [plan_packs(story(), budget=1000, share=share) for share in ("on", "off")]
    assert plans[0].datum_ids == plans[1].datum_ids
    assert plans[0].sha256 != plans[1].sha256


def test_a_sequence_longer_than_the_budget_is_named():
    with pytest.raises(ConfigError, match=r"d07 has 37 tokens.*36"):
        plan_packs(story(), budget=36, share="on")


def test_an_anchor_is_a_row_of_one_datum():
    plan = plan_packs(story()[:1], budget=100, world_size=2, share="on")
    assert [(pack.anchor, pack.layout) for pack in plan.packs] == [(False, "tree"), (True, "rows")]
    assert isinstance(plan.packs[1], Pack)
    assert plan.n_computed == len(story()[0])


def test_the_output_of_a_phase_says_what_was_shared():
    row = {"version_in": 0, "stage": "execution", "skip_reason": None, "n_datums": 8, "timings": {"total_s": 2.0}}
    row |= dict.fromkeys(("loss", "grad_norm", "entropy", "ratio_mean"), 0.0)
    shared = {**row, "n_tokens": 400, "n_computed_tokens": 100}
    apart = {**row, "n_tokens": 100, "n_computed_tokens": 100}
    skipped = {**row, "skip_reason": "nothing", "n_tokens": 0, "n_computed_tokens": 0}
    assert describe(shared).endswith("200 tokens/s  25% computed")
    assert describe(apart).endswith("50 tokens/s")
    assert computed_share([shared, apart, skipped]) == 0.4
    stored = {**row, "n_tokens": 400}  # read back from the store, which has no column for it
    assert describe(stored).endswith("200 tokens/s")
    assert computed_share([stored, skipped]) is None
