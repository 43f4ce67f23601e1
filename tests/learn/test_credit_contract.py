"""What a credit file may return: every fault is refused with the column, turn or group that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from learn.credit import Credit, compute_credit
from learn.method import credit_rules, open_method, shipped
from sera_data.errors import ConfigError, StoreError
from tests.learn.forest import Forest

GOOD = {
    "turn_id": "t.turn_id",
    "trajectory_id": "t.node_id",
    "stage": "'execution'",
    "token_start": "0",
    "token_end": "2",
    "reward": "n.sample + 0.0",
    "baseline": "0.5",
    "advantage": "n.sample - 0.5",
    "depth": "n.depth",
    "group_id": "concat(n.epoch, '/', n.task_id)",
}


def write_sql(folder: Path, columns: dict[str, str], tail: str = "") -> Path:
    body = ", ".join(f"{expression} as {name}" for name, expression in columns.items())
    path = folder / "my.sql"
    path.write_text(f"-- mine\nselect {body} from turns t join factual n on n.node_id = t.node_id {tail}")
    return path


def two_roots() -> Forest:
    forest = Forest()
    for sample in range(2):
        forest.root("a", sample, sample)
    return forest


def run(forest: Forest, path: Path) -> Credit:
    return compute_credit(forest.connect(), open_method("sera").with_credit(path))


def test_a_users_sql_gives_credit(tmp_path):
    credit = run(two_roots(), write_sql(tmp_path, GOOD))
    assert credit.rows["advantage"].to_list() == [-0.5, 0.5]
    assert credit.groups("execution") == ["3/a"]
    assert credit.dropped == ()
    assert run(two_roots(), write_sql(tmp_path, GOOD)).sha256 == credit.sha256
    assert open_method(tmp_path / "my.sql").rules[0].stages == ("execution", "delegation", "rubric")


@pytest.mark.parametrize("column", list(GOOD))
def test_a_missing_column_is_named(tmp_path, column):
    path = write_sql(tmp_path, {name: e for name, e in GOOD.items() if name != column})
    with pytest.raises(StoreError, match=rf"my.sql does not return column '{column}'"):
        run(two_roots(), path)


@pytest.mark.parametrize("column, expression, fault", [
    ("extra", "1", "returns an unknown column 'extra'"),
    ("token_start", "'one'", "column 'token_start' must be int32, got string: a number is wanted"),
    ("turn_id", "7", "column 'turn_id' must be string"),
    ("token_end", "2.5", "column 'token_end' must be int32"),
    ("baseline", "null::double", "column 'baseline' holds 2 nulls of 2"),
    ("advantage", "'nan'::double", "column 'advantage' holds NaN, infinity or a number beyond"),
    ("reward", "'inf'::double", "column 'reward' holds NaN, infinity or a number beyond"),
    ("advantage", "-1e300::double", "column 'advantage' holds NaN, infinity or a number beyond 1e+06"),
    ("reward", "true", "column 'reward' must be double, got bool"),
    ("stage", "'planning'", "column 'stage' holds 'planning'; allowed here: execution, delegation, rubric"),
    ("turn_id", "'nobody#0000'", "names turn nobody#0000, which is not in the store"),
    ("token_start", "-1", "span [-1, 2) is not inside turn ra3x0#0000, which has 3 completion tokens"),
    ("token_end", "4", "span [0, 4) is not inside turn ra3x0#0000, which has 3 completion tokens"),
    ("token_end", "0", "span [0, 0) is not inside"),
    ("depth", "-1", "depth is 0 or more"),
])  # fmt: skip
def test_wrong_rows_are_refused(tmp_path, column, expression, fault):
    with pytest.raises(StoreError) as caught:
        run(two_roots(), write_sql(tmp_path, {**GOOD, column: expression}))
    assert fault in str(caught.value)


def test_overlapping_spans_are_refused(tmp_path):
    path = write_sql(tmp_path, {**GOOD, "token_start": "s.a", "token_end": "s.a + 2"}, ", (values (0), (1)) s(a)")
    with pytest.raises(StoreError, match="cover the same tokens of turn ra3x0#0000"):
        run(two_roots(), path)
    path = write_sql(tmp_path, {**GOOD, "token_start": "s.a", "token_end": "s.a + 1"}, ", (values (0), (1)) s(a)")
    assert len(run(two_roots(), path).rows) == 4


@pytest.mark.parametrize("text, fault", [
    ("select 1; select 2", "exactly one SELECT statement, got SELECT, SELECT"),
    ("drop table turns", "exactly one SELECT statement, got DROP"),
    ("-- nothing", "got none"), ("select from", "does not run"),
    ("select * from no_such_table", "no_such_table"), ("select $margin, $mine", "needs a value for $mine"),
])  # fmt: skip
def test_sql_that_does_not_run_is_a_usage_error(tmp_path, text, fault):
    path = tmp_path / "my.sql"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        run(two_roots(), path)
    assert fault in str(caught.value)
    assert "my.sql" in str(caught.value)


def test_a_file_that_is_no_text_is_a_usage_error(tmp_path):
    path = tmp_path / "my.sql"
    path.write_bytes(b"select '\xff'")
    with pytest.raises(ConfigError, match=r"my\.sql cannot be read.*UTF-8"):
        run(two_roots(), path)


def test_a_column_that_is_there_twice_is_named(tmp_path):
    path = write_sql(tmp_path, GOOD)
    path.write_text(path.read_text().replace("select ", "select 0 as depth, ", 1))
    with pytest.raises(StoreError, match=r"column 'depth' twice|unknown column 'depth"):
        run(two_roots(), path)


def test_two_policy_versions_in_a_baseline_are_refused():
    forest = Forest()
    forest.root("a", 0, 1)
    forest.version = 1
    forest.root("a", 1, 0)
    with pytest.raises(StoreError, match="group 3/a of stage execution mixes policy versions 0 and 1"):
        compute_credit(forest.connect(), open_method("sera"))


def test_a_version_that_only_the_baseline_sees_is_refused_too():
    forest = Forest()
    root = forest.root("a", 0, 1, purpose="delegation")
    forest.child(root, 0)
    forest.version = 1
    forest.root("a", 1, 1, purpose="delegation")
    with pytest.raises(StoreError, match="mixes policy versions 0 and 1 in one baseline"):
        compute_credit(forest.connect(), open_method("sera"))


def test_two_groups_of_different_versions_are_fine():
    forest = two_roots()
    forest.version = 1
    for sample in range(2):
        forest.root("b", sample, sample)
    assert compute_credit(forest.connect(), open_method("sera")).groups("execution") == ["3/a", "3/b"]


def test_homogeneous_groups_are_dropped_with_the_reason():
    forest = two_roots()
    for sample in range(3):
        forest.root("b", sample, 1)
    credit = compute_credit(forest.connect(), open_method("sera"))
    assert credit.groups("execution") == ["3/a"]
    assert [(d.stage, d.group_id, d.reason) for d in credit.dropped] == [
        ("execution", "3/b", "homogeneous: every advantage is 0")
    ]
    assert len(credit.rows.filter(group_id="3/b")) == 3, "its rows stay visible"
    with pytest.raises(StoreError, match="group 3/b cannot train stage execution: homogeneous"):
        credit.training_rows("execution", ["3/b"])


def test_groups_without_any_row_are_dropped_with_the_reason():
    forest = two_roots()
    for sample in range(2):
        forest.root("b", sample, None, outcome="infra_error")
        forest.root("c", sample, 1, purpose="delegation")
        forest.root("d", sample, 1, purpose="rubric")
        forest.root("e", sample, 1, purpose="eval")
    credit = compute_credit(forest.connect(), open_method("sera"))
    assert [(d.stage, d.group_id) for d in credit.dropped] == [
        ("delegation", "3/c"), ("execution", "3/b"), ("rubric", "3/d"),
    ]  # fmt: skip


def test_an_empty_store_gives_no_credit():
    credit = compute_credit(Forest().connect(), open_method("sera"))
    assert (len(credit.rows), credit.dropped) == (0, ())


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_method_runs(name):
    method = open_method(name)
    assert method.name == name
    assert compute_credit(two_roots().connect(), method).groups("execution") == ["3/a"]
    assert set(credit_rules()) >= {rule.path.stem for rule in method.rules}


def test_unknown_methods_files_and_rules_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no method 'sarsa'; allowed: alternate, .*NAME:recommended"):
        open_method("sarsa")
    with pytest.raises(ConfigError, match=r"credit file not found: .*none.sql"):
        open_method("sera").with_credit(tmp_path / "none.sql")
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nschedule: 'execution:1'\nstages: {execution: {credit: mine.sql}}\n")
    with pytest.raises(ConfigError, match=r"no credit 'mine.sql'; shipped rules: delegation, execution"):
        open_method(path)
    write_sql(tmp_path, GOOD).rename(tmp_path / "mine.sql")
    assert compute_credit(two_roots().connect(), open_method(path)).groups("execution") == ["3/a"]
    path.write_text("name: mine\nstages: {execution: {credit: mine.sql}}\n")
    with pytest.raises(ConfigError, match="names 'delegation', which has no credit"):
        open_method(path)
    path.write_text("name: mine\nschedule: 'execution:1'\nstages: {execution: {credit: mine.sql, lambda: 1}}\n")
    with pytest.raises(ConfigError, match="unknown key"):
        open_method(path)
