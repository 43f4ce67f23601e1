"""Judge against program: every figure against scikit-learn or plain loops, and shown wherever the audit is shown."""

import json
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import accuracy_score, cohen_kappa_score, recall_score

import sera_data as sd
from analysis import measure
from analysis.agreement import agreement
from analysis.audit import run_audit
from analysis.judge_metrics import JUDGE_METRICS
from analysis.page import page
from schemas import TABLES
from sera_data.cli import main
from sera_data.duck import connect
from sera_data.listing import Listing

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "sera_data"))
import small_store as small
from noisy_store import noisy_store


def label(node, task, *, kind="judge", source="m", version="1", attempt=0, value=1.0, use="train"):
    return {
        "run_id": "r", "epoch": 0, "shard_id": "s", "node_id": node, "tree_id": node, "task_id": task, "source": source,
        "version": version, "attempt": attempt, "kind": kind, "use": use, "inclusion_probability": 1.0,
        "valid": value is not None, "value": value, "error": None if value is not None else "garbage",
    }  # fmt: skip


def made(*, tasks=40, per_task=5, votes=3, seed=0, skill=0.8, invalid=0.1, rate=0.6):
    """Labels of a program and of a judge that is right with probability `skill`; some votes are invalid."""
    draw = np.random.default_rng(seed)
    rows = []
    for t in range(tasks):
        chance = np.clip(rate + 0.3 * draw.normal(), 0.05, 0.95)
        for i in range(per_task):
            node, truth = f"r{t}.{i}", float(draw.random() < chance)
            rows.append(label(node, f"t{t}", kind="program", source="pot", value=truth))
            for attempt in range(votes):
                said = truth if draw.random() < skill else 1 - truth
                rows.append(label(node, f"t{t}", attempt=attempt, value=None if draw.random() < invalid else said))
    return rows


def connection(labels):
    """All views of an empty store, with these labels, their nodes (depth 1 or 2) and tasks."""
    con = connect(Listing(Path("nowhere")))
    nodes = sorted({(row["node_id"], row["task_id"]) for row in labels})
    tables = {
        "labels": labels,
        "nodes": [{"node_id": n, "task_id": t, "epoch": 0, "depth": 1 + len(n) % 2, "run_id": "r"} for n, t in nodes],
    }
    for name, rows in tables.items():
        con.register(f"made_{name}", pa.Table.from_pylist(rows, schema=TABLES[name].schema))
        con.execute(f"drop view {name}")
        con.execute(f"create table {name} as from made_{name}")
    return con


def measured(labels, reps=0):
    con = connection(labels)
    measure.prepare(con, reps=reps)
    return agreement(con)


def whole(parts, source="m"):
    return next(part for part in parts if part.slice == "all" and part.source == source)


def verdicts(labels):
    """Per node: the program's value, the valid votes."""
    found = {}
    for row in labels:
        truth, votes = found.setdefault(row["node_id"], ([], []))
        if row["valid"]:
            (truth if row["kind"] == "program" else votes).append(row["value"])
    return found.values()


def majority(votes):
    mean = sum(votes) / len(votes) if votes else 0.5
    return None if mean == 0.5 else float(mean > 0.5)


FIXTURES = {
    "usual": {},
    "even votes": {"votes": 4, "seed": 1, "invalid": 0.3},
    "rare failures": {"rate": 0.95, "seed": 3},
    "one vote": {"votes": 1, "seed": 4},
}


