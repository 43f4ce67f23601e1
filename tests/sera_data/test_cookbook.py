"""docs/sql.md: every query runs on the example store and gives the columns it names; every recipe gives its nodes."""

import glob
import re
from pathlib import Path

import datasets
import duckdb
import pandas
import polars
import pyarrow.dataset
import pytest

import sera_data
from sera_data.query import run_query

ROOT = Path(__file__).parents[2]
STORE = ROOT / "examples" / "store"
PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
TITLES = re.findall(r"^\*\*(\d+\..*?)\*\*", PAGE, flags=re.MULTILINE)
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
RECIPES = re.findall(r"^```python\n(.*?)\n```", PAGE, flags=re.MULTILINE | re.DOTALL)
NAMES = {
    "datasets": datasets,
    "duckdb": duckdb,
    "glob": glob,
    "pandas": pandas,
    "polars": polars,
    "pyarrow": pyarrow,
    "sera_data": sera_data,
}


@pytest.fixture(scope="module")
def connection():
    return sera_data.open(STORE).connect()


def test_the_page_has_its_queries_in_order():
    assert [int(title.partition(".")[0]) for title in TITLES] == list(range(1, len(QUERIES) + 1))
    assert len(QUERIES) >= 20
    assert len(RECIPES) == 6


@pytest.mark.parametrize("title, sql", list(zip(TITLES, QUERIES, strict=True)), ids=TITLES)
def test_a_query_gives_the_columns_it_names(connection, title, sql):
    head, _, text = sql.partition("\n")
    frame = run_query(connection, text)
    assert frame.columns == head.removeprefix("-- ").split(", ")
    assert len(frame) > 0
    if "order by" not in text:
        pytest.fail(f"{title} has no order")


@pytest.mark.parametrize("line", RECIPES, ids=[line.partition("(")[0] for line in RECIPES])
def test_a_recipe_is_one_line_and_reads_every_node(connection, line, tmp_path, monkeypatch):
    (tmp_path / "store").symlink_to(STORE)
    monkeypatch.chdir(tmp_path)
    assert "\n" not in line
    rows = eval(line, dict(NAMES))  # the page's own text
    column = [row["node_id"] for row in rows] if "datasets" in line else rows["node_id"]
    found = set(column.to_pylist() if "pyarrow" in line else column)
    assert found == {node for (node,) in connection.sql("select node_id from nodes").fetchall()}


def test_figures_of_the_page_agree_with_each_other(connection):
    """The same thing asked in two ways: pairs by epoch add up, groups by purpose are the tasks of that purpose."""
    by_number = dict(enumerate(QUERIES, start=1))
    pairs = run_query(connection, by_number[14])
    assert pairs["pairs"].sum() == connection.sql("from pairs").aggregate("count(*)").fetchall()[0][0]
    groups = run_query(connection, by_number[5])
    assert (groups["groups"] == groups["all_fail"] + groups["mixed"] + groups["all_succeed"]).all()
    tools = run_query(connection, by_number[10])
    calls = connection.sql("select sum(len(tool_calls))::bigint from turns where kind = 'act'").fetchall()[0][0]
    assert tools["calls"].sum() == calls
