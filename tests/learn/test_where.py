"""What of a credit is trained: rows are chosen after they are paid, and what is left out says so."""

from __future__ import annotations

import pytest

from learn.credit import compute_credit
from learn.where import Where, read_where
from sera_data.errors import ConfigError
from tests.learn.forest import Forest
from tests.learn.one_stage import one_stage


@pytest.fixture(scope="module")
def connection():
    forest = Forest()
    for task in "ab":
        for sample in range(2):
            root = forest.root(task, sample, sample)
            forest.child(root, 0, score=0.4)
    return forest.connect()


def trained(connection, sql: str) -> tuple[set[str], list[str]]:
    credit = compute_credit(connection, one_stage("execution", reward="rubric"), where=Where("my.sql", sql))
    rows = credit.training_rows("execution", credit.groups("execution"))
    return set(rows["trajectory_id"]), [d.reason for d in credit.dropped]


@pytest.mark.parametrize("sql, wanted, reasons", [
    ("select group_id from credit_rows where group_id = '3/b'", {"rb3x0", "rb3x1", "rb3x0/t0d0b0", "rb3x1/t0d0b0"}, 1),
    ("select distinct tree_id from nodes where sample = 1 and task_id = 'a'", {"ra3x1", "ra3x1/t0d0b0"}, 1),
    ("select node_id from factual where depth = 0", {"ra3x0", "ra3x1", "rb3x0", "rb3x1"}, 0),
    ("select turn_id from credit_rows where advantage > 0.5", {"ra3x1", "rb3x1"}, 0),
    ("select trajectory_id from credit_rows where false", set(), 2),
])  # fmt: skip
def test_rows_are_chosen_by_group_tree_node_turn_or_trajectory(connection, sql, wanted, reasons):
    got, dropped = trained(connection, sql)
    assert got == wanted
    assert dropped == ["left out by my.sql"] * reasons


def test_choosing_changes_no_advantage(connection):
    method = one_stage("execution", reward="rubric")
    whole = compute_credit(connection, method)
    some = compute_credit(connection, method, where=Where("my.sql", "select 'ra3x1' as tree_id"))
    assert some.sha256 == whole.sha256
    assert some.rows.equals(whole.rows)
    kept = some.training_rows("execution", ["3/a"])
    assert (
        kept["advantage"].to_list()
        == whole.rows.filter(whole.rows["turn_id"].is_in(kept["turn_id"]))["advantage"].to_list()
    )


@pytest.mark.parametrize("sql, fault", [
    ("select 1 as one", "returns one; allowed is one column: group_id, tree_id, node_id, trajectory_id, turn_id"),
    ("select group_id, tree_id from credit_rows", "returns group_id, tree_id; allowed is one column"),
    ("select group_id from nowhere", "does not run"),
    ("select group_id from credit_rows; drop table nodes", "exactly one SELECT statement, got SELECT, DROP"),
    ("select read_text('/etc/passwd') as turn_id from nowhere", "does not run"),
])  # fmt: skip
def test_a_where_file_that_names_nothing_is_refused(connection, sql, fault):
    with pytest.raises(ConfigError, match=r"where my\.sql") as caught:
        trained(connection, sql)
    assert fault in str(caught.value)


@pytest.mark.parametrize("text, fault", [
    ("select $x as turn_id", r"has parameters: \$x"), ("drop table nodes", "exactly one SELECT statement, got DROP"),
])  # fmt: skip
def test_a_where_file_is_one_select_without_parameters(tmp_path, text, fault):
    path = tmp_path / "my.sql"
    with pytest.raises(ConfigError, match="where file not found"):
        read_where(path)
    path.write_text(text)
    with pytest.raises(ConfigError, match=fault):
        read_where(path)
