"""Old data: bounds and the sequence gate by version gap, figures for each gap, and what is refused."""

import numpy as np
import pytest
import torch

from learn.cispo import cispo
from learn.config import LearnConfig, LossConfig
from learn.engine import StaleDataError, open_engine
from learn.learn_progress import by_gap, gate_word
from learn.measures import Measures
from learn.objective import Objective, objective_of
from learn.packing import plan_packs
from learn.ranks import join
from learn.staleness import Stale
from learn.tokens import Tokens
from sera_data.config import load_config
from tests.learn.puppet import make_policy


def tokens(ratios, versions, segments):
    """Tokens whose ratio under logprobs of 0 is as given."""
    n = len(ratios)
    return Tokens(
        logprobs=-torch.log(torch.tensor(ratios)),
        advantages=torch.ones(n),
        weight=torch.ones(n),
        versions=torch.tensor(versions),
        segment=torch.tensor(segments),
        n_segments=max(segments) + 1,
    )


def gradient(objective, batch):
    logprobs = torch.zeros(len(batch.logprobs), requires_grad=True)
    objective.total(logprobs, batch).backward()
    return [round(-value, 4) for value in logprobs.grad.tolist()]


@pytest.mark.parametrize(("gap", "weights"), [(0, [5, 1, 0.1]), (4, [5, 1, 0.1]), (5, [2, 1, 0.1]), (30, [2, 1, 0.1])])
def test_the_ratio_is_cut_at_five_up_to_a_gap_of_four_and_at_two_beyond(gap, weights):
    batch = tokens([8.0, 1.0, 0.1], [20 - gap] * 3, [0, 0, 0])
    assert gradient(Objective("cispo", 0.0, 5.0, stale=Stale(20)), batch) == weights


def test_a_lower_bound_of_ones_own_holds_at_every_gap():
    batch = tokens([1.9], [0], [0])
    assert gradient(Objective("cispo", 0.0, 1.5, stale=Stale(20)), batch) == [1.5]


def test_the_gate_stops_stale_sequences_by_their_geometric_mean_and_no_fresh_one():
    ratios = [8.0, 8.0, 0.2, 4.9, 0.1, 0.1, 8.0, 8.0]
    batch = tokens(ratios, [0, 0, 0, 0, 0, 0, 16, 16], [0, 0, 1, 1, 2, 2, 3, 3])
    # means: 8, sqrt(0.98), 0.1 at gap 20, and 8 at gap 4
    assert gradient(Objective("cispo", 0.0, 5.0, stale=Stale(20)), batch) == [0, 0, 0.2, 2, 0, 0, 5, 5]
    assert Objective("cispo", 0.0, 5.0, stale=Stale(20)).stopped(torch.zeros(8), batch).tolist() == [
        1, 1, 0, 0, 1, 1, 0, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["topr", "sft"])
def test_losses_that_are_safe_at_any_age_are_left_alone(kind):
    batch = tokens([8.0, 0.1], [0, 0], [0, 1])
    old, plain = (Objective(kind, 0.0, 5.0, stale=stale) for stale in (Stale(20), None))
    assert gradient(old, batch) == gradient(plain, batch)
    assert old.stopped(torch.zeros(2), batch).sum() == 0


def test_fresh_data_lose_nothing():
    draw = np.random.default_rng(0)
    batch = tokens(draw.uniform(0.01, 9, 40).tolist(), [18] * 40, sorted(draw.integers(0, 5, 40).tolist()))
    plain = cispo(torch.zeros(40), batch)[1]
    assert gradient(Objective("cispo", 0.0, 5.0, stale=Stale(20)), batch) == [round(v, 4) for v in plain.tolist()]


