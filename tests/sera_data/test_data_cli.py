"""`sera data`, run as the command runs it."""

import json
import os
import re
import shutil
from dataclasses import replace

import polars as pl
import pytest

import sera_data as sd
from schemas import TABLES
from schemas.table import INT32, Column
from sera_data.cli import main
from tests.sera_data.object_server import copied, file_at, on_disk
from tests.sera_data.small_store import small_store


@pytest.fixture
def path(place):
    return str(small_store(place / "s", tasks=1, samples=1, k=2, sealed=False).path)


def sera(capsys, *args, code=0):
    assert main(["data", *map(str, args)]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_ls_seal_snapshot_gc_verify(path, capsys):
    before = json.loads(sera(capsys, "ls", path, "--json"))["plans"][0]
    assert (before["state"], before["committed"], before["nodes"]) == ("open", 1, 4)
    assert "would seal e000000" in sera(capsys, "seal", path, "--dry-run")
    assert "sealed e000000: " in sera(capsys, "seal", path)
    assert "nothing to seal" in sera(capsys, "seal", path)
    assert "already sealed e000000" in sera(capsys, "seal", path, "e000000")
    after = json.loads(sera(capsys, "ls", path, "--json"))["plans"][0]
    assert after["content_hash"] == sd.content_hash(sd.open(path), "e000000")
    assert (after["state"], after["nodes"]) == ("sealed", 4)
    assert "sealed" in sera(capsys, "ls", path)
    taken = json.loads(sera(capsys, "snapshot", path, "mine", "--json"))
    assert list(taken["directories"]) == ["e000000"]
    assert "snapshot mine" in sera(capsys, "ls", path)
    assert "would remove e000000.u0000" in sera(capsys, "gc", path, "--sealed-hours", 0, "--dry-run")
    assert "removed e000000.u0000" in sera(capsys, "gc", path, "--sealed-hours", 0)
    found = json.loads(sera(capsys, "verify", path, "--json"))
    assert (found["directories"], found["files"], found["problems"]) == (1, 10, [])


def test_partial_needs_a_plan(path, capsys):
    assert "--partial needs the name of the plan" in sera(capsys, "seal", path, "--partial", code=2)


def test_sql_in_every_format(path, capsys, tmp_path):
    query = "select depth, count(*) as n from nodes group by depth order by depth"
    wanted = json.loads(sera(capsys, "sql", path, query, "--json"))
    assert [row["depth"] for row in wanted] == [0, 1, 2]
    csv = sera(capsys, "sql", path, query, "--format", "csv")
    assert csv.splitlines()[0] == "depth,n"
    assert len(csv.splitlines()) == 4
    assert "depth" in sera(capsys, "sql", path, query)
    sums = "select sum(n_turns) as turns, 1.5::decimal(4, 2) as price from nodes"
    (number,) = json.loads(sera(capsys, "sql", path, sums, "--json"))  # a sum of integers is no text
    assert isinstance(number["turns"], int)
    assert number["price"] == 1.5
    (tmp_path / "q.sql").write_text(query)
    file = tmp_path / "out.parquet"
    assert sera(capsys, "sql", path, f"@{tmp_path / 'q.sql'}", "--format", "parquet", "--output", file) == ""
    assert pl.read_parquet(file).to_dicts() == wanted
    nested = sera(capsys, "sql", path, "select items from rubrics limit 1", "--format", "csv")
    assert '""name"": ""goal""' in nested


def test_faults_are_one_line_with_a_code(path, capsys, tmp_path):
    assert sera(capsys, "ls", tmp_path / "none", code=1).startswith("error: store ")
    fault = sera(capsys, "sql", path, "select nothing from nowhere", code=2)
    assert fault.count("\n") == 1
    assert "query failed" in fault
    assert "--format parquet needs --output" in sera(capsys, "sql", path, "select 1", "--format", "parquet", code=2)
    assert "no table or view 'nodez'" in sera(capsys, "describe", path, "--table", "nodez", code=2)


@pytest.mark.parametrize(
    "query",
    [
        "create table x (a int)",
        "copy (select 1) to 'out.csv'",
        "drop view nodes",
        "attach 'x.db'",
        ";",
        "select 1; select 2",
    ],
)
def test_sql_takes_one_query_and_writes_nothing(path, capsys, tmp_path, monkeypatch, query):
    monkeypatch.chdir(tmp_path)
    fault = sera(capsys, "sql", path, query, code=2)
    assert fault.startswith("error: sera data sql takes exactly one query")
    assert list(tmp_path.iterdir()) == []


def test_sql_file_that_is_no_text(path, capsys, tmp_path):
    (tmp_path / "q.sql").write_bytes(bytes(range(256)))
    for name in (tmp_path / "q.sql", tmp_path, tmp_path / "none.sql"):
        assert "cannot be read" in sera(capsys, "sql", path, f"@{name}", code=2)


def test_describe_prints_every_column(path, capsys):
    facts = json.loads(sera(capsys, "describe", path, "--json"))
    assert {t["table"] for t in facts["tables"]} == set(TABLES)
    nodes = next(t for t in facts["tables"] if t["table"] == "nodes")
    assert nodes["rows"] == 4
    assert all(c["doc"] for t in facts["tables"] for c in t["columns"])
    assert {v["view"] for v in facts["views"]} >= {"scored", "pairs", "verdicts"}
    text = sera(capsys, "describe", "--table", "turns")
    assert "prompt_sha256" in text


@on_disk("it copies one file over another")
def test_verify_names_the_damaged_file(path, capsys):
    sera(capsys, "seal", path)
    store = sd.open(path)
    shutil.copy(
        file_at(store.path, "epochs/e000000/nodes.parquet"), file_at(store.path, "epochs/e000000/turns.parquet")
    )
    assert "turns.parquet: is truncated or changed" in sera(capsys, "verify", path, code=1)


@pytest.mark.parametrize(
    "query, fault",
    [
        ("select interval 1 month", "a column has a type that cannot be shown.*cast it to text"),
        ("select '\ud800'", "the query must be UTF-8"),
        ("select error('boom')", "query failed: .*boom"),
    ],
)
def test_queries_that_cannot_be_answered_are_usage_errors(path, capsys, query, fault):
    for extra in (["--json"], ["--format", "csv"], []):
        assert re.search(fault, sera(capsys, "sql", path, query, *extra, code=2))


def test_json_of_numbers_that_json_lacks(path, capsys):
    query = "select 'nan'::double as a, [1.5, 'inf'::double] as b, {'c': '-inf'::float} as d"
    (row,) = json.loads(sera(capsys, "sql", path, query, "--json"), parse_constant=pytest.fail)
    assert row == {"a": None, "b": [1.5, None], "d": {"c": None}}


@pytest.mark.parametrize("hours", ["nan", "-1", "-inf"])
def test_hours_that_are_none_are_refused(path, capsys, hours):
    assert "hours must be 0 or more" in sera(capsys, "gc", path, "--staging-hours", hours, code=2)
    assert "hours must be 0 or more" in sera(capsys, "gc", path, "--sealed-hours", hours, code=2)


@on_disk("it copies directories to odd names")
def test_a_path_that_is_no_text_is_refused(path, capsys, tmp_path):
    odd = os.fsdecode(os.fsencode(str(tmp_path)) + b"/odd\xff")
    copied(path, odd)
    assert "must be UTF-8" in sera(capsys, "verify", odd, code=1)
    (tmp_path / "link").symlink_to(odd)
    assert json.loads(sera(capsys, "verify", tmp_path / "link", "--json"))["problems"] == []


@on_disk("it copies directories to odd names")
def test_names_that_readers_could_take_for_patterns(path, capsys, tmp_path):
    for name in ("space quo'te", 'ünï double"quote', "br[ack]et st*ar?", "{brace} a\nb"):
        copy = copied(path, tmp_path / name)
        assert "sealed e000000" in sera(capsys, "seal", copy)
        assert len(json.loads(sera(capsys, "sql", copy, "select * from scored", "--json"))) > 0
        assert len(sd.open(copy).nodes.pl()) == len(sd.open(copy).nodes.arrow()) == 4


def test_a_store_of_columns_that_this_release_does_not_have_is_named(path, capsys, monkeypatch):
    sera(capsys, "seal", path)
    wider = (*TABLES["scores"].columns, Column("mood", INT32, "Not in the files.", nullable=True))
    monkeypatch.setitem(TABLES, "scores", replace(TABLES["scores"], columns=wider))
    err = sera(capsys, "sql", path, "select 1", code=1)
    assert "but not of schema" in err
    assert "mood" in err
    assert "lacks column 'mood'" in sera(capsys, "verify", path, code=1)
