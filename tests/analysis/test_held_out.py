"""The audit of the tasks that training leaves out: exactly these, drawn by their ids alone, and it says so."""

import hashlib
import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import sera_data as sd
from analysis.audit import run_audit
from analysis.page import page
from schemas import TABLES
from sera_data.cli import main

sys.path.insert(0, str(Path(__file__).parent))
from noisy_store import noisy_store

SHARE = 0.5


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return noisy_store(tmp_path_factory.mktemp("held") / "store", epochs=2, tasks=12, samples=1)


def drawn(task, share):
    """The draw, worked out a second time: the last eight bytes of an MD5, little end first, as a fraction of 2^64."""
    digest = hashlib.md5(f"hold-out:{task}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little") / 2**64 < share


@pytest.fixture(scope="module")
def whole(store):
    return run_audit(store, reps=20)


@pytest.fixture(scope="module")
def held(store):
    return run_audit(store, reps=20, held_out=SHARE)


def test_a_task_is_drawn_by_its_id_alone(store):
    tasks = {row[0] for row in store.sql("select task_id from tasks").fetchall()}
    for share in (0.0, 0.2, SHARE, 0.8, 1.0):
        with store.connect(held_out=share) as con:
            kept = {row[0] for row in con.sql("select task_id from tasks").fetchall()}
        assert kept == {task for task in tasks if drawn(task, share)}
    assert 0 < sum(drawn(task, SHARE) for task in tasks) < len(tasks)


def test_every_table_that_knows_its_task_is_confined_to_them_and_the_others_are_whole(store):
    with store.connect(held_out=SHARE) as con, store.connect() as whole:
        for table in TABLES.values():
            name = "task_rows" if table.name == "tasks" else table.name
            condition = (
                "held_out(task_id, 0.5)" if any(column.name == "task_id" for column in table.columns) else "true"
            )
            ((n,),) = con.sql(f"select count(*) from {name}").fetchall()
            assert n == whole.sql(f"select count(*) from {name} where {condition}").fetchall()[0][0]
            assert condition == "true" or not con.sql(f"from {name} where not {condition}").fetchall()


def test_the_audit_counts_the_held_out_tasks_and_no_other(store, whole, held):
    rows = store.sql(
        "select count(*), count(distinct n.task_id) from scored as s join nodes as n using (node_id)"
        " where s.y is not null and isfinite(s.score) and held_out(n.task_id, 0.5)"
    ).fetchall()
    assert (held.coverage["audited_scores"], held.coverage["audited_tasks"]) == rows[0]
    assert 0 < held.coverage["audited_scores"] < whole.coverage["audited_scores"]
    assert all(check.found == 0 for check in held.integrity)
    gaps = store.sql(
        "select avg((gap > 0)::int + (gap = 0)::int / 2) from pairs as p join rubrics as r using (rubric_id)"
        " where held_out(r.task_id, 0.5)"
    ).fetchall()
    assert held.headline["pair_accuracy"].value == pytest.approx(gaps[0][0])


def test_all_tasks_held_out_are_all_and_none_are_no_error(store, whole):
    assert run_audit(store, reps=20, held_out=1.0).headline == whole.headline
    none = run_audit(store, reps=20, held_out=0.0)
    assert none.coverage["audited_scores"] == 0
    assert none.headline["pair_accuracy"].value is None


@pytest.mark.slow
def test_page_terminal_and_comparison_say_which_tasks(store, whole, tmp_path, capsys):
    assert "keeps from training" not in page(whole)
    old = tmp_path / "old.json"
    old.write_text(whole.model_dump_json(), encoding="utf-8")
    command = ["audit", str(store.path), "--gates", "none", "--reps", "20", "--held-out", "0.5"]
    assert main([*command, "--html", str(tmp_path / "page.html"), "--against", str(old)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for text in (said, (tmp_path / "page.html").read_text(encoding="utf-8")):
        assert "only the tasks that hold_out 0.5 keeps from training" in text
    assert "all tasks then, held-out share 0.5 now" in said
    assert main([*command, "--json", "--against", str(store.path)]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["identity"]["held_out"] == SHARE
    assert body["comparison"]["matches"] is True
    assert all(row["change"] in (0, None) for row in body["comparison"]["changes"])


def test_a_share_is_a_share(store, capsys):
    assert main(["audit", str(store.path), "--held-out", "1.5"]) == 2
    assert "--held-out" in capsys.readouterr().err


def test_a_smaller_share_holds_less(store):
    shares = (0.1, 0.3, 0.6, 0.9)
    kept = []
    for share in shares:
        with sd.open(store.path).connect(held_out=share) as con:
            kept.append({row[0] for row in con.sql("select distinct task_id from nodes").fetchall()})
    assert all(less <= more for less, more in pairwise(kept))
