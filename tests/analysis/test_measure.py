"""Every metric against scikit-learn, scipy or numpy; intervals against a numpy cluster bootstrap."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss, cohen_kappa_score, recall_score, roc_auc_score
from statsmodels.stats.inter_rater import cohens_kappa

from analysis import measure
from analysis.metrics import CHECKS, METRICS, SECTIONS
from analysis.sections import SECTIONS as AUDIT_SECTIONS

sys.path.insert(0, str(Path(__file__).parent))
from scored_rows import connection, scored_row, scored_rows

FIXTURES = {
    "grid": {"seed": 1},
    "coarse": {"seed": 2, "grid": 0.5, "tasks": 12},
    "no_signal": {"seed": 3, "signal": 0.0},
    "continuous": {"seed": 4, "grid": None},
    "small": {"seed": 5, "tasks": 4, "delegations": 2},
}


def audited(rows, **options):
    con = connection(rows)
    measure.prepare(con, **{"reps": 0, **options})
    return con


def values(rows):
    return {name: e.value for name, e in measure.slices(audited(rows))[0].metrics.items()}


def columns(rows):
    return np.array([round(r["score"], 9) for r in rows]), np.array([r["y"] for r in rows])


def numpy_pairs(rows):
    """(gap, delegation) of every success x failure pair, by plain loops."""
    groups = {}
    for r in rows:
        groups.setdefault(r["delegation_id"], []).append((round(r["score"], 9), r["y"]))
    return [
        (round(s1 - s0, 9), name) for name, g in groups.items() for s1, y1 in g for s0, y0 in g if y1 == 1 and y0 == 0
    ]


@pytest.fixture(params=FIXTURES, scope="module")
def made(request):
    """Rows and what was measured on them."""
    rows = scored_rows(**FIXTURES[request.param])
    return rows, values(rows)


def test_rank_metrics_equal_sklearn_and_scipy(made):
    rows, got = made
    score, y = columns(rows)
    assert got["auroc"] == pytest.approx(roc_auc_score(y, score), abs=1e-9)
    assert got["spearman"] == pytest.approx(stats.spearmanr(score, y).statistic, abs=1e-9)
    assert got["kendall"] == pytest.approx(stats.kendalltau(score, y).statistic, abs=1e-9)


def test_brier_equals_sklearn_and_decomposes_exactly(made):
    rows, got = made
    score, y = columns(rows)
    assert got["brier"] == pytest.approx(brier_score_loss(y, score), abs=1e-9)
    assert got["brier"] == pytest.approx(got["reliability"] - got["resolution"] + got["uncertainty"], abs=1e-9)
    assert got["uncertainty"] == pytest.approx(y.mean() * (1 - y.mean()), abs=1e-9)
    assert got["skill"] == pytest.approx(1 - brier_score_loss(y, score) / (y.mean() * (1 - y.mean())), abs=1e-9)


def test_calibration_equals_numpy(made):
    rows, got = made
    score, y = columns(rows)
    cells = [(s, y[score == s]) for s in np.unique(score)]
    gaps = [abs(s - a.mean()) for s, a in cells]
    assert got["ece"] == pytest.approx(sum(len(a) * g for (_, a), g in zip(cells, gaps, strict=True)) / len(y))
    assert got["max_gap"] == pytest.approx(max(gaps))
    assert got["bias"] == pytest.approx(score.mean() - y.mean(), abs=1e-9)
    repeated = [(s, a) for s, a in cells if len(a) > 1]
    assert got["repeated"] == pytest.approx(sum(len(a) for _, a in repeated) / len(y))
    if repeated:  # unbiased squared error of Kumar et al.: (s - a)^2 - a(1 - a)/(n - 1), weighted by n
        square = sum(len(a) * ((s - a.mean()) ** 2 - a.mean() * (1 - a.mean()) / (len(a) - 1)) for s, a in repeated)
        assert got["l2_squared"] == pytest.approx(square / len(y), abs=1e-9)


def test_binned_calibration_never_splits_ties_and_equals_numpy(made):
    rows, got = made
    score, y = columns(rows)
    k = math.ceil(round(len(y) ** (1 / 3), 9))
    middle = stats.rankdata(score) - 0.5
    bins = np.minimum(np.floor(middle / len(y) * k), k - 1)
    parts = [(score[bins == b], y[bins == b]) for b in np.unique(bins)]
    assert got["ece_bins"] == pytest.approx(sum(len(a) * abs(s.mean() - a.mean()) for s, a in parts) / len(y))
    square = sum(
        len(a) * ((s.mean() - a.mean()) ** 2 - a.mean() * (1 - a.mean()) / (len(a) - 1)) for s, a in parts if len(a) > 1
    )
    assert got["l2_squared_bins"] == pytest.approx(square / len(y), abs=1e-9)


def test_pair_metrics_equal_plain_loops(made):
    rows, got = made
    gaps = np.array([gap for gap, _ in numpy_pairs(rows)])
    assert got["pair_accuracy"] == pytest.approx(np.mean((gaps > 0) + 0.5 * (gaps == 0)))
    assert got["pair_accuracy_strict"] == pytest.approx(np.mean(gaps > 0))
    assert got["tie_rate"] == pytest.approx(np.mean(gaps == 0))
    assert got["margin_violation"] == pytest.approx(np.mean(gaps < 0.2))
    assert got["mean_hinge"] == pytest.approx(np.mean(np.maximum(0, 0.2 - gaps)))
    assert got["mean_gap"] == pytest.approx(np.mean(gaps))


def test_group_metrics_equal_sklearn_per_delegation(made):
    rows, got = made
    groups = {}
    for r in rows:
        groups.setdefault(r["delegation_id"], []).append((round(r["score"], 9), r["y"]))
    mixed = [np.array(g) for g in groups.values() if 0 < sum(y for _, y in g) < len(g)]
    assert got["auroc_within"] == pytest.approx(np.mean([roc_auc_score(g[:, 1], g[:, 0]) for g in mixed]))
    by_group = {}
    for gap, name in numpy_pairs(rows):
        by_group.setdefault(name, []).append(gap)
    assert got["group_hinge"] == pytest.approx(
        np.mean([np.mean(np.maximum(0, 0.2 - np.array(g))) for g in by_group.values()])
    )
    assert got["group_accuracy_strict"] == pytest.approx(np.mean([np.mean(np.array(g) > 0) for g in by_group.values()]))


def test_rank_within_groups_equals_scipy_per_delegation(made):
    rows, got = made
    groups = {}
    for r in rows:
        groups.setdefault(r["delegation_id"], []).append((round(r["score"], 9), r["y"]))
    mixed = [np.array(g) for g in groups.values() if 0 < sum(y for _, y in g) < len(g)]
    ordered = [g for g in mixed if len(set(g[:, 0])) > 1]  # scipy warns where scores are all equal; those count 0
    spearman = sum(stats.spearmanr(g[:, 0], g[:, 1]).statistic for g in ordered) / len(mixed)
    kendall = sum(stats.kendalltau(g[:, 0], g[:, 1]).statistic for g in ordered) / len(mixed)
    assert got["spearman_within"] == pytest.approx(spearman, abs=1e-8)
    assert got["kendall_within"] == pytest.approx(kendall, abs=1e-8)
    assert got["auroc_gap"] == pytest.approx(got["auroc"] - got["auroc_within"])


def test_the_score_as_a_verdict_equals_sklearn_and_statsmodels(made):
    rows, got = made
    score, y = columns(rows)
    said = (score >= 0.5).astype(float)
    assert got["score_kappa"] == pytest.approx(cohen_kappa_score(y, said), abs=1e-12)
    table = [[np.sum((y == a) & (said == b)) for b in (0, 1)] for a in (0, 1)]
    assert got["score_kappa"] == pytest.approx(cohens_kappa(table).kappa, abs=1e-12)
    assert got["score_agreement"] == pytest.approx(np.mean(said == y))
    assert got["score_sensitivity"] == pytest.approx(recall_score(y, said))
    assert got["score_specificity"] == pytest.approx(recall_score(y, said, pos_label=0))


def test_curve_error_is_what_a_constant_cannot_mend():
    """Moving every score by the same amount changes the bias and the calibration error, and not the curve error."""
    rows = scored_rows(seed=21, signal=0.2)
    moved = [{**r, "score": r["score"] - 0.35} for r in rows]
    here, there = values(rows), values(moved)
    assert there["bias"] == pytest.approx(here["bias"] - 0.35)
    assert there["curve_squared"] == pytest.approx(here["curve_squared"], abs=1e-9)
    assert abs(there["l2_squared"] - here["l2_squared"]) > 0.01


def test_a_gap_of_exactly_the_margin_is_no_violation():
    rows = [scored_row(0, d, b, s, y) for d, (s1, s0) in enumerate([(0.7, 0.5), (0.3, 0.1), (0.9, 0.7), (0.4, 0.2)])
            for b, (s, y) in enumerate([(s1, 1.0), (s0, 0.0)])]  # fmt: skip
    assert 0.7 - 0.5 < 0.2  # the trap
    got = values(rows)
    assert got["margin_violation"] == 0
    assert got["mean_hinge"] == pytest.approx(0, abs=1e-12)


def test_golden_hinge_groups_of_the_paper_code():
    """Group A ranks perfectly; group B has reward -0.24 (minus its mean hinge), 15 pairs, 3 of them right."""
    a = zip([.92, .21, .81, .36, .74, .12, .42, .88], [1, 0, 1, 0, 1, 0, 0, 1], strict=True)  # fmt: skip
    b = zip([.5, .6, .4, .5, .45, .55, .5, .3], [1, 0, 1, 0, 1, 0, 0, 0], strict=True)  # fmt: skip
    got_a = values([scored_row(0, 0, i, s, float(y)) for i, (s, y) in enumerate(a)])
    assert (got_a["mean_hinge"], got_a["pair_accuracy_strict"], got_a["margin_violation"]) == (0, 1, 0)
    assert got_a["mean_gap"] == pytest.approx(0.56)
    got_b = values([scored_row(0, 0, i, s, float(y)) for i, (s, y) in enumerate(b)])
    assert got_b["mean_hinge"] == pytest.approx(0.24)
    assert got_b["pair_accuracy_strict"] == pytest.approx(0.2)
    assert 1 - got_b["margin_violation"] == pytest.approx(1 / 15)
    assert got_b["mean_gap"] == pytest.approx(-0.04)


def test_slices_are_the_metrics_of_their_rows():
    rows = scored_rows(seed=7)
    parts = {(p.slice, p.level): p for p in measure.slices(audited(rows))}
    assert {s for s, _ in parts} == {"all", "depth", "difficulty", "epoch", "length"}
    for (name, level), part in parts.items():
        if (name, level) not in (("depth", "2"), ("difficulty", "hard"), ("epoch", "0")):
            continue
        own = [r for r in rows if str(r[name]) == level]
        assert part.scores == len(own)
        assert part.pairs == len(numpy_pairs(own))
        expected = values(own)
        for metric, estimate in part.metrics.items():
            assert estimate.value == pytest.approx(expected[metric]), (name, level, metric)


def ece(score, y):
    return sum(abs((score - y)[score == s].sum()) for s in np.unique(score)) / len(y)


@pytest.mark.slow
def test_intervals_are_close_to_an_ordinary_cluster_bootstrap():
    """Tasks drawn with replacement in numpy, against Poisson weights in SQL."""
    rows = scored_rows(seed=8, tasks=60)
    estimates = measure.slices(audited(rows, reps=1000))[0].metrics
    statistics = {
        "auroc": lambda s, y: roc_auc_score(y, s),
        "bias": lambda s, y: (s - y).mean(),
        "brier": lambda s, y: ((s - y) ** 2).mean(),
        "ece": ece,
    }
    draw = np.random.default_rng(0)
    by_task = [columns([r for r in rows if r["task_id"] == f"t{t}"]) for t in range(60)]
    samples = []
    for _ in range(400):
        chosen = [by_task[t] for t in draw.integers(0, 60, 60)]
        samples.append((np.concatenate([s for s, _ in chosen]), np.concatenate([y for _, y in chosen])))
    for name, statistic in statistics.items():
        found = np.array([statistic(*sample) for sample in samples])
        if METRICS[name].interval == "centred":
            found = found - found.mean() + statistic(*columns(rows))
        low, high = np.quantile(found, [0.025, 0.975])
        estimate = estimates[name]
        assert estimate.low == pytest.approx(max(low, METRICS[name].low), abs=0.2 * (high - low)), name
        assert estimate.high == pytest.approx(high, abs=0.2 * (high - low)), name
        assert estimate.low <= estimate.value <= estimate.high


@pytest.mark.slow
def test_pair_interval_is_close_to_a_cluster_bootstrap():
    rows = scored_rows(seed=9, tasks=60)
    estimate = measure.slices(audited(rows, reps=1000))[0].metrics["pair_accuracy"]
    sums = {}
    for gap, delegation in numpy_pairs(rows):
        won, n = sums.get(delegation.partition("e")[0], (0.0, 0))
        sums[delegation.partition("e")[0]] = (won + (gap > 0) + 0.5 * (gap == 0), n + 1)
    table = np.array([sums.get(f"r{t}", (0.0, 0)) for t in range(60)])
    draws = table[np.random.default_rng(0).integers(0, 60, (2000, 60))].sum(axis=1)
    low, high = np.quantile(draws[:, 0] / draws[:, 1], [0.025, 0.975])
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=0.15 * (high - low))


def test_weights_are_poisson_independent_and_the_same_every_time():
    rows = scored_rows(seed=10, tasks=50, delegations=1)
    first, second = audited(rows, reps=400), audited(rows, reps=400)
    query = "select weights from boot_weights where rep > 0 order by rep"
    weights = first.execute(query).fetchall()
    assert weights == second.execute(query).fetchall()
    table = np.array([w for (w,) in weights])
    assert table.shape == (400, 50)
    expected = stats.poisson.pmf(range(5), 1) * table.size
    assert stats.chisquare([np.sum(table == k) for k in range(4)] + [np.sum(table >= 4)],
                           [*expected[:4], table.size - expected[:4].sum()]).pvalue > 0.01  # fmt: skip
    between_tasks, between_reps = np.corrcoef(table.T), np.corrcoef(table)
    assert np.abs(between_tasks[~np.eye(50, dtype=bool)]).max() < 5 / math.sqrt(400)
    assert np.abs(between_reps[~np.eye(400, dtype=bool)]).max() < 5.5 / math.sqrt(50)
    assert audited(rows, reps=400, seed=18).execute(query).fetchall() != weights


@pytest.mark.slow
def test_many_tasks_share_blocks_and_spread_stays(monkeypatch):
    """With 12 blocks for 60 tasks the standard error is that of the tasks, within what 12 clusters can say."""
    rows = scored_rows(seed=20, tasks=60)
    by_task = measure.slices(audited(rows, reps=400))[0].metrics["bias"]
    monkeypatch.setattr(measure, "MOST_BLOCKS", 12)
    by_block = measure.slices(audited(rows, reps=400))[0].metrics["bias"]
    assert by_block.value == by_task.value
    assert by_block.tasks == by_task.tasks == 60  # the number of tasks, not of the blocks that they share
    assert by_block.spread == pytest.approx(by_task.spread, rel=0.6)


def test_reliability_rows_are_distinct_scores_or_bins():
    rows = scored_rows(seed=11)
    table, rule = measure.reliability(audited(rows, reps=50))
    score, y = columns(rows)
    assert [r.score for r in table] == pytest.approx(np.unique(score))
    assert [r.success_rate for r in table] == pytest.approx([y[score == s].mean() for s in np.unique(score)])
    assert sum(r.n for r in table) == len(rows)
    assert "distinct" in rule
    table, rule = measure.reliability(audited(scored_rows(seed=11, grid=None), reps=50))
    assert len(table) == math.ceil(len(rows) ** (1 / 3))
    assert "bins" in rule


def test_calibration_error_falls_back_to_bins_when_scores_do_not_repeat():
    part = measure.slices(audited(scored_rows(seed=12, grid=None)))[0].metrics
    assert part["repeated"].value < 0.9
    assert part["calibration_error"].value == pytest.approx(math.sqrt(max(0, part["l2_squared_bins"].value)))
    assert "bins" in part["calibration_error"].note


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [scored_row(0, 0, 0, 0.5, 1.0)],
        [scored_row(t, 0, b, 0.1 * b, 0.0) for t in range(5) for b in range(8)],
        [scored_row(t, 0, b, 0.3, float(b % 2)) for t in range(5) for b in range(8)],
        [scored_row(0, 0, 0, math.nan, 1.0), scored_row(0, 0, 1, None, 0.0), scored_row(0, 0, 2, 0.4, None)],
    ],
    ids=["empty", "one node", "only failures", "one score", "not numbers"],
)
def test_one_sided_data_gives_nulls_with_a_reason(rows):
    con = audited(rows, reps=50)
    whole = measure.slices(con)[0]
    assert (whole.slice, whole.level) == ("all", "all")
    for estimate in whole.metrics.values():
        assert estimate.value is None or math.isfinite(estimate.value)
        if estimate.value is None:
            assert "not defined" in estimate.note or "cannot be" in estimate.note, estimate
    measure.reliability(con)
    measure.coverage(con)
    measure.integrity(con)


def test_undefined_pair_accuracy_says_why():
    whole = measure.slices(audited([scored_row(t, 0, 0, 0.5, 1.0) for t in range(3)]))[0]
    assert whole.metrics["pair_accuracy"].note == "no mixed delegations yet, so pair accuracy is not defined"


def test_every_metric_is_measured_and_shown():
    assert set(values(scored_rows(seed=13))) == set(METRICS)
    shown = {name for names in SECTIONS.values() for name in names}
    hidden = {"l2_squared", "l2_squared_bins", "curve_squared", "curve_squared_bins", "repeated"}
    assert set(METRICS) - shown == hidden
    assert shown == {name for part in AUDIT_SECTIONS for name in part.metrics} - set(CHECKS)
