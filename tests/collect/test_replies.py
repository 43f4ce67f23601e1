"""Rubrics and scores in replies: the golden cases and every way to wrap JSON."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.replies import find_object, parse_rubric, parse_score
from schemas import rubric_from_json


def items(*weights, name="n"):
    return {"rubric_items": [{"name": f"{name}{i}", "description": "d", "weight": w} for i, w in enumerate(weights)]}


RUBRIC = rubric_from_json(items(2, 2))


@pytest.mark.parametrize(
    "text,value",
    [
        ('{"score":0.4}', 0.4),
        ('```json\n{"final_score":0.5,"success":true}\n```', 0.5),
        ('Here:\n```\n{"final_score":1}\n``` done', 1.0),
        ('I think {"final_score":0,"success":false} fits', 0.0),
        ('{"success":true,"criterion_scores":[1,0.5],"final_score":0.75}', 0.75),
    ],
)
def test_valid_scores(text, value):
    assert parse_score(text, RUBRIC).final_score == value


@pytest.mark.parametrize(
    "text,reason",
    [
        ('{"success":true,"final_score":0}', "success true"),
        ('{"success":false,"final_score":0.3}', "success false"),
        ('{"final_score":NaN}', "finite"),
        ('{"final_score":1.2}', "finite"),
        ('{"final_score":Infinity}', "finite"),
        ('{"final_score":1' + "0" * 400 + "}", ""),
        ('{"final_score":true}', "finite"),
        ("{}", "finite"),
        ("no", "no JSON object"),
        ("[1]", "no JSON object"),
        ('{"final_score":0.5,"criterion_scores":[2,0]}', "criterion_scores[0]"),
        ("[" * 100_000, "no JSON object"),
    ],
)
def test_invalid_scores(text, reason):
    with pytest.raises(ValueError) as caught:
        parse_score(text, RUBRIC)
    assert reason in str(caught.value)


def test_rubric_weights_are_normalised():
    assert [item.weight for item in parse_rubric(json.dumps(items(2, 2))).items] == [0.5, 0.5]


@pytest.mark.parametrize(
    "body",
    [
        items(0, 0),
        items(1),
        {"rubric_items": [{"description": "d", "weight": 1}, {"name": "n", "description": "d", "weight": 1}]},
        items(1, -1),
        items(1, 10**400),
        items(1, float("nan")),
        {},
    ],
)
def test_invalid_rubrics(body):
    with pytest.raises(ValueError):
        parse_rubric(json.dumps(body))


def test_the_number_of_items_is_a_setting():
    with pytest.raises(ValueError, match="at least 4"):
        parse_rubric(json.dumps(items(1, 1, 1)), min_items=4)


@given(st.text(max_size=120))
def test_any_reply_is_a_value_or_a_value_error(text):
    for parse in (parse_rubric, lambda t: parse_score(t, RUBRIC)):
        with suppress(ValueError):
            parse(text)


@given(
    st.dictionaries(st.text(), st.text() | st.integers(), max_size=4),
    st.sampled_from(["{}", "```json\n{}\n```", "so {}."]),
)
def test_a_wrapped_object_is_found(body, wrapping):
    text = wrapping.replace("{}", json.dumps(body))
    if "```" in json.dumps(body):
        return
    assert find_object(text) == body
