"""The derived views on the small store, whose content is known, and on labels made to disagree."""

import duckdb
import pytest

import sera_data as sd
from schemas import TABLES
from sera_data.duck import VIEWS
from tests.sera_data.small_store import CONFIG_HASH, RUN, small_store, task_id, unit_rows, write_unit
from tests.sera_data.small_tree import POLICY

TREES = 8  # two epochs of two tasks of two samples


def one(store, query):
    ((value,),) = store.sql(query).fetchall()
    return value


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_works_on_an_empty_store(place, name):
    assert sd.create(place / "s").sql(f"from {name}").fetchall() == []


def test_a_slip_in_a_view_s_name_is_told_the_name(place):
    with pytest.raises(duckdb.CatalogException, match="pairs"):
        sd.create(place / "s").sql("from pair")


def test_a_query_finds_every_view_whatever_was_asked_before_and_however_it_is_written(sealed):
    store = sd.open(sealed.path)
    assert one(store, "select count(*) from nodes") > 0
    assert one(store, "select count(*) from TREES") == one(store, 'select count(*) from main."trees"') == TREES
    assert one(store, "select count(*) from query_table('pairs')") > 0
    assert {name for (name,) in store.sql("show tables").fetchall()} == {*TABLES, *VIEWS, "task_rows"}


def test_factual_are_the_root_branch_0_and_its_child(sealed):
    assert one(sealed, "select count(*) from factual") == 3 * TREES
    assert one(sealed, "select count(*) from factual where branch > 0") == 0
    assert one(sealed, "select count(*) from nodes where branch = 0 and depth = 2 and not on_path") == TREES


def test_tasks_are_distinct_over_epochs(sealed):
    assert one(sealed, "select count(*) from tasks") == 2
    assert one(sealed, "select count(*) from task_rows") == 4
    assert one(sealed, "select max(epoch) from tasks") == 0


def test_leaves_are_factual_leaves_of_every_factual_node(sealed):
    rows = sealed.sql("from leaves").fetchall()
    assert len(rows) == 3 * TREES
    for tree, node, leaf in rows:
        assert node.startswith(tree)
        assert leaf == f"{tree}/t1d0b0/t1d0b0"


def test_a_root_that_never_delegates_is_its_own_leaf(place):
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    node = store.sql("select * from nodes where parent_id is null").pl().to_dicts()[0]
    connection = store.connect()
    connection.register("lonely", store.sql("from nodes where depth = 0").pl())
    connection.execute("create or replace view nodes as from lonely")
    assert connection.sql("from leaves").fetchall() == [(node["tree_id"], node["tree_id"], node["tree_id"])]


def test_scored_has_one_row_per_scored_node_on_and_off_path(sealed):
    assert one(sealed, "select count(*) from scored") == 10 * TREES
    assert one(sealed, "select count(*) from scored where on_path") == 2 * TREES
    assert one(sealed, "select count(*) from scored where committed and k = 8") == TREES
    columns = [c[0] for c in sealed.sql("describe scored").fetchall()]
    assert columns == [
        "run_id",
        "epoch",
        "task_id",
        "difficulty",
        "tree_id",
        "sample",
        "purpose",
        "delegation_id",
        "branch",
        "node_id",
        "depth",
        "on_path",
        "committed",
        "k",
        "rubric_id",
        "writer",
        "writer_version",
        "scorer",
        "scorer_version",
        "phase",
        "score",
        "success_flag",
        "weighted_score",
        "y",
        "n_turns",
        "n_tokens",
        "outcome",
    ]
    row = (
        sealed.sql("from scored where branch = 1 and depth = 1 and sample = 1 and epoch = 0 limit 1").pl().to_dicts()[0]
    )
    assert (row["y"], row["score"], row["success_flag"], row["difficulty"]) == (1.0, 0.75, True, "easy")
    assert (row["n_turns"], row["n_tokens"], row["writer"]) == (2, 6 + 3 + 8, POLICY)


def test_pairs_are_successes_against_failures_of_one_delegation(sealed):
    columns = [c[0] for c in sealed.sql("describe pairs").fetchall()]
    assert columns == [
        "run_id",
        "epoch",
        "task_id",
        "delegation_id",
        "rubric_id",
        "scorer",
        "scorer_version",
        "depth",
        "win_node",
        "lose_node",
        "s1",
        "s0",
        "gap",
    ]
    assert one(sealed, "select count(*) from pairs") == 16 * TREES
    assert one(sealed, "select count(distinct delegation_id) from pairs") == TREES
    # branch 5 scores 0.5: it fails in even samples (0.75 - 0.5) and succeeds in odd ones (0.5 - 0.25)
    gaps = dict(sealed.sql("select gap, count(*) from pairs group by 1").fetchall())
    assert gaps == {0.5: 12 * TREES, 0.25: 4 * TREES}


def test_trees_compare_forked_with_plain(sealed, place):
    plain = small_store(place / "s", epochs=2, k=1)
    query = (
        "select task_id, sample, success, n_nodes, n_turns, n_tokens, max_depth, n_delegations from trees order by all"
    )
    assert sealed.sql(query).fetchall() == plain.sql(query).fetchall()
    row = sealed.sql("from trees where sample = 1 limit 1").pl().to_dicts()[0]
    wanted = {"success": 0.0, "n_nodes": 3, "n_turns": 8, "max_depth": 2, "n_delegations": 2, "n_all_nodes": 11}
    assert {key: row[key] for key in wanted} == wanted
    assert row["outcome"] == "finished"


