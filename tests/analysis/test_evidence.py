"""Criteria, drift, leaks, unusable scores and Holm's correction, against scikit-learn, statsmodels, numpy or loops."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import brier_score_loss, mutual_info_score
from statsmodels.stats.multitest import multipletests

from analysis import evidence, measure
from sera_data.queries import query

sys.path.insert(0, str(Path(__file__).parent))
from scored_rows import connection, scored_row, scored_rows


def audited(rows, **options):
    con = connection(rows)
    measure.prepare(con, **{"reps": 0, **options})
    return con


def rich_rows(seed=0):
    """Scored rows with criteria, weighted scores that miss the final score, and lengths that scores follow."""
    draw = np.random.default_rng(seed)
    rows = scored_rows(seed=seed, tasks=40)
    for row in rows:
        passed = row["y"] if draw.random() < 0.7 else 1 - row["y"]
        row["items"] = [
            {"name": "goal", "score": float(passed)},
            {"name": "style", "score": round(float(draw.random()), 2)},
            {"name": "always", "score": 1.0},
        ]
        row["weighted_score"] = round(row["score"] - 0.1 * row["y"] + 0.02 * draw.normal(), 4)
        row["tokens"] = int(np.exp(5 + row["score"] + 0.5 * draw.normal()))
    return rows


@pytest.fixture(scope="module")
def rich():
    rows = rich_rows()
    return rows, audited(rows, reps=200)


def test_criteria_equal_sklearn_and_numpy(rich):
    rows, con = rich
    table = {item.name: item for item in evidence.items(con).table}
    y = np.array([r["y"] for r in rows])
    for place, name in enumerate(("goal", "style")):
        score = np.array([r["items"][place]["score"] for r in rows])
        passed = score >= 0.5
        item = table[name]
        assert item.n == len(rows)
        assert item.mean_score == pytest.approx(score.mean(), abs=1e-6)
        assert item.phi == pytest.approx(np.corrcoef(score, y)[0, 1], abs=1e-6)
        assert item.bits == pytest.approx(mutual_info_score(passed, y) / math.log(2), abs=1e-9)
        assert item.lift == pytest.approx(y[passed].mean() - y[~passed].mean(), abs=1e-9)
        assert item.phi_low < item.phi < item.phi_high
    assert (table["always"].saturated, table["always"].phi, table["goal"].saturated) == (True, None, False)
    assert evidence.items(con).saturated == pytest.approx(1 / 3)


def test_places_and_redundancy_of_criteria(rich):
    rows, con = rich
    places = {row["position"]: row for row in evidence.items(con).positions}
    y = np.array([r["y"] for r in rows])
    style = np.array([r["items"][1]["score"] for r in rows])
    assert places[2]["phi"] == pytest.approx(np.corrcoef(style, y)[0, 1])
    assert places[3]["phi"] is None
    twins = [{**r, "items": [*r["items"], {"name": "twin", "score": r["items"][0]["score"]}]} for r in rows]
    (pair,) = evidence.items(audited(twins)).redundant
    assert ({pair["name"], pair["other"]}, pair["n"]) == ({"goal", "twin"}, len(rows))
    assert pair["phi"] == pytest.approx(1)


def test_length_is_a_partial_correlation_and_the_leak_a_difference_of_residuals(rich):
    rows, con = rich
    got = measure.checks(con)
    y = np.array([r["y"] for r in rows])
    score, weighted = (np.array([r[name] for r in rows]) for name in ("score", "weighted_score"))
    length = np.log([r["tokens"] for r in rows])
    left = [v - LinearRegression().fit(y[:, None], v).predict(y[:, None]) for v in (score, length)]
    assert got["length_partial"].value == pytest.approx(stats.pearsonr(*left).statistic, abs=1e-5)
    kept = score > 0
    residual = (score - weighted)[kept]
    leak = residual[y[kept] == 1].mean() - residual[y[kept] == 0].mean()
    assert got["label_leak"].value == pytest.approx(leak, abs=1e-5)
    assert got["label_leak"].low > 0.05
    assert got["top_share"].value == pytest.approx(np.mean(score >= 0.95))


def test_drift_equals_plain_loops_and_recalibration_equals_sklearn():
    rows = scored_rows(seed=5, tasks=40)
    for row in rows:
        row["score"] = min(1.0, row["score"] + 0.1 * row["epoch"])
    con = audited(rows, reps=100)
    mean = {}
    for row in rows:
        mean.setdefault((row["task_id"], row["epoch"]), []).append((round(row["score"], 9), row["y"]))
    pairs = [(np.mean(mean[t, 0], axis=0), np.mean(mean[t, 1], axis=0)) for t, e in mean if e == 0 and (t, 1) in mean]
    change = np.mean([late - early for early, late in pairs], axis=0)
    got = measure.checks(con)
    assert got["drift"].n == len(pairs)
    assert got["score_change"].value == pytest.approx(change[0], abs=1e-8)
    assert got["success_change"].value == pytest.approx(change[1], abs=1e-8)
    assert got["drift"].value == pytest.approx(change[0] - change[1], abs=1e-8)
    (step,) = evidence.drift(con)
    assert (step.step, step.drift.value) == ("0 to 1", pytest.approx(got["drift"].value))
    (redone,) = evidence.recalibration(con)
    early, late = ([(round(r["score"], 9), r["y"]) for r in rows if r["epoch"] == e] for e in (0, 1))
    rate = {s: np.mean([y for score, y in early if score == s]) for s, _ in early}
    y = [y for _, y in late]
    assert redone.brier == pytest.approx(brier_score_loss(y, [s for s, _ in late]))
    assert redone.brier_mapped == pytest.approx(brier_score_loss(y, [rate.get(s, s) for s, _ in late]))


def epochs_with(offsets, *, seed=3):
    """The same rows in each epoch, with scores moved by `offsets`."""
    base = scored_rows(seed=seed, tasks=20, delegations=1)
    return [
        scored_row(
            int(r["task_id"][1:]), i, r["branch"], min(max(r["score"] * 0.6 + 0.1 + move, 0), 1), r["y"], epoch=epoch
        )
        for epoch, move in enumerate(offsets)
        for i, r in enumerate(base)
    ]


def test_scores_that_run_away_from_labels_are_noticed():
    found = evidence.divergence(audited(epochs_with((0.0, 0.0, 0.08, 0.2)), reps=60))
    assert (found.epochs, found.rising) == ([1, 2, 3], True)
    assert found.rise == pytest.approx(0.2)
    assert found.low > 0
    assert not evidence.divergence(audited(epochs_with((0.0, 0.1, 0.05)), reps=60)).rising
    assert evidence.divergence(audited(epochs_with((0.0, 0.1)))) is None


def test_unusable_scores_count_as_worst():
    """Four of eight nodes have a score that says the truth; of the others one is NaN and three are missing."""
    rows = [scored_row(t, 0, b, float(b % 2), float(b % 2)) for t in range(3) for b in range(8)]
    rows += [scored_row(t, 1, b, math.nan if b == 0 else None if b < 4 else float(b % 2), float(b % 2))
             for t in range(3) for b in range(8)]  # fmt: skip
    con = audited(rows)
    parts = {part.slice: part for part in measure.slices(con) if part.level == "all"}
    assert (parts["all"].scores, parts["worst"].scores) == (36, 48)
    assert parts["all"].metrics["pair_accuracy"].value == 1
    y = np.array([r["y"] for r in rows])
    worst = np.array([r["score"] if r["score"] is not None and math.isfinite(r["score"]) else 1 - r["y"] for r in rows])
    assert parts["worst"].metrics["brier"].value == pytest.approx(brier_score_loss(y, worst))
    gaps = [a - b for g in (0, 1) for a, ya in zip(worst[g * 24 :][:8], y[:8], strict=True)
            for b, yb in zip(worst[g * 24 :][:8], y[:8], strict=True) if ya > yb]  # fmt: skip
    right = np.mean([(gap > 0) + 0.5 * (gap == 0) for gap in gaps])
    assert parts["worst"].metrics["pair_accuracy"].value == pytest.approx(right)
    assert parts["worst"].metrics["mean_hinge"].value == pytest.approx(np.mean(np.maximum(0, 0.2 - np.array(gaps))))


def test_a_node_with_labels_of_both_uses_is_audited_by_its_audit_label():
    """Train judges say success of all, audit judges the opposite of the stored verdict; a program (b0) beats both."""
    rows = scored_rows(seed=8, tasks=4, delegations=1)
    con = connection(rows)
    con.execute("""create table both_uses as
        select * replace ('judge' as kind, 1.0 as value) from labels
        union all select * replace ('judge' as kind, 'audit' as use, 1 - value as value, 1 as attempt) from labels
        union all select * replace ('2' as version) from labels where node_id like '%b0'""")
    con.execute("create or replace view labels as from both_uses")
    measure.prepare(con, reps=0)
    y = dict(con.execute("select node_id, y from audit_children").fetchall())
    wanted = {r["node_id"]: r["y"] if r["branch"] == 0 else 1 - r["y"] for r in rows}
    assert y == wanted
    counts, _ = measure.coverage(con)
    assert counts["audit_labels"] == sum(r["branch"] > 0 for r in rows)
    trained = dict(con.execute("select node_id, value from verdicts").fetchall())
    assert {name: trained[name] for name in wanted} == {r["node_id"]: r["y"] if r["branch"] == 0 else 1 for r in rows}


def test_audit_labels_count_where_no_train_label_is():
    rows = scored_rows(seed=6, tasks=6)
    con = connection(rows)
    before = con.execute("select count(*) from labels").fetchall()[0][0]
    con.execute(
        "create table relabelled as select * replace (if(hash(node_id) % 2 = 0, 'audit', use) as use) from labels"
    )
    con.execute("create or replace view labels as from relabelled")
    measure.prepare(con, reps=0)
    counts, _ = measure.coverage(con)
    audit_only = con.execute("select count(*) from relabelled where use = 'audit'").fetchall()[0][0]
    assert 0 < counts["audit_labels"] == audit_only < before == counts["audited_scores"]


@pytest.mark.parametrize("seed", range(5))
def test_holm_equals_statsmodels(seed):
    draw = np.random.default_rng(seed)
    p = [*draw.beta(0.3, 2, size=1 + 4 * seed), 0.01, 0.01]
    con = connection([])
    adjusted = con.execute(query("holm"), {"p_values": [float(x) for x in p]}).fetchall()[0][0]
    assert adjusted == pytest.approx(multipletests(p, method="holm")[1])


def test_rubrics_that_name_the_answer_are_counted():
    con = connection(scored_rows(seed=7, tasks=4, delegations=2))
    con.execute("""create table texts as select * replace (
        case when rubric_id like 'r0%' then 'the verdict is success'
        when rubric_id like 'r1e%t0d1~%' then 'task ' || task_id else 'it is there' end as success_gate,
        rubric_id as rubric_sha256) from rubrics""")
    con.execute("create or replace view rubrics as from texts")
    total = con.execute("select count(*) from texts").fetchall()[0][0]
    measure.prepare(con, reps=0)
    found = evidence.texts(con)
    named = con.execute("select count(*) from texts where success_gate like 'task %'").fetchall()[0][0]
    verdicts = con.execute("select count(*) from texts where success_gate like '%verdict%'").fetchall()[0][0]
    assert (found.rubrics, found.with_ids, found.with_words) == (total, named, verdicts)
    assert found.words == "verdict"
