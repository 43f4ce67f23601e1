"""`sera credit` on a store on disk: summary, files, faults, and that datums come from the same store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sera_data as sd
from learn.credit import SCHEMA, compute_credit
from learn.method import open_method
from learn.sequence import build_datums
from sera_data.cli import main
from tests.sera_data.small_store import small_store


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """Two epochs; per epoch one group of each purpose, four samples: two roots of four succeed."""
    path = tmp_path_factory.mktemp("credit") / "store"
    small_store(path, epochs=2, tasks=3, samples=4)
    return path


def summary(capsys, store: Path, *args: str) -> dict:
    assert main(["credit", str(store), "--json", *args]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_summary_of_sera(capsys, store):
    got = summary(capsys, store)
    assert (got["groups_used"], got["groups_dropped"], got["method"]) == (4, 2, "sera")
    execution = got["stages"]["execution"]
    assert [d["depth"] for d in execution["by_depth"]] == [0, 1, 2]
    assert [d["mean_reward"] for d in execution["by_depth"]] == [0.5, 0.5, 1.0]
    assert [d["mean_advantage"] for d in execution["by_depth"]] == [0.0, 0.0, 0.5]
    assert execution["training_tokens"] == execution["tokens"] > 0
    assert got["stages"]["rubric"]["reasons"] == {"homogeneous: every advantage is 0": 2}
    assert {d["stage"] for d in got["dropped"]} == {"rubric"}
    again = summary(capsys, store, "--sealed")
    assert again == got, "the same store and method print the same hash"


def test_methods_epochs_and_parameters_change_the_credit(capsys, store):
    rao = summary(capsys, store, "--method", "rao")
    one = summary(capsys, store, "--method", "rao", "--epoch", "1")
    more = summary(capsys, store, "--method", "rao", "--set", "lambda=0.4")
    assert list(rao["stages"]) == ["execution"]
    assert one["rows"] * 2 == rao["rows"]
    assert len({d["credit_sha256"] for d in (rao, one, more)}) == 3
    child = more["stages"]["execution"]["by_depth"][1]
    assert child["mean_reward"] == pytest.approx(0.9), "half of the children succeed, each has a child that does"


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_rows_are_written(capsys, store, tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    assert main(["credit", str(store), "--rows", str(path)]) == 0
    assert f"rows written to {path}" in capsys.readouterr().out
    frame = getattr(pl, f"read_{suffix}")(path)
    assert frame.columns == SCHEMA.names


def test_the_table_names_stages_groups_and_reasons(capsys, store):
    assert main(["credit", str(store)]) == 0
    out = capsys.readouterr().out
    for text in ("execution", "advantage", "rubric: 0 groups can train, 2 dropped", "2 x homogeneous", "sha256"):
        assert text in out


def test_rows_and_dropped_groups_are_shown_when_asked_for(capsys, store):
    assert main(["credit", str(store), "--head", "2", "--groups"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["delegation", "delegation"]
    assert " -> " in lines[-1]
    assert sum(line.startswith("  rubric 0/") and line.endswith("every advantage is 0") for line in lines) == 1


def test_a_users_sql(capsys, store, tmp_path):
    path = tmp_path / "mine.sql"
    path.write_text(
        "select turn_id, node_id as trajectory_id, 'execution' as stage, 0 as token_start, 1 as token_end,"
        " 1.0 as reward, 0.0 as baseline, 1.0 as advantage, 0 as depth, concat(epoch, '/', task_id) as group_id"
        " from turns where kind = 'act' and node_id in (select node_id from factual where parent_id is null)"
    )
    got = summary(capsys, store, "--credit", str(path))
    assert got["stages"]["execution"]["training_tokens"] == got["rows"] > 0
    path.write_text(path.read_text().replace("1 as token_end,", ""))
    assert main(["credit", str(store), "--credit", str(path)]) == 1
    assert "mine.sql does not return column 'token_end'" in capsys.readouterr().err


@pytest.mark.parametrize("args, code, fault", [
    (["--method", "sarsa"], 2, "no method 'sarsa'; allowed: alternate, brier_rubric, direct"),
    (["--set", "lambda"], 2, "--set wants NAME=VALUE"),
    (["--set", "lamda=1"], 2, "no such parameter; allowed: baseline, branches, child_baseline"),
    (["--rows", "rows.xls"], 2, "--rows wants a .parquet, .csv or .json file"),
    (["--epoch", "9"], 2, "--epoch 9: the store has no nodes of that epoch; it has [0, 1]"),
    (["--credit", "none.sql"], 2, "credit file not found: none.sql"),
])  # fmt: skip
def test_wrong_arguments_are_usage_errors(capsys, store, args, code, fault):
    assert main(["credit", str(store), *args]) == code
    err = capsys.readouterr().err
    assert fault in err
    assert len(err.strip().splitlines()) == 1


def test_a_missing_store_is_named(capsys, tmp_path):
    assert main(["credit", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


def test_a_store_without_token_ids_shows_credit_that_cannot_train(capsys, tmp_path):
    small_store(tmp_path / "text", tasks=3, samples=2, tokens=False)
    got = summary(capsys, tmp_path / "text")
    assert got["groups_used"] == 0
    assert got["stages"]["execution"]["rows"] > 0
    assert [d["mean_advantage"] for d in got["stages"]["execution"]["by_depth"]] == [0.0, 0.0, 0.5]
    assert any(reason.startswith("not trainable") for reason in got["stages"]["execution"]["reasons"])


def test_datums_of_the_store_reproduce_the_stored_tokens(store):
    connection = sd.open(store).connect(view="sealed")
    credit = compute_credit(connection, open_method("sera"))
    turns = {t["turn_id"]: t for t in sd.open(store).turns.pl().iter_rows(named=True)}
    for stage in ("execution", "delegation"):
        rows = credit.training_rows(stage, credit.groups(stage))
        built = list(build_datums(connection, rows))
        assert sum(d.n_trained for d in built) == (rows["token_end"] - rows["token_start"]).sum()
        for datum in built:
            acts = [turns[t] for t in sorted(turns) if turns[t]["node_id"] == datum.trajectory_id]
            full = [x for t in acts if t["kind"] == "act" for x in (*t["prompt_ids"], *t["completion_ids"])]
            assert datum.token_ids.tolist() == full[: len(datum)]
            assert set(datum.logprobs[datum.trained]) == {-0.5}


def test_credit_never_imports_torch(store):
    code = (
        "import sys; from sera_data.cli import main; "
        f"code = main(['credit', {str(store)!r}, '--json', '--method', 'rao']); "
        "sys.exit(code or ('torch' in sys.modules) * 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
