"""Cells as turns: stored calls, launches, faults and budgets."""

import json
from functools import cache

import pytest

from collect import cell as cell_module
from collect.policy import Completion
from collect.recipes import recipe_book
from collect.settings import Budgets, SandboxSettings
from collect.textcraft import TextCraft
from tests.collect.code_lab import cell, play, turns_of
from tests.collect.tree_lab import plan


def test_every_call_of_a_cell_is_stored_with_its_delta():
    tree = play({"": ["print(add('a', 1))\nadd(item='a', n=2)\nadd('b', 'x')", "finish('done')\nadd('a', 9)"]})
    first, last = turns_of(tree)
    calls = [(c["tool"], json.loads(c["arguments"]), c["ok"], c["delta"]) for c in first["tool_calls"]]
    assert calls[0] == ("add", {"item": "a", "n": 1}, True, '{"a":1,"reward":"MARKER-DELTA"}')
    assert calls[1] == ("add", {"item": "a", "n": 2}, True, '{"a":2,"reward":"MARKER-DELTA"}')
    assert calls[2] == ("add", {"item": "b", "n": "x"}, False, None)
    stamps = [c["order_stamp"] for c in first["tool_calls"]]
    assert stamps == sorted(set(stamps))
    assert first["observation"] == "Added, have 1.\nError: n must be a number"
    assert (first["ok"], first["error"]) == (False, "Error: n must be a number")
    assert json.loads(first["action"]) == {
        "tool": "python",
        "code": "print(add('a', 1))\nadd(item='a', n=2)\nadd('b', 'x')",
    }
    assert [c["tool"] for c in last["tool_calls"]] == ["finish"]  # finish ended the cell
    assert last["observation"] is None
    assert (tree.nodes[0]["message"], tree.nodes[0]["outcome"], tree.root.success) == ("done", "finished", True)
    assert tree.nodes[0]["end_state"] == '{"inventory":{"a":3,"z":1}}'


def test_variables_stay_between_the_cells_of_one_agent_only():
    tree = play(
        {
            "": ["x = 'kept'", "print(x, await delegate({'a': 1}))", "finish('done')"],
            "/t1d0b0": ["print(x)", "finish('')"],
        }
    )
    assert turns_of(tree)[1]["observation"] == "kept Child: finished without a message. Steps used: 2 of 20."
    child = turns_of(tree, 1)[0]
    assert child["error"] == "NameError: name 'x' is not defined (line 1)"
    assert child["observation"] == f"Error: {child['error']}."


def test_launches_are_stored_delegations_with_the_characters_that_asked():
    code = "r = await asyncio.gather(delegate({'a': 1}, 'hint'), launch({'b': 2}))\nprint(r)\nadd('z', 1)"
    turns = {
        "": [code, "for n in (1, 2):\n    await delegate({'a': n})", "finish('done')"],
        "/t0d0b0": ["add('a', 1)\nfinish('made it')"],
        "/t0d1b0": ["finish('no')"],
        "/t1d0b0": ["finish('one')"],
        "/t1d1b0": ["finish('two')"],
    }
    tree = play(turns)
    first, second, _ = turns_of(tree)
    spans = [first["text"][d["char_start"] : d["char_end"]] for d in first["delegations"]]
    assert spans == ["delegate({'a': 1}, 'hint')", "launch({'b': 2})"]
    assert [d["status"] for d in first["delegations"]] == ["launched", "launched"]
    assert first["observation"] == (
        "['Child: made it. Steps used: 1 of 20.', 'Child: no. Steps used: 1 of 20.']\nAdded, have 2."
    )
    assert [(c["tool"], c["delta"]) for c in first["tool_calls"]] == [
        ("delegate", '{"a":1}'),
        ("delegate", None),
        ("add", '{"reward":"MARKER-DELTA","z":1}'),
    ]
    assert json.loads(first["tool_calls"][0]["arguments"]) == {"targets": {"a": 1}, "context": "hint"}
    assert [n["context"] for n in tree.nodes] == [None, "hint", None, None, None]
    assert [n["start_state"] for n in tree.nodes[1:3]] == ['{"inventory":{"z":1}}', '{"inventory":{"a":1,"z":1}}']
    looped = [second["text"][d["char_start"] : d["char_end"]] for d in second["delegations"]]
    assert looped == ["delegate({'a': n})"] * 2
    assert [n["node_id"].rpartition("/")[2] for n in tree.nodes[1:]] == ["t0d0b0", "t0d1b0", "t1d0b0", "t1d1b0"]