@pytest.mark.parametrize("options", FIXTURES.values(), ids=FIXTURES)
def test_agreement_equals_scikit_learn_and_repeats_equal_plain_loops(options):
    labels = made(**options)
    part = whole(measured(labels))
    pairs = [(t[0], majority(v)) for t, v in verdicts(labels) if majority(v) is not None]
    y, j = (np.array(column) for column in zip(*pairs, strict=True))
    got = {name: estimate.value for name, estimate in part.metrics.items()}
    assert part.nodes == part.metrics["kappa"].n == len(pairs)
    assert got["kappa"] == pytest.approx(cohen_kappa_score(y, j), abs=1e-12)
    assert got["agreement"] == pytest.approx(accuracy_score(y, j), abs=1e-12)
    assert (got["program_rate"], got["judge_rate"]) == (pytest.approx(y.mean()), pytest.approx(j.mean()))
    assert got["sensitivity"] == pytest.approx(recall_score(y, j), abs=1e-12)
    assert got["specificity"] == pytest.approx(recall_score(y, j, pos_label=0), abs=1e-12)
    asked = [row for row in labels if row["kind"] == "judge"]
    assert (part.votes, part.invalid) == (len(asked), sum(not row["valid"] for row in asked))
    assert got["invalid_share"] == pytest.approx(part.invalid / part.votes)
    _repeats_equal_plain_loops(part, labels)


def _repeats_equal_plain_loops(part, labels):
    repeated = [votes for _, votes in verdicts(labels) if len(votes) >= 2]
    assert part.repeats == len(repeated)
    if not repeated:
        assert part.metrics["repeat_agreement"].value is None
        assert part.metrics["repeat_agreement"].note == "no node has two valid votes"
        return
    shares = [np.mean([a == b for a, b in combinations(votes, 2)]) for votes in repeated]
    q = np.mean([vote for votes in repeated for vote in votes])
    chance = q**2 + (1 - q) ** 2
    assert part.metrics["repeat_agreement"].value == pytest.approx(np.mean(shares), abs=1e-8)
    assert part.metrics["repeat_kappa"].value == pytest.approx((np.mean(shares) - chance) / (1 - chance), abs=1e-8)


def test_fleiss_on_a_worked_example():
    """Four nodes, three votes each: 3-0, 2-1, 1-2, 0-3. P = (1 + 1/3 + 1/3 + 1) / 4 = 2/3, Pe = 1/2, kappa = 1/3."""
    labels = [
        label(f"r{node}", f"t{node}", attempt=attempt, value=float(attempt < yes))
        for node, yes in enumerate((3, 2, 1, 0))
        for attempt in range(3)
    ]
    part = whole(measured(labels))
    assert part.metrics["repeat_agreement"].value == pytest.approx(2 / 3)
    assert part.metrics["repeat_kappa"].value == pytest.approx(1 / 3)
    assert part.metrics["kappa"].note == "no node has verdicts of both"


@pytest.mark.slow
def test_intervals_are_those_of_a_bootstrap_over_tasks():
    labels = made(tasks=60, per_task=4, votes=1, invalid=0, seed=7)
    kappa = whole(measured(labels, reps=400)).metrics["kappa"]
    by_task = {}
    for row in labels:
        by_task.setdefault(row["task_id"], {}).setdefault(row["node_id"], {})[row["kind"]] = row["value"]
    cells = [[(v["program"], v["judge"]) for v in nodes.values()] for nodes in by_task.values()]
    draw = np.random.default_rng(0)
    replicates = []
    for _ in range(400):
        sample = [pair for i in draw.integers(0, len(cells), len(cells)) for pair in cells[i]]
        replicates.append(cohen_kappa_score(*zip(*sample, strict=True)))
    low, high = np.quantile(replicates, [0.025, 0.975])
    assert kappa.tasks == 60
    assert kappa.low == pytest.approx(low, abs=0.05)
    assert kappa.high == pytest.approx(high, abs=0.05)
    assert kappa.low < kappa.value < kappa.high


