"""The audit of real stores: numbers of the small store, degenerate stores, page, gates, command."""

import contextlib
import json
import re
import sys
from pathlib import Path

import pytest

import sera_data as sd
from analysis import measure
from analysis.audit import epoch_summary, run_audit
from analysis.gates import GateFile, enforce, load_gates
from analysis.page import page
from sera_data.cli import main
from sera_data.errors import ConfigError, GateFailed, UsageError

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "sera_data"))
import small_store as small
from noisy_store import noisy_store
from simulated_store import sealed_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two noisy epochs with updates."""
    return noisy_store(tmp_path_factory.mktemp("noisy") / "store", epochs=2, tasks=6, samples=2)


@pytest.fixture(scope="module")
def audit(store):
    return run_audit(store, reps=100)


def test_counts_of_the_store(audit):
    """6 tasks x 2 samples x 2 epochs = 24 trees, each with 3 delegations (1 forked in 8) and 10 scored children."""
    counts = audit.coverage
    assert (counts["trees"], counts["tasks"], counts["delegations"], counts["forked"]) == (24, 6, 72, 24)
    assert counts["complete"] == 24
    assert counts["child_nodes"] == counts["child_nodes_audited"] == counts["audited_scores"] == 240
    assert counts["mixed"] + counts["all_succeeded"] + counts["all_failed"] == 24
    assert counts["mixed"] == counts["mixed_scored"] == audit.headline["group_hinge"].n
    assert audit.shares["scores_valid"] == 1
    assert audit.rows["nodes"] == 24 * 11
    assert audit.bytes["turns"] > 0


@pytest.mark.parametrize("path", ["noisy", "examples/store"])
def test_rows_and_pairs_are_those_of_the_views(store, path):
    """Several scorers and versions, nodes on and off path: the audit holds what `scored` and `pairs` say."""
    with contextlib.closing((store if path == "noisy" else sd.open(path)).connect()) as con:
        measure.prepare(con, reps=0)
        ours = con.sql("select group_id, by_whom, gap from audit_pairs where valid").pl()
        view = con.sql("select delegation_id, rubric_id, gap from pairs where isfinite(gap)").pl()
        assert sorted(ours["gap"].round(9)) == sorted(view["gap"].round(9))
        assert ours.n_unique(["group_id"]) == view.n_unique(["rubric_id"])
        counts, _ = measure.coverage(con)
        (scored,) = con.execute("select count(*) from scored where y is not null and isfinite(score)").fetchone()
        assert counts["audited_scores"] == scored > 0


def test_a_sound_store_has_no_faults(audit):
    assert {check.check: check.found for check in audit.integrity} == {
        "rubric_after_child": 0, "score_not_a_number": 0, "score_out_of_range": 0, "duplicate_score": 0,
        "foreign_rubric": 0, "not_one_committed": 0, "two_snapshots": 0,
    }  # fmt: skip
    assert all(check.looked_at > 0 for check in audit.integrity)


def test_epochs_show_progress_and_updates_per_stage(audit, store):
    assert [epoch.epoch for epoch in audit.epochs] == [0, 1]
    first = audit.epochs[0]
    roots = store.sql("select avg(success) from trees where epoch = 0").fetchall()[0][0]
    assert first.success == pytest.approx(roots)
    assert (first.trees, first.forked) == (12, 12)
    assert first.mixed_share == pytest.approx(first.mixed / 12)
    assert first.updates["execution"].updates == 2
    assert (first.updates["rubric"].updates, first.updates["rubric"].skipped) == (1, 1)
    assert first.updates["rubric"].skip_reasons == "no mixed group"
    by_epoch = {part.level: part for part in audit.slices if part.slice == "epoch"}
    assert first.pair_accuracy.value == by_epoch["0"].metrics["pair_accuracy"].value
    assert [e.epoch for e in epoch_summary(store)] == [0, 1]


def test_one_epoch_is_its_slice(audit, store):
    one = run_audit(store, epochs=[1], reps=0)
    part = next(part for part in audit.slices if (part.slice, part.level) == ("epoch", "1"))
    for name, estimate in part.metrics.items():
        assert one.headline[name].value == pytest.approx(estimate.value), name
    with pytest.raises(UsageError, match="no epoch 9; it has 0, 1"):
        run_audit(store, epochs=[9])


def test_identity_names_seals_and_agents(audit, store):
    verified = store.path / "epochs"
    assert set(audit.identity.seals) == {path.name for path in verified.iterdir()}
    assert all(re.fullmatch("[0-9a-f]{64}", sha) for sha in audit.identity.seals.values())
    assert re.fullmatch("[0-9a-f]{64}", audit.identity.snapshot_hash)
    assert re.fullmatch("[0-9a-f]{64}", audit.identity.rubric_prompts)
    assert {(a.role, a.version) for a in audit.identity.agents} == {
        ("writer", 0), ("writer", 4), ("scorer", 0), ("scorer", 4)
    }  # fmt: skip
    assert audit.identity.unsealed_shards == 0


def test_audit_is_the_same_twice_and_changes_nothing(audit, store):
    before = {path: path.stat().st_mtime_ns for path in store.path.rglob("*")}
    assert run_audit(store, reps=100) == audit
    assert {path: path.stat().st_mtime_ns for path in store.path.rglob("*")} == before


def test_small_store_ranks_every_pair_right(tmp_path):
    """Successes score 0.75, failures 0.25, branch 5 always 0.5: every pair is right, by at least 0.25."""
    result = run_audit(small.small_store(tmp_path / "store", tasks=2), reps=0)
    head = result.headline
    assert (head["pair_accuracy"].value, head["mean_hinge"].value, head["tie_rate"].value) == (1, 0, 0)
    assert head["pair_accuracy"].n == 4 * 16
    assert head["bias"].value == pytest.approx(0)


def _changed(path, change):
    """A store of one unit whose rows went through `change`, not sealed."""
    store = sd.create(path)
    plan = sd.claim_plan(
        store, run_id=small.RUN, phase="collect", policy_hash="b" * 64, config_hash="c" * 64,
        units=[{"unit_id": "u0000", "purpose": "execution"}],
    )  # fmt: skip
    rows = small.unit_rows(small.task_id(0))
    change(rows)
    small.write_unit(store, plan, "u0000", rows)
    return store


def _all_fail(rows):
    for label in rows["labels"]:
        label["value"] = 0.0


def _no_scores(rows):
    rows["scores"].clear()


def _no_labels(rows):
    rows["labels"].clear()


def _invalid(rows):
    for score in rows["scores"]:
        score.update(valid=False, final_score=None, success=None, error="not JSON")
    for rubric in rows["rubrics"]:
        rubric.update(valid=False, error="not JSON", items=[], rubric_sha256=None)


DEGENERATE = {"all fail": _all_fail, "no scores": _no_scores, "no labels": _no_labels, "invalid": _invalid}


SOME = ("all fail", "invalid")  # the others with the slow tests


@pytest.mark.parametrize(
    "change",
    [pytest.param(c, id=name, marks=() if name in SOME else pytest.mark.slow) for name, c in DEGENERATE.items()],
)
def test_one_sided_stores_are_reported_sensibly(tmp_path, change):
    result = run_audit(_changed(tmp_path / "store", change), reps=20)
    accuracy = result.headline["pair_accuracy"]
    assert accuracy.value is None
    assert accuracy.note.endswith("pair accuracy is not defined")
    assert "not defined" in result.summary[0]
    assert all(
        gate.status == "too few" for gate in result.gates if gate.metric == "pair_accuracy" and gate.slice != "worst"
    )
    text = page(result)
    assert "pair accuracy is not defined" in text
    assert "None" not in text
    assert "nan" not in re.sub("<style>.*?</style>", "", text, flags=re.DOTALL).lower().split()


def test_empty_store(tmp_path, capsys):
    sd.create(tmp_path / "store")
    assert main(["audit", str(tmp_path / "store")]) == 0
    out = capsys.readouterr().out
    assert "not defined" in out
    assert (tmp_path / "store-audit.html").exists()


def test_page_loads_nothing_and_shows_every_chart(audit):
    text = page(audit)
    assert "http" not in text
    assert not re.search(r"<(script|link|img|iframe|object|embed)\b|@import|url\((?!#)", text)
    assert text.count("<svg") == 8
    assert all(section.question in text.replace("&#x27;", "'") for section in audit.sections)
    for name in ("gaps", "slices", "reliability", "scores", "epochs-success", "epochs-accuracy", "epochs-hinge"):
        assert f'id="{name}"' in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text
    assert audit.worst_slice.text.replace(" %", "\u00a0%") in text
    assert next(iter(audit.identity.seals.values())) in text
    assert page(audit) == text


def test_page_escapes_what_comes_from_the_store(audit):
    planted = audit.identity.model_copy(update={"path": "/tmp/<script>alert(1)</script>"})
    assert "<script" not in page(audit.model_copy(update={"identity": planted}))


def test_a_verdict_that_its_headline_does_not_explain_names_its_gate(store):
    lead = {"metric": "pair_accuracy", "side": "below", "warn": 1.0}
    other = {"metric": "top_share", "side": "above", "warn": -1.0}
    text = page(run_audit(store, reps=0, gates=GateFile.model_validate({"gates": [lead, other]})))
    overview = text.partition("Eleven questions")[2].partition("<h2>")[0]
    assert "Label leak; warn: top_share is" in overview
    assert "Pair accuracy; warn" not in overview


def test_joint_updates_have_a_column_where_there_are_any(audit):
    first = audit.epochs[0]
    assert "joint updates" not in page(audit)
    joint = first.model_copy(update={"updates": {"joint": first.updates["execution"]}})
    text = page(audit.model_copy(update={"epochs": [joint]}))
    row = text.partition("joint updates</th>")[2].partition("</tbody>")[0]
    assert re.findall(r"<td>(\d+)</td>", row)[-2:] == ["2", "0"]


def test_command_prints_json_only(store, tmp_path, capsys):
    target = tmp_path / "deep" / "page.html"
    assert main(["audit", str(store.path), "--json", "--reps", "20", "--html", str(target)]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["format"] == 2
    assert body["html"] == str(target)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [epoch["epoch"] for epoch in body["epochs"]] == [0, 1]
    assert {"success", "mixed_share", "pair_accuracy", "mean_hinge", "updates"} <= set(body["epochs"][0])


def test_report_leads_with_the_headlines(store, capsys):
    assert main(["audit", str(store.path), "--reps", "50", "--html", str(store.path.parent / "page.html")]) == 0
    lines = capsys.readouterr().out.splitlines()
    order = ["Pair accuracy", "Mean hinge", "Calibration error", "delegations forked", "Sections", "Gates: ", "slice "]
    places = [next(i for i, line in enumerate(lines) if word in line) for word in order]
    assert places == sorted(places)
    assert "Page: " in lines[-1]


def _gates(path, *lines):
    path.write_text("gates:\n" + "".join(f"  - {line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_failing_gate_ends_with_exit_code_3(store, tmp_path, capsys):
    bad = _gates(tmp_path / "bad.yaml", "{metric: pair_accuracy, side: below, min_n: 5, warn: 1.0, fail: 0.999}")
    command = ["audit", str(store.path), "--json", "--reps", "0", "--gates"]
    assert main([*command, str(bad)]) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["gates"][0]["status"] == "fail"
    assert "pair_accuracy is" in captured.err
    assert captured.err.count("\n") == 1
    good = _gates(tmp_path / "good.yaml", "{metric: pair_accuracy, side: below, min_n: 5, warn: 0.1}")
    assert main([*command, str(good)]) == 0


def test_a_store_with_a_fault_ends_with_exit_code_3_unless_told_otherwise(tmp_path, capsys):
    _changed(tmp_path / "store", lambda rows: rows["scores"][0].update(final_score=1.5))
    command = ["audit", str(tmp_path / "store"), "--json", "--reps", "0"]
    assert main(command) == 3
    assert "integrity.score_out_of_range is 1" in capsys.readouterr().err
    assert main([*command, "--gates", "none"]) == 0


def test_gates_with_too_few_observations_do_not_fail(store):
    rules = GateFile.model_validate(
        {"gates": [{"metric": "pair_accuracy", "side": "below", "min_n": 10**6, "fail": 1.0}]}
    )
    gates = run_audit(store, reps=0, gates=rules).gates
    assert [gate.status for gate in gates] == ["too few"]
    enforce(gates)


def test_gate_sides_and_levels(store):
    rules = GateFile.model_validate(
        {
            "gates": [
                {"metric": "pair_accuracy", "slice": "epoch", "level": "*", "side": "below", "warn": 1.0},
                {"metric": "bias", "side": "away", "fail": 0.0},
                {"metric": "coverage.scores_valid", "side": "above", "fail": 0.5},
                {"metric": "integrity.duplicate_score", "side": "above", "fail": 0},
                {"metric": "brier", "slice": "depth", "level": "7", "side": "above", "fail": 0},
            ]
        }
    )
    gates = run_audit(store, reps=0, gates=rules).gates
    assert [gate.status for gate in gates] == ["warn", "warn", "fail", "fail", "pass", "too few"]
    with pytest.raises(GateFailed, match="2 of 6 gates failed"):
        enforce(gates)


def test_unknown_gate_metrics_and_keys_are_refused(store, tmp_path):
    with pytest.raises(ConfigError, match="unknown gate metric 'pair_acuracy'; allowed: pair_accuracy"):
        run_audit(store, reps=0, gates=load_gates(_gates(tmp_path / "a.yaml", "{metric: pair_acuracy, side: below}")))
    with pytest.raises(ConfigError, match="unknown key"):
        load_gates(_gates(tmp_path / "b.yaml", "{metric: bias, side: away, minimum: 3}"))


def test_integrity_finds_planted_faults(tmp_path):
    def plant(rows):
        rows["scores"][0]["final_score"] = 1.5
        rows["rubrics"][0]["order_stamp"] = 10**6
        next(row for row in rows["branches"] if row["branch"] == 1)["committed"] = True

    found = {c.check: c.found for c in run_audit(_changed(tmp_path / "store", plant), reps=0).integrity}
    assert found["score_out_of_range"] == 1
    assert found["rubric_after_child"] == 1
    assert found["not_one_committed"] == 1


@pytest.mark.slow
def test_against_an_older_audit_says_what_is_different(store, audit, tmp_path, capsys):
    """The first epoch against both: other data, other versions, and changes with paired intervals."""
    first = noisy_store(tmp_path / "first", epochs=1, tasks=6, samples=2)
    both = run_audit(store, reps=60, against=str(first.path)).comparison
    assert not both.matches
    assert any(text.startswith("scorer tester version 0 then, ") for text in both.differences)
    assert any("e000001" in text and "new or changed" in text for text in both.differences)
    accuracy = next(change for change in both.changes if change.metric == "pair_accuracy")
    alone = run_audit(first, reps=0).headline["pair_accuracy"].value
    assert (accuracy.before, accuracy.now) == (alone, audit.headline["pair_accuracy"].value)
    assert accuracy.low <= accuracy.change <= accuracy.high
    old = tmp_path / "old.json"
    old.write_text(audit.model_dump_json(), encoding="utf-8")
    same = run_audit(store, reps=0, against=str(old)).comparison
    assert same.matches
    assert all(abs(change.change) < 1e-12 for change in same.changes if change.change is not None)
    with pytest.raises(UsageError, match="is not an audit"):
        run_audit(store, reps=0, against=str(tmp_path / "none.json"))


def test_a_page_that_no_longer_matches_is_named_before_it_is_replaced(tmp_path, capsys):
    store = small.small_store(tmp_path / "store", tasks=1)
    command = ["audit", str(store.path), "--reps", "0", "--gates", "none"]
    assert main(command) == 0
    assert main(command) == 0
    assert "no longer matches" not in capsys.readouterr().err
    small.write_epoch(store, tasks=1, version=1)
    assert main(command) == 0
    note = capsys.readouterr().err
    assert "store-audit.html no longer matches this store" in note
    assert "e000001 new or changed" in note
    assert "version 1" in note


def test_missing_store_is_one_line(tmp_path, capsys):
    assert main(["audit", str(tmp_path / "none")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_every_sql_file_is_documented_and_used():
    docs = Path("docs/audit.md").read_text(encoding="utf-8")
    names = sorted(path.name for path in Path("analysis/sql").glob("*.sql"))
    names = [name for name in names if not name.startswith(("explorer_", "notebook_"))]  # not of the audit
    assert [name for name in names if f"`{name}`" not in docs] == []
    code = "".join(path.read_text(encoding="utf-8") for path in Path("analysis").glob("*.py"))
    assert [name for name in names if f'"{name.removesuffix(".sql")}"' not in code] == []


def test_a_simulated_store_on_disk_is_a_store(tmp_path):
    """What the benchmarks of audit and explorer are measured on."""
    store = sealed_store(tmp_path / "s", tasks=3, epochs=2, launches=2, seed=1, turns=2)
    nodes, branches, turns = store.sql(
        "select (select count(*) from nodes), (select count(*) from branches), (select count(*) from turns)"
    ).fetchall()[0]
    assert (branches, turns) == (3 * 2 * 2 * 8, 2 * nodes)
    assert len(run_audit(store, reps=0).epochs) == 2
