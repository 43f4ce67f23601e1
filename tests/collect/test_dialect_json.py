"""The json dialect: one object, one decision, exact spans; nothing of an invalid reply is executed."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.dialect_json import JsonDialect
from collect.world import Action

TOOLS = ("get_info", "view_inventory", "craft")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
prose = st.text(alphabet=st.characters(exclude_characters="{}", exclude_categories=["Cs"]), max_size=30)
layouts = st.sampled_from([{"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}, {}])


def decide(text):
    return JsonDialect().decide(text, tools=TOOLS)


def test_the_calls():
    craft = '{"tool":"craft","target":["m2_i3",2],"ingredients":{"m2_i1":2,"m1_ore":1}}'
    assert decide(craft).action == Action("craft", {"target": ["m2_i3", 2], "ingredients": {"m2_i1": 2, "m1_ore": 1}})
    assert decide('{"tool":"view_inventory"}').action == Action("view_inventory", {})
    finish = decide('I am done {"tool":"finish","message":"done"} bye')
    assert (finish.kind, finish.message) == ("finish", "done")
    assert decide('{"tool":"finish"}').message == ""
    delegate = decide('{"tool":"delegate","targets":{"m2_i1":4},"context":"c"}')
    assert delegate.kind == "delegate"
    assert delegate.launches[0].targets == {"m2_i1": 4}
    assert delegate.launches[0].context == "c"
    assert delegate.action == Action("delegate", {"launches": [{"targets": {"m2_i1": 4}, "context": "c"}]})


def test_the_span_of_a_single_launch_is_the_object():
    text = 'Let me split. {"tool":"delegate","targets":{"a":1}} ok'
    launch = decide(text).launches[0]
    assert text[launch.char_start : launch.char_end] == '{"tool":"delegate","targets":{"a":1}}'


def test_the_spans_of_several_launches_cover_the_object():
    first = '{"tool":"delegate","launches":[ {"targets":{"a":1},"context":"}{"}'
    second, third = '{"targets":{"b":2}}', '{"targets":{"c":3}} ] }'
    text = f"so: {first} , {second}, {third} end"
    spans = [text[x.char_start : x.char_end] for x in decide(text).launches]
    assert spans == [first, second, third]


@pytest.mark.parametrize(
    "text,reason",
    [
        ("", "no JSON object in the reply"),
        ('{"tool":"craft","n":1e999}', "not valid JSON: the number 1e999 is too large"),
        ('{"tool":"craft","n":-1e999}', "not valid JSON: the number -1e999 is too large"),
        ("just words", "no JSON object in the reply"),
        ('["tool"]', "no JSON object in the reply"),
        ('{"tool":"finish","message":"a"}{"tool":"finish","message":"b"}', "2 JSON objects in one reply"),
        ('{"tool":"view_inventory"}\n{"a":1}\n{}', "3 JSON objects in one reply"),
        ('{"tool":"finish","message":"a"', "not valid JSON"),
        ('{"tool":"finish" "message":"a"}', "not valid JSON"),
        ('{broken {"tool":"finish","message":"a"}', "not valid JSON"),
        ('{"tool":"finish","message":"a"} {', "not valid JSON"),
        ('{"tool":"craft","n":NaN}', "NaN is not JSON"),
        ('{"tool":"craft","n":-Infinity}', "-Infinity is not JSON"),
        ('{"tool":"craft","tool":"finish"}', 'key "tool" occurs twice'),
        ('{"tool":"delegate","targets":{"a":1,"a":2}}', 'key "a" occurs twice'),
        ('{"tool":"dance"}', 'tool "dance"; use one of get_info, view_inventory, craft, delegate, finish'),
        ('{"tool":["craft"]}', 'tool ["craft"]; use one of'),
        ('{"message":"x"}', "no tool; use one of"),
        ("{}", "no tool; use one of"),
        ('{"tool":"finish","message":3}', "message must be a text, got 3"),
        ('{"tool":"delegate"}', "delegate needs either targets or launches"),
        ('{"tool":"delegate","targets":{"a":1},"launches":[]}', "not both"),
        ('{"tool":"delegate","launches":{}}', "launches must be a non-empty list"),
        ('{"tool":"delegate","launches":[]}', "launches must be a non-empty list"),
        ('{"tool":"delegate","launches":[{"targets":{}},3]}', "every launch needs targets"),
        ('{"tool":"delegate","launches":[{"context":"x"}]}', "every launch needs targets"),
        ('{"tool":"delegate","targets":{"a":1},"context":5}', "context must be a text"),
        ('{"tool":"craft","x":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
def test_invalid_replies_say_why(text, reason):
    decision = decide(text)
    assert decision.kind == "invalid"
    assert decision.action is None
    assert reason in decision.reason


def test_braces_in_prose_that_are_no_json_are_text():
    assert decide('the set {a, b} then {"tool":"view_inventory"}').kind == "act"


def test_a_control_token_stays_text():
    assert decide('{"tool":"finish","message":"x<|end|>y"}').message == "x<|end|>y"


@given(st.text(max_size=200))
def test_any_text_gives_a_decision(text):
    decision = decide(text)
    assert decision.kind in {"act", "finish", "invalid"} or decision.launches


@given(st.text(alphabet='{}[]":,\\ \ntoldegatfinishcr0129.eE-NaI', max_size=80))
def test_any_brace_soup_gives_a_decision(text):
    decision = decide(text)
    assert (decision.kind == "invalid") == (decision.reason is not None)


@given(prose, st.dictionaries(st.text().filter(lambda k: k != "tool"), json_values, max_size=4), prose, layouts)
def test_arguments_come_back_as_they_were_written(before, arguments, after, layout):
    text = before + json.dumps({"tool": "craft", **arguments}, **layout) + after
    assert decide(text).action == Action("craft", arguments)


launch = st.fixed_dictionaries(
    {"targets": st.dictionaries(st.text(), json_values, max_size=3)},
    optional={"context": st.text(min_size=1), "launches": st.lists(st.text(), max_size=2), "note": json_values},
)


@given(
    prose,
    st.lists(launch, min_size=1, max_size=4),
    prose,
    layouts,
    st.dictionaries(st.text().map(lambda k: "x" + k), json_values, max_size=2),
)
def test_launch_spans_are_ordered_and_hold_their_launch(before, launches, after, layout, other):
    text = before + json.dumps({"tool": "delegate", **other, "launches": launches}, **layout) + after
    found = decide(text).launches
    assert [x.targets for x in found] == [x["targets"] for x in launches]
    assert found[0].char_start == len(before)
    assert found[-1].char_end == len(text) - len(after)
    spans = [text[x.char_start : x.char_end] for x in found]
    assert all(a.char_end <= b.char_start for a, b in pairwise(found))
    assert [json.loads(s) for s in spans[1:-1]] == launches[1:-1]


def test_canonical_text():
    dialect = JsonDialect()
    assert dialect.write("finish", {"message": "é"}) == '{"tool":"finish","message":"é"}'
    assert dialect.write("view_inventory") == '{"tool":"view_inventory"}'