def test_figures_for_each_gap_add_up_to_those_of_the_whole():
    draw = np.random.default_rng(1)
    versions = draw.integers(0, 3, 30).tolist()
    batch = tokens(draw.uniform(0.1, 8, 30).tolist(), versions, list(range(30)))
    objective, measures = Objective("cispo", 0.0, 5.0, stale=Stale(6)), Measures([4, 5, 6])
    zeros = torch.zeros(30)
    for part in (slice(0, 11), slice(11, 30)):
        piece = Tokens(
            batch.logprobs[part], batch.advantages[part], batch.weight[part], batch.versions[part],
            torch.arange(len(zeros[part])), len(zeros[part]),
        )  # fmt: skip
        stopped = objective.stopped(zeros[part], piece)
        cap = objective.cap(piece)
        measures.add(torch.zeros(()), zeros[part], zeros[part], piece, ratio_max=cap, version=6, stopped=stopped)
    rows = measures.gap_rows(fresh_gap=4)
    ratios = np.exp(-batch.logprobs.numpy().astype(float))
    for row in rows:
        own = ratios[np.array(versions) == 6 - row["gap"]]
        assert row["tokens"] == len(own)
        assert row["ratio_mean"] == pytest.approx(own.mean(), rel=1e-5)
        assert row["ratio_max"] == pytest.approx(own.max(), rel=1e-5)
        assert row["ess"] == pytest.approx(own.sum() ** 2 / (len(own) * (own**2).sum()), rel=1e-5)
        assert row["kl"] == pytest.approx((own - 1 - np.log(own)).mean(), rel=1e-4)
        assert row["clip_share"] == pytest.approx((own > (5 if row["gap"] == 4 else 2)).mean())
        gated = 0 if row["gap"] == 4 else ((own > 2) | (own < 0.5)).mean()
        assert row["gated_share"] == pytest.approx(gated)
    assert sum(row["tokens"] for row in rows) == 30
    assert measures.row()["clip_share"] == pytest.approx(sum(r["clip_share"] * r["tokens"] for r in rows) / 30)


def test_an_update_without_effective_samples_changes_no_weight(make_datums, tmp_path):
    policy, config = make_policy(tmp_path / "policy"), load_config(LearnConfig, None, [])
    engine = open_engine(policy.path, ranks=join(), config=config.engine, optimizer=config.optimizer)
    plan = plan_packs(make_datums([9, 12, 20]), budget=64)
    before = engine.weights()
    with pytest.raises(StaleDataError, match=r"effective sample size 0\.\d+ at version 0, want 0.99 or more"):
        engine.update(plan, Objective("cispo", 0.0, 5.0, min_ess=0.99), version=0)
    assert all(torch.equal(before[name], value) for name, value in engine.weights().items())


def test_the_settings_reach_the_objective():
    settings = ["loss.stale.fresh_gap=2", "loss.stale.ratio_max=1.5", "loss.stale.min_ess=0.3"]
    config = load_config(LearnConfig, None, settings)
    objective = objective_of(config, "rubric", 7)
    assert (objective.stale.version, objective.stale.fresh_gap, objective.stale.ratio_max) == (7, 2, 1.5)
    assert objective.min_ess == 0.3
    safe = load_config(LearnConfig, None, ["loss.kind=topr"])
    assert objective_of(safe, "rubric", 7).min_ess == 0
    assert LossConfig().stale.limit == 30


def test_the_output_names_figures_by_stage_and_gap_and_an_inert_gate():
    def part(gap, tokens, ratio, *, gated=0.0, stale=0.0):
        means = dict.fromkeys(("clip_share", "vetoed_share", "ess", "kl", "mismatch"), ratio)
        return {"gap": gap, "tokens": tokens, "ratio_mean": ratio, "ratio_max": ratio, "gated_share": gated, **means,
                "stale": stale}  # fmt: skip

    rows = [{"stage": "rubric", "gaps": [part(0, 1, 1.0)]}, {"stage": "rubric", "gaps": [part(0, 3, 2.0)]}]
    (merged,) = by_gap(rows)
    assert (merged["stage"], merged["gap"], merged["tokens"]) == ("rubric", 0, 4)
    assert (merged["ratio_mean"], merged["ratio_max"]) == (1.75, 2.0)
    assert gate_word(rows) == "unused"
    assert gate_word([*rows, {"stage": "rubric", "gaps": [part(9, 3, 1.0, stale=1.0)]}]) == "inert"
    assert gate_word([{"stage": "rubric", "gaps": [part(9, 3, 1.0, gated=0.1, stale=1.0)]}]) == "fired"
    assert by_gap([{"stage": "rubric", "skip_reason": "none left"}]) == []
