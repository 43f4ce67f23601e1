"""The blocks dialect: the published parser table, classes of faults, spans, thoughts, and text that never raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.dialect import DIALECTS, dialect_for, open_dialect
from collect.dialect_blocks import FAULTS, BlocksDialect, without_thoughts
from sera_data.errors import UsageError

TOOLS = ("command",)
DIALECT = BlocksDialect()


def decide(text):
    return DIALECT.decide(text, tools=TOOLS)


def fault(text):
    decision = decide(text)
    assert decision.kind == "invalid", text
    name, _, reason = decision.reason.partition(": ")
    assert name in FAULTS
    assert reason
    return name


@pytest.mark.parametrize(
    "text,kind",
    [
        ("<action>take salt</action>", "act"),
        ("I take it.\n<ACTION>\n take salt \n</Action> done", "act"),
        ("<action>inventory</action>", "act"),
        ("<finish>all eaten</finish>", "finish"),
        ('<delegate>{"goal": "eat dish_1"}</delegate>', "delegate"),
        ('<delegate>{"delegations": [{"goal": "a"}, {"goal": "b"}]}</delegate>', "delegate"),
    ],
)
def test_kinds(text, kind):
    assert decide(text).kind == kind


def test_an_action_is_one_trimmed_command():
    action = decide("<action>  take salt\n</action>").action
    assert (action.tool, action.arguments) == ("command", {"text": "take salt"})


def test_of_several_blocks_of_a_kind_the_first_counts():
    assert decide("<action>a</action><action>b</action>").action.arguments == {"text": "a"}
    assert decide("<finish>a</finish><finish>b</finish>").message == "a"


@pytest.mark.parametrize(
    "text,name",
    [
        ("", "no_block"),
        ("take salt", "no_block"),
        ("<look>x</look>", "no_block"),
        ("<action>take salt", "unclosed_block"),
        ("<action>a</action><finish>b</finish>", "mixed_blocks"),
        ('<action>a</action> <delegate>{"goal":"b"}</delegate>', "mixed_blocks"),
        ("<action> </action>", "empty_block"),
        ("<finish></finish>", "empty_block"),
        ("<delegate></delegate>", "empty_block"),
        ("<delegate>eat it</delegate>", "not_json"),
        ('<delegate>```json\n{"goal":"a"}\n```</delegate>', "not_json"),
        ("<delegate>{'goal': 'a'}</delegate>", "not_json"),
        ('<delegate>{"goal":"a","goal":"b"}</delegate>', "not_json"),
        ('<delegate>{"goal":"a","max_steps":NaN}</delegate>', "not_json"),
        ('<delegate>["a"]</delegate>', "bad_delegation"),
        ("<delegate>{}</delegate>", "bad_delegation"),
        ('<delegate>{"goal":"a","delegations":[{"goal":"b"}]}</delegate>', "bad_delegation"),
        ('<delegate>{"delegations":[]}</delegate>', "bad_delegation"),
        ('<delegate>{"delegations":["a"]}</delegate>', "bad_delegation"),
        ('<delegate>{"delegations":[{"goal":"a"},{"goal":" "}]}</delegate>', "bad_delegation"),
        ('<delegate>{"goal":""}</delegate>', "bad_delegation"),
        ('<delegate>{"goal":5}</delegate>', "bad_delegation"),
        ('<delegate>{"goal":"a","context":5}</delegate>', "bad_delegation"),
        ('<delegate>{"goal":"a","max_steps":0}</delegate>', "bad_max_steps"),
        ('<delegate>{"goal":"a","max_steps":-3}</delegate>', "bad_max_steps"),
        ('<delegate>{"goal":"a","max_steps":false}</delegate>', "bad_max_steps"),
        ('<delegate>{"goal":"a","max_steps":"many"}</delegate>', "bad_max_steps"),
        ('<delegate>{"goal":"a","max_steps":[4]}</delegate>', "bad_max_steps"),
        ('<delegate>{"goal":"a","max_steps":1e999}</delegate>', "not_json"),
    ],
)
def test_faults_have_a_class(text, name):
    assert fault(text) == name


@pytest.mark.parametrize(
    "given_,steps", [("true", 1), ('"5"', 5), ("3.7", 3), ("12", 12), ("null", None), ("1000000", 1000000)]
)
def test_max_steps_is_what_int_takes(given_, steps):
    decision = decide(f'<delegate>{{"goal": " eat dish_1 ", "max_steps": {given_}}}</delegate>')
    assert decision.launches[0].targets == {"goal": "eat dish_1", "max_steps": steps}


def test_one_bad_delegation_refuses_the_whole_block_and_keeps_its_span():
    text = 'so <delegate>{"delegations":[{"goal":"a"},{"goal":"b","max_steps":0}]}</delegate>.'
    decision = decide(text)
    assert fault(text) == "bad_max_steps"
    launch = decision.launches[0]
    assert text[launch.char_start : launch.char_end] == text[3:-1]


def test_launch_spans_cover_the_block_and_hold_their_element():
    first, second, third = '{"goal":"a"}', '{ "goal": "b]}{", "max_steps": 3 }', '{"goal":"c"}'
    text = f'now\n<delegate> {{"delegations": [ {first} ,\n{second},{third} ] }} </delegate> ok'
    spans = [text[launch.char_start : launch.char_end] for launch in decide(text).launches]
    assert spans[0] == f'<delegate> {{"delegations": [ {first}'
    assert spans[1] == second
    assert spans[2] == f"{third} ] }} </delegate>"


@pytest.mark.parametrize(
    "text",
    [
        "<think>maybe <action>eat it</action></think><action>take salt</action>",
        "<finish>no</finish></think><action>take salt</action>",
        "<think>a</think> <think><delegate>{</delegate></think><action>take salt</action>",
        "<action>take salt</action><think>and then <finish>x</finish>",
    ],
)
def test_thoughts_are_not_parsed(text):
    assert decide(text).action.arguments == {"text": "take salt"}
    assert len(without_thoughts(text)) == len(text)


def test_a_thought_alone_is_no_block():
    assert fault("<think><action>take salt</action>") == "no_block"


pieces = st.sampled_from(
    [
        *("<action>", "</action>", "<delegate>", "</delegate>", "<finish>", "</finish>", "<think>", "</think>"),
        *(
            '{"goal":"a"}',
            '{"delegations":[',
            "]}",
            ",",
            '"max_steps":',
            "0",
            "{",
            "}",
            "[",
            '"',
            "\\",
            "take salt",
            " ",
        ),
    ]
)


@given(st.lists(pieces | st.text(max_size=6), max_size=14).map("".join))
def test_any_text_gives_a_decision(text):
    decision = decide(text)
    assert (decision.reason is not None) == (decision.kind == "invalid")
    assert (decision.action is not None) == (decision.kind != "invalid")
    end = 0
    for launch in decision.launches:
        assert end <= launch.char_start < launch.char_end <= len(text)
        end = launch.char_end


goals = st.text(alphabet='abé <>/{}[]",\\\n', max_size=12).map(lambda text: ("g" + text).strip())
launches = st.lists(
    st.builds(
        lambda goal, steps, context: (
            {"targets": {"goal": goal, "max_steps": steps}} | ({"context": context} if context else {})
        ),
        goals,
        st.none() | st.integers(1, 99),
        st.none() | goals,
    ),
    min_size=1,
    max_size=4,
)


@given(launches, st.text(alphabet='ab \n.{"', max_size=9))
def test_delegations_come_back_as_they_were_written(asked, before):
    text = before + DIALECT.write("delegate", {"launches": asked})
    decision = decide(text)
    assert decision.action.arguments == {"launches": asked}
    assert [(launch.targets, launch.context) for launch in decision.launches] == [
        (item["targets"], item.get("context")) for item in asked
    ]
    assert decision.launches[0].char_start == len(before)
    assert decision.launches[-1].char_end == len(text)
    for launch, item in zip(decision.launches, asked, strict=True):
        goal = json.dumps(item["targets"]["goal"], ensure_ascii=False).replace("<", "\\u003c")
        assert goal in text[launch.char_start : launch.char_end]


@given(st.text(alphabet='abc <>/{}"\n', min_size=1, max_size=30))
def test_commands_and_messages_come_back_or_are_refused(words):
    try:
        text = DIALECT.write("command", {"text": words})
    except ValueError:
        assert not words.strip() or "<" in words
        return
    assert decide(text).action.arguments == {"text": words.strip()}
    assert decide(DIALECT.write("finish", {"message": words})).message == words.strip()


@pytest.mark.parametrize("tool,arguments", [("craft", {}), ("finish", {}), ("command", {"text": "<finish>x"})])
def test_what_cannot_be_written_is_refused(tool, arguments):
    with pytest.raises(ValueError):
        DIALECT.write(tool, arguments)


def test_dialects_are_opened_by_name_and_by_world():
    for name in ("json", "blocks"):
        assert open_dialect(name).name == name
    assert set(DIALECTS) >= {"json", "blocks", "code"}
    with pytest.raises(UsageError, match="json, blocks, code"):
        open_dialect("xml")

    class Speaks:
        name, dialects = "kitchen", ("blocks",)

    class Silent:
        name = "pot"

    assert dialect_for(Speaks(), "auto").name == "blocks"
    assert dialect_for(Silent(), "auto").name == "json"
    with pytest.raises(UsageError, match="allowed: blocks"):
        dialect_for(Speaks(), "json")
