"""The TextCraft tools: error table, atomicity, purity, net gain, typed targets."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.recipes import recipe_book
from collect.textcraft import MAX_COUNT, MAX_TARGETS, TextCraft, inventory
from collect.world import Action, Agent, Task

BOOK = recipe_book(42, 25)
AGENT = Agent("r", 0, {"a1_i1": 1})
WORLD = TextCraft()
NAMES = ("a1_i1", "m2_i2_12", "raw_a4", "m3_ore", "m2_i1_12", "nothing")


def craft(stock, target, ingredients):
    state = inventory(BOOK, stock)
    return state, *WORLD.apply(state, AGENT, Action("craft", {"target": target, "ingredients": ingredients}))


@pytest.mark.parametrize(
    "target, ingredients, reason",
    [
        (["a1_i1", 3], None, "ingredients must map items to counts, got None"),
        (["a1_i1", 3], ["raw_a4"], "ingredients must map items to counts, got ['raw_a4']"),
        ("a1_i1", {"raw_a4": 1}, "target must be [item, count], got 'a1_i1'"),
        (["a1_i1"], {"raw_a4": 1}, "target must be [item, count], got ['a1_i1']"),
        (None, {"raw_a4": 1}, "target must be [item, count], got None"),
        ([7, 3], {"raw_a4": 1}, "target item must be a name, got 7"),
        (["a1_i1", "3"], {"raw_a4": 1}, "target count must be an integer, got '3'"),
        (["a1_i1", 3.0], {"raw_a4": 1}, "target count must be an integer, got 3.0"),
        (["a1_i1", True], {"raw_a4": 1}, "target count must be an integer, got True"),
        (["a1_i1", 0], {"raw_a4": 1}, "target count must be above 0, got 0"),
        (["a1_i1", -3], {"raw_a4": 1}, "target count must be above 0, got -3"),
        (["a1_i1", 3], {5: 1}, "ingredient must be a name, got 5"),
        (["a1_i1", 3], {"raw_a4": 1.5}, "count of raw_a4 must be an integer, got 1.5"),
        (["a1_i1", 3], {"raw_a4": True}, "count of raw_a4 must be an integer, got True"),
        (["a1_i1", 3], {"raw_a4": 0}, "count of raw_a4 must be above 0, got 0"),
        (["raw_a4", 1], {"raw_a4": 1}, "no recipe for raw_a4"),
        (["zz\n9", 1], {"raw_a4": 1}, "no recipe for zz 9"),
        (["a1_i1", 4], {"raw_a4": 1}, "a1_i1 is made 3 at a time, 4 is not a multiple"),
        (["m2_i2_12", 3], {"m3_ore": 1}, "missing m2_i1_12 1"),
        (["a1_i1", 6], {"raw_a4": 1}, "raw_a4 must be 2, got 1"),
        (["a1_i1", 3], {"raw_a4": 1, "m3_ore": 2}, "m3_ore is not in the recipe"),
        (["a1_i1", 3], {"m3_ore": 2}, "missing raw_a4 1; m3_ore is not in the recipe"),
        (["a1_i1", 9], {"raw_a4": 3}, "need raw_a4 3, have 2"),
    ],
)
def test_refused_crafts_say_why_and_change_nothing(target, ingredients, reason):
    before, after, event = craft({"raw_a4": 2, "m3_ore": 5}, target, ingredients)
    assert (event.ok, event.result, event.delta) == (False, f"Error: {reason}", None)
    assert event.feedback == "rejected"
    assert after is before


@pytest.mark.parametrize("pair", [list, tuple])
def test_a_craft_moves_exactly_its_recipe(pair):
    before, after, event = craft({"raw_a4": 2, "a1_i1": 1}, pair(("a1_i1", 6)), {"raw_a4": 2})
    assert (event.ok, event.result, event.feedback) == (True, "Crafted 6x a1_i1, have 7.", "ok")
    assert event.delta == {"raw_a4": -2, "a1_i1": 6}
    assert dict(after.items) == {"a1_i1": 7}
    assert dict(before.items) == {"a1_i1": 1, "raw_a4": 2}


def test_info_of_every_kind_of_item():
    state = inventory(BOOK, {"raw_a4": 2})
    _, event = WORLD.apply(state, AGENT, Action("get_info", {"items": ["a1_i1", "raw_a4", "zz"]}))
    assert event.ok
    assert event.result == (
        '[{"item":"a1_i1","have":0,"makes":3,"needs":{"raw_a4":1}},'
        '{"item":"raw_a4","have":2,"base":true},{"item":"zz","error":"unknown item"}]'
    )


@pytest.mark.parametrize("items", [None, [], "a1_i1", [1], {"a1_i1": 1}, 7])
def test_info_wants_a_list_of_names(items):
    _, event = WORLD.apply(inventory(BOOK, {}), AGENT, Action("get_info", {"items": items}))
    assert not event.ok
    assert event.result.startswith("Error: items must be a non-empty list of names, got ")


def test_inventory_and_unknown_tools():
    state = inventory(BOOK, {"raw_a4": 2, "a1_i1": 1})
    looked = WORLD.apply(state, AGENT, Action("view_inventory"))[1]
    assert (looked.result, looked.feedback) == ('{"a1_i1":1,"raw_a4":2}', "info")
    assert WORLD.observe(state, AGENT) == '{"a1_i1":1,"raw_a4":2}'
    after, event = WORLD.apply(state, AGENT, Action("steal", {}))
    assert after is state
    assert event.result.startswith("Error: unknown tool steal, allowed: get_info, view_inventory, craft")


def reference(stock, target, ingredients):
    """The craft tool on a plain dictionary, for calls that are well formed."""
    recipe = BOOK.recipes.get(target[0])
    if recipe is None or target[1] <= 0 or target[1] % recipe.makes or min(ingredients.values()) <= 0:
        return None
    times = target[1] // recipe.makes
    if ingredients != {name: n * times for name, n in recipe.needs.items()}:
        return None
    if any(stock.get(name, 0) < n for name, n in ingredients.items()):
        return None
    after = dict(stock)
    for name, n in ingredients.items():
        after[name] -= n
    after[target[0]] = after.get(target[0], 0) + target[1]
    return {name: n for name, n in after.items() if n}


def likely_craft(draw_item, times):
    recipe = BOOK.recipes.get(draw_item)
    if recipe is None:
        return [draw_item, times], {"raw_a4": times}
    return [draw_item, recipe.makes * times], {name: n * times for name, n in recipe.needs.items()}


CALLS = st.one_of(
    st.builds(likely_craft, st.sampled_from(NAMES), st.integers(1, 3)),
    st.tuples(
        st.tuples(st.sampled_from(NAMES), st.integers(-1, 7)).map(list),
        st.dictionaries(st.sampled_from(NAMES), st.integers(-1, 3), min_size=1, max_size=3),
    ),
)


@given(st.dictionaries(st.sampled_from(NAMES[:-1]), st.integers(1, 9)), st.lists(CALLS, max_size=12))
def test_any_sequence_of_crafts_equals_the_reference(stock, calls):
    state, plain = inventory(BOOK, stock), dict(stock)
    for target, ingredients in calls:
        snapshot, arguments = WORLD.dump(state), {"target": target, "ingredients": ingredients}
        kept = copy.deepcopy(arguments)
        after, event = WORLD.apply(state, AGENT, Action("craft", arguments))
        assert WORLD.dump(state) == snapshot
        assert arguments == kept
        expected = reference(plain, target, ingredients)
        assert event.ok == (expected is not None)
        plain = plain if expected is None else expected
        assert dict(after.items) == plain
        if event.ok:
            assert dict(WORLD.difference(state, after)) == {k: v for k, v in event.delta.items() if v}
        state = after
    assert WORLD.load(WORLD.dump(state)) == state


def test_verdict_is_the_net_gain():
    start = inventory(BOOK, {"a1_i1": 2, "raw_a4": 1})
    held = WORLD.verdict(start, start, {"a1_i1": 2})
    assert not held.success
    assert held.details == {"gained": {"a1_i1": 0}, "missing": {"a1_i1": 2}}
    end = inventory(BOOK, {"a1_i1": 5})
    assert WORLD.verdict(start, end, {"a1_i1": 3}).success
    assert not WORLD.verdict(start, end, {"a1_i1": 3, "m2_i2_12": 1}).success
    assert WORLD.verdict(start, end, None) is None
    assert WORLD.difference(start, end) == {"a1_i1": 3, "raw_a4": -1}


@pytest.mark.parametrize(
    "raw, reason",
    [
        ({}, "1 to 16 items, got 0"),
        (None, "must map items to counts"),
        ("3x a1_i1", "must map items to counts"),
        ({"a1_i1": 0}, "from 1 to"),
        ({"a1_i1": -2}, "from 1 to"),
        ({"a1_i1": 2.0}, "from 1 to"),
        ({"a1_i1": 2.5}, "from 1 to"),
        ({"a1_i1": True}, "from 1 to"),
        ({"a1_i1": "2"}, "from 1 to"),
        ({"a1_i1": MAX_COUNT + 1}, "from 1 to"),
        ({"A1_I1": 1}, "not a craftable item"),
        ({"raw_a4": 1}, "not a craftable item"),
        ({"zz": 1}, "not a craftable item"),
        ({7: 1}, "not a craftable item"),
        ([["a1_i1", 1], ["a1_i1", 2]], "named twice"),
        ({f"m{i}_i1": 1 for i in range(9)} | {f"c{i}_i1": 1 for i in range(9)}, f"1 to {MAX_TARGETS} items, got 18"),
    ],
)
def test_targets_that_are_refused(raw, reason):
    with pytest.raises(ValueError, match=reason):
        WORLD.check_targets(inventory(BOOK, {}), raw)


def test_targets_that_are_taken():
    state = inventory(BOOK, {})
    assert WORLD.check_targets(state, {"a1_i1": 4, "m2_i2_12": 1}) == {"a1_i1": 4, "m2_i2_12": 1}
    assert WORLD.check_targets(state, [["a1_i1", 1]]) == {"a1_i1": 1}
    assert WORLD.goal({"a1_i1": 4, "m2_i2_12": 1}) == "craft 4x a1_i1, 1x m2_i2_12"


def test_targets_are_checked_against_the_world_of_the_state():
    low = inventory(recipe_book(42, 25, 1), {})
    with pytest.raises(ValueError, match="m2_i2_12 is not a craftable item"):
        WORLD.check_targets(low, {"m2_i2_12": 1})


def task(**changes):
    spec = {"world_seed": 42, "items_per_tier": 25, "max_tier": 12, "targets": {"a1_i1": 1}, "inventory": {"raw_a4": 1}}
    return Task("t", "textcraft", "rao-42", "val", "easy", "", spec | changes)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"world_seed": "42"}, "are integers"),
        ({"max_tier": 13}, "max_tier 1..12"),
        ({"targets": {}}, "1 to 16 items"),
        ({"inventory": {"raw_m0": 1}}, "unknown item 'raw_m0'"),
        ({"inventory": {"raw_a4": 0}}, "integer above 0"),
        ({"inventory": {"raw_a4": 1.5}}, "integer above 0"),
        ({"inventory": None}, "an inventory maps items to counts"),
    ],
)
def test_specs_that_are_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        WORLD.reset(task(**changes))
    with pytest.raises(ValueError, match="has world_seed"):
        WORLD.reset(Task("t", "textcraft", "rao-42", "val", "easy", "", {}))


def test_agents_have_no_place_and_the_world_never_ends():
    state = WORLD.reset(task())
    assert WORLD.enter(state, AGENT, None) is state
    assert WORLD.leave(state, AGENT) is state
    assert WORLD.over(state) is None
    assert WORLD.goal_kind == "targets"


def test_states_are_values():
    state = WORLD.reset(task())
    assert json.loads(WORLD.dump(state)) == {"inventory": {"raw_a4": 1}, "world": [42, 25, 12]}
    assert pickle.loads(pickle.dumps(state)) == state
    assert hash(WORLD.load(WORLD.dump(state))) == hash(state)
    with pytest.raises(TypeError):
        state.items["raw_a4"] = 99


def test_unknown_profiles_are_refused():
    with pytest.raises(ValueError, match="allowed: rao-42, strict"):
        TextCraft(profile="lenient")