@pytest.mark.parametrize(
    "code, status, seen",
    [
        ("print(await delegate({'a': 0}))", "invalid", "Refused: targets must map items to counts of at least 1."),
        ("print(await delegate({}))", "invalid", "Refused: targets must map items"),
        ("print(await delegate([('a', 1)]))", "invalid", "Refused: targets must map items"),
        ("print(await delegate({'a': 1, 'a': 2}))", "invalid", "Refused: targets must map items"),
        ("print('é', await delegate(targets={'a': 1, 'a': 1}))", "invalid", "Refused: targets must map items"),
        ("delegate({'a': 1})", "invalid", "Error: 1 launches did not run, because they were not awaited"),
        ("delegate({'a': 1})\nfinish('done')", "invalid", None),
        (
            "print(await asyncio.gather(*[delegate({'a': n + 1}) for n in range(5)]))",
            "refused",
            "Refused: only 4 launches per turn.",
        ),
        (
            "print(await delegate({'a': 1}), await delegate({'a': 1}))",
            "refused",
            "Refused: the same targets were launched in this turn.",
        ),
    ],
)
def test_refused_launches_are_stored_and_told(code, status, seen):
    def act(request):
        deep = "/" in request.session
        return cell("finish('ok')") if deep or len(request.messages) > 2 else cell(code)

    tree = play(act)
    first = turns_of(tree)[0]
    assert first["delegations"][-1]["status"] == status
    assert first["delegations"][-1]["reason"]
    if seen is None:
        assert first["observation"] is None
    else:
        assert seen in first["observation"]
    assert first["ok"] is False


def test_what_calls_carry_is_bounded(monkeypatch):
    monkeypatch.setattr(cell_module, "TRAFFIC_CHARS", 200)
    tree = play({"": ["while True: add('a', 1)", "finish('done')"]})
    first = turns_of(tree)[0]
    assert first["error"] == "CallLimitError: calls with more than 200 characters in one cell"
    assert 3 < len(first["tool_calls"]) < 20
    assert tree.root.outcome == "finished"


def test_the_level_below_the_last_is_refused():
    def act(request):
        depth, step = request.session.count("/"), len(request.messages) // 2 - 1
        return cell(f"finish('d{depth}')" if step else "print(await delegate({'a': 1}))")

    tree = play(act, budgets=Budgets(depth=2))
    assert max(n["depth"] for n in tree.nodes) == 2
    last = turns_of(tree, 2)[0]
    assert last["observation"] == "Refused: depth 3 is deeper than 2, do it yourself."


def test_a_child_s_fault_ends_the_parent_as_infra_error():
    tree = play({"": ["await delegate({'a': 1})"], "/t0d0b0": ["add('crash', 1)"]})
    assert [n["outcome"] for n in tree.nodes] == ["infra_error", "infra_error"]
    assert tree.root.success is None
    assert "KeyError" in tree.turns[0]["error"]


def test_a_sandbox_that_cannot_start_is_a_fault_of_the_machine(monkeypatch):
    monkeypatch.setenv("MONTY_BIN", "/nonexistent")
    tree = play({"": ["add('a', 1)"]}, sandbox=SandboxSettings(workers=7))  # a pool of its own
    assert tree.nodes[0]["outcome"] == "infra_error"
    assert "failed to spawn" in tree.nodes[0]["error"]
    assert tree.root.success is None


def test_a_truncated_reply_is_never_run():
    cut = Completion(cell("add('a', 2)"), None, None, "length", "none", 0)
    replies = iter([cut, cell("finish('done')")])
    tree = play(lambda request: next(replies))
    assert turns_of(tree)[0]["error"] == "truncated reply"
    assert tree.nodes[0]["end_state"] == tree.nodes[0]["start_state"]


def test_calls_that_do_not_fit_raise_in_the_cell():
    cells = {
        "add('a', 1, 2)": "TypeError: add() takes 2 positional arguments but 3 were given (line 1)",
        "add('a', item='b')": "TypeError: add() got multiple values for argument 'item' (line 1)",
        "add('a', m=1)": "TypeError: add() got an unexpected keyword argument 'm' (line 1)",
        "await delegate()": "TypeError: delegate() missing argument 'targets' (line 1)",
        "await delegate({'a': 1}, 5)": "TypeError: delegate() context must be a text (line 1)",
        "finish(3)": "TypeError: finish() message must be a text (line 1)",
        "add('a' * 200_000, 1)": "ArgumentLimitError: arguments of add are longer than 100000 characters",
        "while True: add('a', 1)": "CallLimitError: more than 50 calls in one cell",
        "await asyncio.gather(*[delegate({'a': n}) for n in range(9)])": (
            "LaunchLimitError: more than 5 launches asked for in one cell"
        ),
    }
    tree = play({"": [*cells, "finish('')"]}, sandbox=SandboxSettings(calls=50, launches=5))
    turns = turns_of(tree)[:-1]
    assert [t["error"] for t in turns] == list(cells.values())
    assert len(turns[-2]["tool_calls"]) == 50
    assert [d["reason"] for d in turns[-1]["delegations"]] == ["it was never awaited"] * 5


