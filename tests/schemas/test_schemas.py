"""The tables' contract: documented columns, existing keys, and the rubric and score rules."""

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import SCHEMA_VERSION, TABLES, rubric_from_json, score_from_json, weighted_score
from schemas.version import major

TEN = ["runs", "tasks", "nodes", "turns", "rubrics", "branches", "labels", "scores", "updates", "evals"]
OVERLAYS = ["logprobs"]


def test_every_epoch_has_ten_tables_and_may_have_overlays():
    assert list(TABLES) == [*TEN, *OVERLAYS]
    assert {name: table.sealed for name, table in TABLES.items() if table.sealed != "always"} == dict.fromkeys(
        OVERLAYS, "with_rows"
    )


@pytest.mark.parametrize("name", [*TEN, *OVERLAYS])
def test_every_column_is_documented_and_keys_exist(name):
    table = TABLES[name]
    names = [c.name for c in table.columns]
    assert len(set(names)) == len(names)
    assert set(table.key) | set(table.sort) <= set(names)
    assert names[:3] == ["run_id", "epoch", "shard_id"]
    for column in table.columns:
        assert len(column.doc) > 8, column.name
        assert table.schema.field(column.name).metadata[b"doc"].decode() == column.doc
    assert not {c.name for c in table.columns if c.volatile} & set(table.key)


def test_list_elements_are_never_null():
    for table in TABLES.values():
        for field in table.schema:
            if pa.types.is_list(field.type):
                assert not field.type.value_field.nullable, f"{table.name}.{field.name}"


def test_an_unknown_column_names_the_allowed_ones():
    with pytest.raises(KeyError, match="it has"):
        TABLES["nodes"].column("reward")


def test_version_is_major_minor():
    assert major(SCHEMA_VERSION) == 1
    with pytest.raises(ValueError, match="MAJOR"):
        major("one")


def rubric(weights):
    return {"rubric_items": [{"name": f"i{k}", "description": "d", "weight": w} for k, w in enumerate(weights)]}


def test_rubric_weights_are_renormalised():
    assert [i.weight for i in rubric_from_json(rubric([2, 2])).items] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (rubric([0, 0]), "total above 0"),
        (rubric([1]), "at least 2"),
        ({"rubric_items": [{"description": "d", "weight": 1}] * 2}, "non-empty name"),
        (rubric([1, math.nan]), "finite weight"),
        (rubric([1, -1]), "finite weight"),
        (rubric([1, True]), "finite weight"),
        ([], "JSON object"),
    ],
)
def test_invalid_rubrics_say_why(body, reason):
    with pytest.raises(ValueError, match=reason):
        rubric_from_json(body)


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=2, max_size=8).filter(lambda w: sum(w) > 1e-6))
def test_valid_rubrics_sum_to_one_and_hash_stably(weights):
    parsed = rubric_from_json(rubric(weights))
    assert math.isclose(sum(i.weight for i in parsed.items), 1, rel_tol=1e-9)
    assert parsed.sha256() == rubric_from_json(rubric(weights)).sha256()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"success": True, "final_score": 0}, "requires final_score above 0"),
        ({"success": False, "final_score": 0.3}, "requires final_score 0"),
        ({"final_score": math.nan}, "finite number"),
        ({"final_score": 1.2}, "finite number"),
        ({"final_score": "0.5"}, "finite number"),
        ({"final_score": 0.5, "criterion_scores": [2, 0]}, "criterion_scores"),
        ({}, "finite number"),
    ],
)
def test_invalid_scores_say_why(body, reason):
    with pytest.raises(ValueError, match=reason):
        score_from_json(body, rubric_from_json(rubric([1, 1])))


def test_golden_score_without_a_flag_is_valid():
    score = score_from_json({"score": 0.4}, rubric_from_json(rubric([1, 1])))
    assert (score.final_score, score.success, score.item_scores) == (0.4, None, ())


def test_weighted_score_needs_every_item():
    frozen = rubric_from_json(rubric([1, 3]))
    full = score_from_json({"final_score": 0.5, "criterion_scores": [1, 0.5]}, frozen)
    assert weighted_score(frozen, full) == pytest.approx(0.25 + 0.375)
    assert weighted_score(frozen, score_from_json({"final_score": 0.5, "criterion_scores": [1]}, frozen)) is None
