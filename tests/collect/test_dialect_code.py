"""The code dialect: one cell per reply, cut at its end; any call can be written as a cell."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.dialect import dialect_for, open_dialect
from collect.dialect_code import CodeDialect, cell_span, names_written, thought_of, write_cell
from collect.prompts import Assignment, act_messages
from collect.textcraft import TextCraft
from collect.world import Action
from sera_data.errors import UsageError

TOOLS = ("get_info", "view_inventory", "craft")
code_texts = st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=40)


def decide(text):
    return CodeDialect().decide(text, tools=TOOLS)


def test_a_reply_is_a_thought_and_a_cell():
    reply = "<thought>I look first.</thought>\n<python>\nx = 1\nprint(x)\n</python>"
    decision = decide(reply)
    assert (decision.kind, decision.cell) == ("cell", "x = 1\nprint(x)")
    assert decision.action == Action("python", {"code": "x = 1\nprint(x)"})
    assert thought_of(reply) == "I look first."
    assert reply[slice(*cell_span(reply))] == decision.cell


@pytest.mark.parametrize(
    "reply, cell",
    [
        ("<python>a()</python><python>b()</python>", "a()"),  # the first cell ends the reply
        ("<python>\nif a:\n    b()\n</python> and so on", "if a:\n    b()"),
        ("<python>\na()\n", "a()"),  # what is left when the engine stops at the closing tag
        ("no thought <python>\n\n   a()\n</python>", "   a()"),  # indentation is code
        ("<thought>not <python>this</python></thought><python>a()</python>", "a()"),
        ("<thought>never closed <python>a()</python>", "a()"),
    ],
)
def test_the_cell_is_what_stands_between_the_tags(reply, cell):
    assert decide(reply).cell == cell


@pytest.mark.parametrize(
    "reply, reason",
    [
        ('{"tool":"view_inventory"}', "no <python> cell in the reply"),
        ("", "no <python> cell in the reply"),
        ("<thought>a</thought><python> \n</python>", "the cell is empty"),
    ],
)
def test_a_reply_without_a_cell_is_invalid(reply, reason):
    assert (decide(reply).kind, decide(reply).reason) == ("invalid", reason)


@given(code_texts, code_texts)
def test_what_is_written_is_read_back(thought, code):
    reply = write_cell(thought, code)
    decision = decide(reply)
    if decision.cell is None:
        assert not code.strip()
    else:
        assert decision.cell.strip() == code.strip()
        start, end = cell_span(reply)
        assert reply[start:end] == decision.cell


@given(st.text(max_size=200))
def test_no_reply_raises(text):
    assert decide(text).kind in ("cell", "invalid")
    assert decide(f"<python>{text}").kind in ("cell", "invalid")


def test_any_call_is_a_cell():
    write = CodeDialect().write
    assert decide(write("craft", {"target": ["a", 2], "ingredients": {"b": 1}})).cell == (
        "print(craft(target=['a', 2], ingredients={'b': 1}))"
    )
    assert decide(write("view_inventory")).cell == "print(view_inventory())"
    assert decide(write("finish", {"message": "it's done"})).cell == 'finish("it\'s done")'
    assert decide(write("delegate", {"targets": {"a": 1}})).cell == "print(await delegate(targets={'a': 1}))"
    two = write("delegate", {"launches": [{"targets": {"a": 1}}, {"targets": {"b": 1}, "context": "c"}]})
    assert decide(two).cell == (
        "print(*await asyncio.gather(delegate(targets={'a': 1}), delegate(targets={'b': 1}, context='c')), sep=\"\\n\")"
    )


def test_worlds_say_whether_they_are_played_in_code():
    assert isinstance(dialect_for(TextCraft(), "code"), CodeDialect)
    assert open_dialect("code").name == "code"

    class Silent:
        name = "silent"

    with pytest.raises(UsageError, match="not played in the dialect 'code'"):
        dialect_for(Silent(), "code")


def test_without_the_interpreter_the_dialect_is_refused_before_anything_is_played(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(UsageError, match="needs pydantic-monty") as fault:
        open_dialect("code")
    assert "sera-data[code]" in fault.value.hint


def test_the_prompt_shows_the_tools_as_a_cell_calls_them():
    assignment = Assignment("craft 1x m2_i3", None, "{}", 20, 0, 3)
    opening = act_messages("full", world="textcraft", tools=TextCraft().tools(), assignment=assignment, dialect="code")
    system = opening[0].content
    for line in ("get_info(['m2_i3'])", "view_inventory()", "craft({'m2_i1': 2, 'm1_ore': 1}, ['m2_i3', 2])"):
        assert f"- {line} : " in system
    assert "<python>" in system
    assert "</python>" in system
    assert '{"tool"' not in system
    terse = act_messages("terse", world="textcraft", tools=TextCraft().tools(), assignment=assignment, dialect="code")
    assert terse[0].content == "You craft items in Python cells."


@pytest.mark.parametrize(
    "call, names",
    [
        ("delegate({'a': 1, 'b': n, 'a': 2}, 'hint')", ["a", "b", "a"]),
        ("delegate(context={'x': 1, 'x': 2}, targets={'a': 1})", ["a"]),
        ("delegate(wanted)", []),
        ("delegate({'a': 1, name: 2, **more})", ["a"]),
        ("delegate()", []),
        ("delegate({'a': 1", []),
        ("delegate({'a': " + "(" * 900 + "1" + ")" * 900 + "})", []),
        ("\0", []),
        ("delegate({'a': 1, 'a': 2})" + " " * 2_000, []),
    ],
)
def test_names_are_read_as_they_are_written(call, names):
    assert names_written(call) == names
