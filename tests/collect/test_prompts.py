"""Prompts: both styles hold what the role needs; a long trajectory never costs rubric, goal or answer format."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.prompts import Assignment, act_messages, scorer_messages, shortened, writer_messages
from collect.textcraft import TextCraft
from sera_data.errors import UsageError

ASSIGNMENT = Assignment(goal="craft 2x m2_i3", context="two\nlines", observed="{}", turns=9, depth=1, max_depth=2)


def scorer(style="terse", turns=(), chars=10_000):
    return scorer_messages(
        style,
        world="textcraft",
        rubric='{"rubric_items":[]}',
        goal="craft 2x m2_i3",
        turns=turns,
        finished=False,
        gained={"m2_i3": 2, "m1_ore": -4},
        trajectory_chars=chars,
    )


def test_the_full_style_documents_every_tool_and_the_answer_formats():
    tools = TextCraft().tools()
    system, user = act_messages("full", world="textcraft", tools=tools, assignment=ASSIGNMENT)
    for tool in tools:
        assert tool.example in system.content
    assert '{"tool":"delegate","targets":{"ITEM":COUNT}' in system.content
    assert '{"tool":"finish","message":"what was done"}' in system.content
    assert user.content == "Goal: craft 2x m2_i3\nNote: two lines\nInventory: {}\nSteps: 9 Depth: 1/2"
    writer = writer_messages("full", world="textcraft", parent_goal="craft 1x top", assignment=ASSIGNMENT)
    assert writer[1].content == "Goal of the delegating agent: craft 1x top\n" + user.content
    assert '"rubric_items"' in writer[0].content
    assert '"criterion_scores"' in scorer("full")[0].content


def test_the_answer_examples_of_the_full_style_are_json():
    for messages in (scorer("full"), writer_messages("full", world="textcraft", parent_goal="", assignment=ASSIGNMENT)):
        text = messages[0].content
        start = text.index("{")
        json.JSONDecoder().raw_decode(text.replace("\n", " "), start)


def test_an_unknown_style_names_the_styles():
    with pytest.raises(UsageError, match="terse, full"):
        act_messages("loud", world="textcraft", tools=(), assignment=ASSIGNMENT)


def test_a_scorer_sees_calls_answers_finish_and_gain():
    user = scorer(turns=[("call 1", "answer 1"), ("call 2", None)])[1].content
    assert user.split("\n")[1:] == [
        "Goal: craft 2x m2_i3",
        "> call 1",
        "answer 1",
        "> call 2",
        "Finish: no",
        'Gained: {"m2_i3":2,"m1_ore":-4}',
    ]


@given(st.lists(st.tuples(st.text(max_size=300), st.none() | st.text(max_size=300)), max_size=30), st.integers(0, 3000))
def test_a_shortened_trajectory_keeps_everything_else(turns, chars):
    whole, short = scorer("full", turns, 10**6), scorer("full", turns, chars)
    assert short[0] == whole[0]
    head, tail = 'Rubric: {"rubric_items":[]}\nGoal: craft 2x m2_i3\n', '\nFinish: no\nGained: {"m2_i3":2,"m1_ore":-4}'
    assert short[1].content.startswith(head)
    assert short[1].content.endswith(tail)
    assert len(short[1].content) <= len(head) + len(tail) + chars + 40


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=60), max_size=30), st.integers(0, 900))
def test_shortening_keeps_both_ends_and_counts_what_is_gone(entries, limit):
    kept = shortened(entries, limit)
    if kept == entries:
        return
    marks = [k for k in kept if k.startswith("[")]
    assert len(marks) == 1
    left_out = int(marks[0].split()[0][1:])
    at = kept.index(marks[0])
    assert kept[:at] == entries[:at]
    assert kept[at + 1 :] == entries[at + left_out :]
    assert len(kept) - 1 + left_out == len(entries)
