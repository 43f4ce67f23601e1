"""Every table and view, and every column of them, says what it means."""

import json

import pytest

from schemas import TABLES
from sera_data.catalogue import columns, meaning, relations
from sera_data.cli import main
from sera_data.duck import VIEWS


@pytest.fixture(scope="module")
def connection(sealed):
    return sealed.connect()


@pytest.mark.parametrize("name", relations())
def test_every_column_has_a_meaning(connection, name):
    assert len(relations()[name]) > 20
    found = columns(connection, name)
    assert [c["column"] for c in found] == connection.table(name).columns
    assert all(len(c["doc"]) > 4 for c in found)


def test_relations_are_all_tables_and_views():
    assert set(relations()) == {*TABLES, "task_rows", *VIEWS}
    with pytest.raises(KeyError):
        meaning("pairs", "no_such_column")


def test_no_column_is_described_that_a_view_does_not_have(connection):
    from sera_data.catalogue import _views

    for view, docs in _views().items():
        assert set(docs) - {"like"} <= set(connection.table(view).columns), view


def test_describe_counts_rows_of_tables_and_views(sealed, capsys):
    assert main(["data", "describe", str(sealed.path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    rows = {f.get("table") or f["view"]: f["rows"] for f in [*facts["tables"], *facts["views"]]}
    assert rows["nodes"] == 88
    assert rows["trees"] == 8
    assert main(["data", "describe", str(sealed.path), "--table", "scored"]) == 0
    out = capsys.readouterr().out
    assert "view scored" in out
    assert "Scorer's own success flag" in out
    assert main(["data", "describe"]) == 0
    assert "view scored\n" in capsys.readouterr().out