def test_slices_add_up_and_raters_stay_apart():
    labels = made(seed=5) + [label(f"r0.{i}", "t0", source="other", value=0.0) for i in range(5)]
    labels += [label(f"r0.{i}", "t0", kind="human", source="ann", value=1.0) for i in range(2)]
    parts = measured(labels)
    assert {(part.kind, part.source) for part in parts} == {("judge", "m"), ("judge", "other"), ("human", "ann")}
    mine = [part for part in parts if part.source == "m"]
    assert mine[0].slice == "all"
    assert sum(part.nodes for part in mine if part.slice == "depth") == mine[0].nodes
    assert [part.level for part in mine if part.slice == "depth"] == ["1", "2"]
    other = whole(parts, "other").metrics
    assert other["kappa"].tasks == 1
    assert other["kappa"].note == "no interval: one task only"


def test_a_one_sided_store_has_no_kappa_and_says_why():
    labels = [label(f"r{i}", f"t{i}", kind=kind, source=kind) for i in range(4) for kind in ("program", "judge")]
    part = whole(measured(labels), "judge")
    assert part.metrics["agreement"].value == 1.0
    assert part.metrics["kappa"].value is None
    assert part.metrics["kappa"].note.startswith("every verdict is the same")
    assert part.metrics["specificity"].value is None


def test_newest_program_label_and_audit_votes_count():
    labels = [
        label("r0", "t0", kind="program", source="pot", version="9", value=0.0),
        label("r0", "t0", kind="program", source="pot", version="10", value=1.0),
        label("r0", "t0", value=1.0, use="audit"),
    ]
    part = whole(measured(labels))
    assert (part.nodes, part.metrics["agreement"].value) == (1, 1.0)


def judged_store(path):
    """The noisy store with a judge's three votes on every node, right in about 80 %, some invalid."""
    store = noisy_store(path, epochs=1, tasks=6, samples=2, updates=False)
    draw = np.random.default_rng(3)
    plan = sd.claim_addition(
        store, 0, run_id="label-1", phase="label", config_hash="d" * 64, units=[{"unit_id": "u0000"}]
    )
    programs = store.sql("select node_id, tree_id, task_id, value from labels order by 1").fetchall()
    rows = []
    for node, tree, task, value in programs:
        for attempt in range(3):
            said = None if draw.random() < 0.1 else value if draw.random() < 0.8 else 1 - value
            row = label(node, task, source="<b>judge</b>", attempt=attempt, value=said)
            rows.append({k: v for k, v in row.items() if k not in ("run_id", "epoch", "shard_id")} | {"tree_id": tree})
    small.write_unit(store, plan, "u0000", {"runs": [small.run_row(phase="label")], "labels": rows})
    sd.seal(store, plan.name)
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return judged_store(tmp_path_factory.mktemp("judged") / "store")


def test_the_audit_shows_judges_everywhere(store, capsys, tmp_path):
    target = tmp_path / "page.html"
    assert main(["audit", str(store.path), "--reps", "40", "--html", str(target)]) == 0
    out = capsys.readouterr().out
    assert "Judges against the program" in out
    assert "<b>judge</b>" in out
    text = target.read_text(encoding="utf-8")
    assert "Does the judge agree with the program?" in text
    assert "<b>judge</b>" not in text
    assert "&lt;b&gt;judge&lt;/b&gt;" in text
    for metric in JUDGE_METRICS.values():
        assert metric.title.replace("'", "&#x27;") in text
    assert main(["audit", str(store.path), "--reps", "40", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    first = body["agreement"][0]
    assert (first["slice"], first["source"], first["nodes"] > 100) == ("all", "<b>judge</b>", True)
    assert 0.3 < first["metrics"]["kappa"]["low"] < first["metrics"]["kappa"]["value"] < 1
    assert any("agrees with the program on" in line for line in body["summary"])


@pytest.mark.slow
def test_judge_labels_change_no_other_number(store, tmp_path):
    """Where a program has judged, judges leave verdicts and the rubric metrics as they are."""
    alone = noisy_store(tmp_path / "store", epochs=1, tasks=6, samples=2, updates=False)
    one, two = (run_audit(s, reps=40) for s in (alone, store))
    assert one.headline == two.headline
    assert one.agreement == []
    assert "Does the judge agree" not in page(one)
