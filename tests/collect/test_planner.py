"""Plans reach every published task with the published number of crafts, and are minimal against brute force."""

import json
import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collect.planner import consumers_first, crafts_in_order, exact_need, plan, published_need
from collect.recipes import recipe_book
from collect.textcraft import TextCraft, inventory
from collect.world import Action, Agent

PUBLISHED = Path(__file__).parents[1] / "data" / "textcraft_synth" / "val.jsonl"


def records():
    return [json.loads(line)["misc"] for line in PUBLISHED.read_text().splitlines()]


def replay(book, stock, targets, crafts):
    """Verdict and number of calls after the crafts of a plan, played through the tool."""
    world, state = TextCraft(), inventory(book, stock)
    start = state
    for craft in crafts:
        arguments = {"target": [craft.item, craft.count], "ingredients": dict(craft.needs)}
        state, event = world.apply(state, Agent("r", 0, targets), Action("craft", arguments))
        assert event.ok, event.result
    return world.verdict(start, state, targets).success


def test_all_published_tasks_are_planned_and_replayed():
    book = recipe_book(42, 25)
    found = records()
    assert len(found) == 632
    for misc in found:
        made = plan(book, misc["initial_inventory"], misc["target_items"])
        assert made.solvable
        assert len(made.crafts) == misc["num_craft_steps"]
        assert replay(book, misc["initial_inventory"], misc["target_items"], made.crafts)


def test_owned_targets_do_not_count():
    book = recipe_book(42, 25)
    made = plan(book, {"a1_i1": 5, "raw_a4": 9}, {"a1_i1": 4})
    assert [(craft.item, craft.count, craft.times) for craft in made.crafts] == [("a1_i1", 6, 2)]


def test_what_is_lacking_is_named():
    book = recipe_book(42, 25)
    made = plan(book, {"m3_ore": 1}, {"m2_i2_12": 6})
    assert not made.solvable
    assert made.missing["m3_ore"] == 1
    order = consumers_first(book.recipes, ["m2_i2_12"])
    assert crafts_in_order(book.recipes, {"m3_ore": 1}, {"m2_i2_12": 6}, order) == len(made.crafts)


@given(st.integers(0, 400), st.integers(1, 5), st.integers(0, 10**6))
def test_exact_need_suffices_and_one_less_does_not(index, count, salt):
    book = recipe_book(42, 8)
    item = sorted(book.recipes)[index % len(book.recipes)]
    need = exact_need(book, {item: count})
    made = plan(book, need, {item: count})
    assert made.solvable
    assert replay(book, need, {item: count}, made.crafts)
    short = random.Random(salt).choice(sorted(need))
    assert not plan(book, need | {short: need[short] - 1}, {item: count}).solvable


@given(st.integers(0, 400), st.integers(1, 3), st.integers(0, 10**6))
def test_every_craft_of_a_plan_is_needed(index, count, salt):
    book = recipe_book(42, 8)
    rng = random.Random(salt)
    item = sorted(book.recipes)[index % len(book.recipes)]
    stock = exact_need(book, {item: count})
    intermediate = rng.choice(sorted(book.recipes))
    stock[intermediate] = stock.get(intermediate, 0) + rng.randint(1, 3)
    made = plan(book, stock, {item: count})
    order = consumers_first(book.recipes, [item])
    assert crafts_in_order(book.recipes, stock, {item: count}, order) == len(made.crafts)
    names = [craft.item for craft in made.crafts]
    assert len(set(names)) == len(names)
    assert replay(book, stock, {item: count}, made.crafts)
    for craft in made.crafts:
        used = sum(other.needs.get(craft.item, 0) for other in made.crafts)
        wanted = used + (count + stock.get(item, 0) if craft.item == item else 0)
        assert 0 <= stock.get(craft.item, 0) + craft.count - wanted < book.recipes[craft.item].makes


def test_published_need_ignores_yields():
    book = recipe_book(42, 25)
    assert published_need(book, {"a1_i1": 3}) == {"raw_a4": 3}
    assert exact_need(book, {"a1_i1": 3}) == {"raw_a4": 1}