def test_costs_count_turns_tokens_and_labels(sealed):
    rows = {r["role"]: r for r in sealed.sql("from costs where epoch = 0").pl().to_dicts()}
    assert {role: r["n_turns"] for role, r in rows.items()} == {"act": 100, "writer": 12, "scorer": 40, "program": 44}
    assert rows["scorer"]["n_prompt_tokens"] == 80
    assert rows["writer"]["n_completion_tokens"] == 48
    assert rows["act"]["n_full_prompt_tokens"] > rows["act"]["n_prompt_tokens"]
    assert one(sealed, "select sum(n_turns) from costs where role in ('act', 'writer', 'scorer')") == len(sealed.turns)


def test_progress_gives_success_and_shares(sealed):
    rows = sealed.sql("from progress order by epoch, purpose").pl().to_dicts()
    assert [(r["epoch"], r["purpose"], r["n_trees"], r["n_nodes"], r["success"]) for r in rows] == [
        (epoch, purpose, 2, 6, 0.5) for epoch in (0, 1) for purpose in ("delegation", "execution")
    ]
    assert {r["share_finished"] for r in rows} == {1.0}
    assert {r["share_infra_error"] for r in rows} == {0.0}


def label(node, tree, task, source, value, **changes):
    row = {
        "node_id": node,
        "tree_id": tree,
        "task_id": task,
        "source": source,
        "version": "1",
        "attempt": 0,
        "kind": "judge",
        "use": "train",
        "inclusion_probability": 1.0,
        "valid": value is not None,
        "value": value,
        "error": None if value is not None else "no verdict",
    }
    return {**row, **changes}


@pytest.fixture
def judged(place):
    return sd.create(place / "s")


def add_labels(store, rows):
    """Commit one tree whose only labels are those given, on its root; returns the verdicts of both scopes."""
    plan = sd.claim_plan(store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=[{"unit_id": "u0000"}])
    base = unit_rows(task_id(0), samples=1, k=2)
    node = base["nodes"][0]
    base["labels"] = [label(node["node_id"], node["tree_id"], node["task_id"], **r) for r in rows]
    write_unit(store, plan, "u0000", base)
    return {
        scope: store.sql(f"select value, kind, use, source from {scope}").fetchall()
        for scope in ("verdicts", "audit_verdicts")
    }


JUDGES = [{"source": "judge", "value": float(v), "attempt": i} for i, v in enumerate((1, 1, 0))]
PROGRAM = {"source": "textcraft", "kind": "program"}


@pytest.mark.parametrize(
    "rows, wanted",
    [
        (JUDGES, (1.0, "judge", "train", "judge")),
        (JUDGES[1:], (None, "judge", "train", "judge")),
        ([*JUDGES, {**PROGRAM, "value": 0.0}], (0.0, "program", "train", "textcraft")),
        (
            [{**PROGRAM, "value": 0.0, "version": "9"}, {**PROGRAM, "value": 1.0, "version": "10"}],
            (1.0, "program", "train", "textcraft"),
        ),
        (
            [{**PROGRAM, "value": 0.0, "version": "1"}, {**PROGRAM, "value": None, "version": "2"}],
            (0.0, "program", "train", "textcraft"),
        ),
        ([*JUDGES, {"source": "ann", "kind": "human", "value": 0.0}], (0.0, "human", "train", "ann")),
        ([*JUDGES, {"source": "b", "value": 1.0}], (1.0, "judge", "train", "b+judge")),
    ],
)
def test_the_verdict_is_the_newest_program_else_the_majority(judged, rows, wanted):
    found = add_labels(judged, rows)
    assert found["verdicts"] == [wanted] == found["audit_verdicts"]


def test_audit_labels_are_never_train_verdicts(judged):
    found = add_labels(judged, [{"source": "judge", "value": 1.0, "use": "audit"}])
    assert found["verdicts"] == []
    assert found["audit_verdicts"] == [(1.0, "judge", "audit", "judge")]


AUDIT = {"use": "audit", "attempt": 9}


@pytest.mark.parametrize(
    "rows, wanted",
    [
        ([*JUDGES, {"source": "judge", "value": 0.0, **AUDIT}], (0.0, "judge", "audit", "judge")),
        (
            [{**PROGRAM, "value": 1.0, "version": "2"}, {**PROGRAM, "value": 0.0, **AUDIT}],
            (0.0, "program", "audit", "textcraft"),
        ),
        (
            [{**PROGRAM, "value": 1.0}, {"source": "judge", "value": 0.0, **AUDIT}],
            (1.0, "program", "train", "textcraft"),
        ),
        ([*JUDGES, {"source": "judge", "value": None, **AUDIT}], (1.0, "judge", "train", "judge")),
    ],
)
def test_audit_labels_of_a_kind_stand_in_for_its_train_labels(judged, rows, wanted):
    found = add_labels(judged, rows)
    assert found["audit_verdicts"] == [wanted]
    assert found["verdicts"][0][:3] == (1.0, rows[0].get("kind", "judge"), "train")


def test_an_invalid_label_is_no_verdict(judged):
    assert add_labels(judged, [{**PROGRAM, "value": None}])["verdicts"] == []
    assert one(judged, "select count(*) from trees where success is null") == 1
    assert one(judged, "select success from progress") is None
