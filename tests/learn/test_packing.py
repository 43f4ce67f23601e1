"""Packing and packed attention: plans, and equality with the plain model on every sequence alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learn.attention import NAME
from learn.config import EngineConfig
from learn.measures import Measures
from learn.network import Network
from learn.objective import Objective
from learn.packing import Pack, _best_fit, _spread, micro_batch, plan_packs
from sera_data.errors import ConfigError

LENGTHS = [5, 9, 2, 14, 7, 7, 3]
FORBIDDEN = [1, 4, 30]


class Row:
    def __init__(self, name, length):
        self.datum_id, self.length, self.n_trained = name, length, 1

    def __len__(self):
        return self.length


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 4), st.integers(50, 120))
@settings(max_examples=80, deadline=None)
def test_plan_holds_every_datum_once_within_the_budget(lengths, world, budget):
    datums = [Row(f"d{i}", n) for i, n in enumerate(lengths)]
    plan = plan_packs(datums, budget=budget, world_size=world)
    assert sorted(plan.datum_ids) == sorted(d.datum_id for d in datums)
    assert all(sum(map(len, pack.datums)) <= budget for pack in plan.packs)
    assert len({len(plan.of_rank(r)) for r in range(world)}) == 1
    assert all(pack.datums for pack in plan.packs)
    assert sum(pack.anchor for pack in plan.packs) < world
    assert plan_packs(datums, budget=budget, world_size=world).sha256 == plan.sha256


def test_many_micro_batches_are_filled():
    lengths = np.random.default_rng(0).lognormal(6, 0.8, 3000).clip(1, 4096).astype(int).tolist()
    plan = plan_packs([Row(f"d{i}", n) for i, n in enumerate(lengths)], budget=4096, world_size=2)
    assert sum(lengths) / (4096 * len(plan.packs)) > 0.98


def test_a_sequence_longer_than_the_budget_is_named(make_datums):
    with pytest.raises(ConfigError, match=r"d03 has 14 tokens.*13"):
        plan_packs(make_datums(LENGTHS), budget=13)


def test_no_datum_gives_an_empty_plan():
    plan = plan_packs([], budget=10, world_size=2)
    assert plan.packs == ()
    assert plan.n_trained == 0


def test_more_ranks_than_datums_are_kept_in_step(make_datums):
    plan = plan_packs(make_datums([5]), budget=100, world_size=4)
    assert [pack.anchor for pack in plan.packs] == [False, True, True, True]
    assert plan.datum_ids == ["d00"]


def naive_loss(model, datums, allowed, objective):
    """Full logits of every sequence alone; the loss by its definition."""
    total, n = 0.0, 0
    for d in datums:
        logits = model(input_ids=torch.as_tensor(d.token_ids, dtype=torch.int64)[None], use_cache=False).logits[0]
        if allowed is not None:
            logits = logits.masked_fill(~allowed, float("-inf"))
        logp = logits.float().log_softmax(-1)
        for t in range(len(d)):
            if d.trained[t]:
                current = logp[t - 1, d.token_ids[t]]
                ratio = (current.detach() - float(d.logprobs[t])).exp().clamp(0, objective.ratio_max)
                total = total - ratio * float(d.advantages[t]) * current
                n += 1
    return total / n


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("budget", [14, 20, 1000])
def test_packed_gradient_equals_the_naive_loss(tiny_model, make_datums, tied, masked, budget):
    datums = make_datums(LENGTHS, forbidden=FORBIDDEN)
    allowed = None
    if masked:
        allowed = torch.ones(37, dtype=torch.bool)
        allowed[FORBIDDEN] = False
    objective = Objective("cispo", 0.0, 5.0)
    reference = tiny_model(tied=tied)
    expected = naive_loss(reference, datums, allowed, objective)
    expected.backward()

    model = tiny_model(tied=tied)
    model.set_attn_implementation(NAME)
    network = Network(model, allowed=allowed, chunk=4)
    plan = plan_packs(datums, budget=budget)
    total = 0.0
    for pack in plan.packs:
        batch = micro_batch(pack)
        logprobs, _ = network(batch)
        loss = objective.total(logprobs, batch.tokens) / plan.n_trained
        loss.backward()
        total += loss.item()
    assert total == pytest.approx(expected.item(), abs=1e-5)
    theirs = dict(reference.named_parameters())
    mine = {name.removeprefix("model."): p for name, p in network.named_parameters()}
    assert mine.keys() == theirs.keys()
    for name, parameter in mine.items():
        torch.testing.assert_close(parameter.grad, theirs[name].grad, atol=1e-5, rtol=1e-4, msg=name)


def test_permuting_segments_changes_nothing(tiny_model, make_datums):
    datums = make_datums(LENGTHS)
    model = tiny_model()
    model.set_attn_implementation(NAME)
    network = Network(model)
    alone = {d.datum_id: network(micro_batch(Pack((d,))))[0] for d in datums}
    for order in (datums, datums[::-1], datums[3:] + datums[:3]):
        logprobs, _ = network(micro_batch(Pack(tuple(order))))
        torch.testing.assert_close(logprobs, torch.cat([alone[d.datum_id] for d in order]), atol=1e-6, rtol=1e-5)


def test_positions_restart_and_no_token_predicts_across_a_border(make_datums):
    datums = make_datums([3, 4])
    batch = micro_batch(Pack(tuple(datums)))
    assert batch.positions[0].tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert batch.segments.cumulative.tolist() == [0, 3, 7]
    assert 2 not in batch.before.tolist()  # the last token of the first sequence predicts nothing
    assert len(batch.targets) == sum(d.n_trained for d in datums)


@pytest.mark.parametrize("share", ["off", "on"])
def test_whole_numbers_of_a_micro_batch_take_four_bytes(make_datums, share):
    (pack,) = plan_packs(make_datums(LENGTHS), budget=1000, share=share).packs
    batch = micro_batch(pack)
    found = (batch.token_ids, batch.positions, batch.before, batch.targets, batch.tokens.versions, batch.tokens.segment)
    assert {tensor.dtype for tensor in found} == {torch.int32}


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(30, 60))
@settings(max_examples=80, deadline=None)
def test_parts_are_filled_as_they_are_described(sizes, budget):
    """Filling counts in one number a part; here in sums, the first of equal parts first."""
    order = sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True)
    full: list[list[int]] = []
    for place in order:
        rooms = [(budget - sum(sizes[i] for i in part), index) for index, part in enumerate(full)]
        fits = [index for room, index in sorted(rooms) if room >= sizes[place]]
        if not fits:
            full.append([])
        full[fits[0] if fits else -1].append(place)
    assert _best_fit(order, sizes, budget) == full
    even: list[list[int]] = [[] for _ in full]
    for place in order:
        min(even, key=lambda part: sum(sizes[i] for i in part)).append(place)
    fits = all(sum(sizes[i] for i in part) <= budget for part in even)
    assert _spread(order, sizes, len(full), budget) == (even if fits else None)


def test_attention_refuses_what_it_cannot_honour(tiny_model):
    model = tiny_model()
    model.set_attn_implementation(NAME)
    ids = torch.zeros(2, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match="one packed row"):
        model(input_ids=ids, use_cache=False)


def test_measures_of_parts_add_up(tiny_model, make_datums):
    datums = make_datums(LENGTHS)
    model = tiny_model()
    model.set_attn_implementation(NAME)
    network = Network(model)
    rows = []
    for budget in (14, 1000):
        measures = Measures()
        for pack in plan_packs(datums, budget=budget).packs:
            batch = micro_batch(pack)
            logprobs, entropies = network(batch)
            loss = Objective("cispo", 0.0, 5.0).total(logprobs, batch.tokens)
            measures.add(loss, logprobs, entropies, batch.tokens, ratio_max=5.0, version=3)
        rows.append(measures.row())
    assert rows[0] == pytest.approx(rows[1], rel=1e-5)
    assert rows[0]["version_gap_mean"] == 3
    assert 0 < rows[0]["ess"] <= 1


def test_micro_batches_grow_for_longer_sequences_up_to_a_limit():
    default, given = EngineConfig(), EngineConfig(tokens_per_micro_batch=600)
    assert [default.budget("cpu", longest) for longest in (0, 300, 1500, 9000)] == [1024, 1024, 1500, 2048]
    assert default.budget("cuda", 1500) == 32768
    assert given.budget("cpu", 1500) == 600