ERRORS = [  # the published order of refusals; a list is as good as a tuple
    ("craft(['m0_ore'], ('m0_i1', 2))", "ingredients must map items to counts"),
    ("craft({1: 2}, ('m0_i1', 2))", "ingredients must map items to counts"),
    ("craft({'m0_ore': 1}, 'm0_i1')", "target must be [item, count]"),
    ("craft({'m0_ore': 1}, ('m0_i1',))", "target must be [item, count]"),
    ("craft({'m0_ore': 1}, (7, 2))", "target item must be a name"),
    ("craft({'m0_ore': 1}, ('m0_i1', 2.0))", "target count must be an integer"),
    ("craft({'m0_ore': 1}, ('m0_i1', True))", "target count must be an integer"),
    ("craft({'m0_ore': 1}, ['m0_i1', 0])", "target count must be above 0"),
    ("craft({'m0_ore': '1'}, ['m0_i1', 2])", "count of m0_ore must be an integer"),
    ("craft({'m0_ore': -1}, ['m0_i1', 2])", "count of m0_ore must be above 0"),
    ("craft({'m0_ore': 1}, ['m0_ore', 2])", "no recipe for m0_ore"),
]


@cache
def crafted():
    """A one-step recipe of the published world: item, yield, ingredient, count."""
    book = recipe_book(42, 25, 12)
    recipe = next(r for r in book.recipes.values() if len(r.needs) == 1 and r.makes > 1 and min(r.needs.values()) > 1)
    ((name, count),) = recipe.needs.items()
    return recipe.item, recipe.makes, name, count


def textcraft_tree(cells, stock=10):
    item, makes, name, _ = crafted()
    spec = {"world_seed": 42, "items_per_tier": 25, "max_tier": 12}
    spec |= {"targets": {item: makes}, "inventory": {name: stock}}
    task = {"task_id": "t0123456789abcdef", "world": "textcraft", "profile": "rao-42", "split": "train"}
    given = plan("execution").task.__class__(**task, difficulty="easy", goal=f"craft {makes}x {item}", spec=spec)
    return play({"": [*cells, "finish('done')"]}, world=TextCraft(), plan_changes={"task": given})


def test_the_error_table_in_cells():
    item, makes, name, count = crafted()
    own = [
        (f"craft({{'{name}': {count}}}, ('{item}', {makes + 1}))", f"{makes + 1} is not a multiple"),
        (f"craft({{}}, ('{item}', {makes}))", f"missing {name} {count}"),
        (f"craft({{'{name}': {count + 1}}}, ('{item}', {makes}))", f"{name} must be {count}, got {count + 1}"),
        (f"craft({{'{name}': {count}, 'm0_ore2': 1}}, ('{item}', {makes}))", "is not in the recipe"),
        (f"craft({{'{name}': {count * 99}}}, ('{item}', {makes * 99}))", f"need {name} {count * 99}, have 10"),
    ]
    cases = [*ERRORS, *own]
    tree = textcraft_tree([f"print({code})" for code, _ in cases])
    for (code, reason), turn in zip(cases, turns_of(tree), strict=False):
        assert turn["observation"].startswith("Error: "), code
        assert reason in turn["observation"], code
        assert [(c["tool"], c["ok"], c["delta"]) for c in turn["tool_calls"]] == [("craft", False, None)]
    assert tree.nodes[0]["end_state"] == tree.nodes[0]["start_state"]


@pytest.mark.parametrize("target", ["('{item}', {makes})", "['{item}', {makes}]"])
def test_a_craft_takes_a_tuple_or_a_list(target):
    item, makes, name, count = crafted()
    target = target.format(item=item, makes=makes)
    tree = textcraft_tree([f"r = craft({{'{name}': {count}}}, {target})\nprint(r, view_inventory()['{item}'])"])
    assert turns_of(tree)[0]["observation"] == f"Crafted {makes}x {item}, have {makes}. {makes}"
    assert tree.root.success is True


def test_lookups_are_lists_and_dictionaries():
    item, _, name, count = crafted()
    tree = textcraft_tree(
        [f"info = get_info(['{item}', 'nothing'])\nprint(info[0]['needs']['{name}'], info[1]['error'])"]
    )
    assert turns_of(tree)[0]["observation"] == f"{count} unknown item"
