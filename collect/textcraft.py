"""TextCraft-Synth as a world: craft items from an inventory by looking up and applying recipes.

Invariant: a state is an immutable inventory and the key of its world; `apply` never changes its input, and a
refused craft returns the same state. The verdict is the net gain against the start for every target, so that
what was owned before does not count. Recipe books are cached per process (`collect.recipes`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from collect.planner import plan
from collect.recipes import RecipeBook, recipe_book
from collect.world import Action, Agent, End, Event, Fork, GoalKind, Task, Tool, Verdict
from sera_data.canonical import canonical_json

MAX_COUNT = 1_000_000
MAX_TARGETS = 16
TOOLS = (
    Tool(
        "get_info",
        '{"tool":"get_info","items":["m2_i3"]}',
        "Shows for each item how many you have and its recipe: one execution uses `needs` and makes `makes` items; "
        "base materials have no recipe.",
    ),
    Tool("view_inventory", '{"tool":"view_inventory"}', "Shows every item you have and its amount."),
    Tool(
        "craft",
        '{"tool":"craft","target":["m2_i3",2],"ingredients":{"m2_i1":2,"m1_ore":1}}',
        "Makes the given number of items, a multiple of the recipe's yield, from exactly the ingredients that so many "
        "executions use; a refused craft changes nothing.",
        parameters=("ingredients", "target"),
    ),
)


@dataclass(frozen=True, slots=True)
class Inventory:
    """A state: the world's book and what is owned, every count above 0."""

    book: RecipeBook
    items: Mapping[str, int]

    def __eq__(self, other: object) -> bool:
        """Equal worlds and equal counts."""
        return isinstance(other, Inventory) and (self.book.key, self.items) == (other.book.key, other.items)

    def __hash__(self) -> int:
        return hash((self.book.key, frozenset(self.items.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return inventory, (self.book, dict(self.items))


def inventory(book: RecipeBook, items: Mapping[str, int]) -> Inventory:
    """A state from counts; entries of 0 are dropped, names are sorted."""
    return Inventory(book, MappingProxyType({item: items[item] for item in sorted(items) if items[item]}))


def book_of(spec: Mapping[str, Any]) -> RecipeBook:
    """The recipe book a task's spec names; raises ValueError for a spec of another world."""
    try:
        key = [spec["world_seed"], spec["items_per_tier"], spec["max_tier"]]
    except (KeyError, TypeError):
        msg = f"a TextCraft spec has world_seed, items_per_tier and max_tier, got {sorted(spec)}"
        raise ValueError(msg) from None
    if not all(_is_int(part) for part in key):
        msg = f"world_seed, items_per_tier and max_tier are integers, got {key}"
        raise ValueError(msg)
    return recipe_book(*key)


def check_stock(book: RecipeBook, raw: Any) -> dict[str, int]:
    """Validated starting inventory: known items, integers above 0."""
    if not isinstance(raw, Mapping):
        msg = f"an inventory maps items to counts, got {type(raw).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a spec is a ValueError
    for item, count in raw.items():
        if item not in book.recipes and item not in book.bases:
            msg = f"inventory names an unknown item {item!r} in the world {book.key}"
            raise ValueError(msg)
        if not _is_int(count) or count < 1:
            msg = f"inventory count of {item} must be an integer above 0, got {count!r}"
            raise ValueError(msg)
    return dict(raw)


def check_targets(book: RecipeBook, raw: Any) -> dict[str, int]:
    """Validated targets: 1..MAX_TARGETS craftable items with counts 1..MAX_COUNT; duplicates are refused.

    Takes a mapping, or a list of [item, count] pairs, in which a name may occur twice and is then refused.
    """
    if isinstance(raw, Mapping):
        pairs = list(raw.items())
    elif isinstance(raw, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in raw):
        pairs = [(p[0], p[1]) for p in raw]
    else:
        msg = f"targets must map items to counts, got {type(raw).__name__}"
        raise ValueError(msg)
    if not 1 <= len(pairs) <= MAX_TARGETS:
        msg = f"targets must name 1 to {MAX_TARGETS} items, got {len(pairs)}"
        raise ValueError(msg)
    targets: dict[str, int] = {}
    for item, count in pairs:
        if not isinstance(item, str) or item not in book.recipes:
            msg = f"target {_short(item)} is not a craftable item"
            raise ValueError(msg)
        if item in targets:
            msg = f"target {item} is named twice"
            raise ValueError(msg)
        if not _is_int(count) or not 1 <= count <= MAX_COUNT:
            msg = f"count of {item} must be an integer from 1 to {MAX_COUNT}, got {count!r}"
            raise ValueError(msg)
        targets[item] = count
    return targets


class TextCraft:
    """The world, for every profile: profiles differ in how tasks are made, not in the rules."""

    name = "textcraft"
    version = "net-gain-1"
    fork: Fork = "pure"
    goal_kind: GoalKind = "targets"
    dialects = ("json", "code")
    profiles = ("rao-42", "strict")

    def __init__(self, profile: str = "rao-42") -> None:
        if profile not in self.profiles:
            msg = f"no profile {profile!r}; allowed: {', '.join(self.profiles)}"
            raise ValueError(msg)
        self.profile = profile

    def reset(self, task: Task) -> Inventory:
        """The task's starting inventory; raises ValueError for a spec that is not one of this world."""
        book = book_of(task.spec)
        check_targets(book, task.spec.get("targets"))
        return inventory(book, check_stock(book, task.spec.get("inventory")))

    def root_targets(self, task: Task) -> Mapping[str, Any]:
        """Targets of the task."""
        return check_targets(book_of(task.spec), task.spec.get("targets"))

    def enter(self, state: Inventory, agent: Agent, parent: Agent | None) -> Inventory:
        """The same state: agents have no place here."""
        return state

    def leave(self, state: Inventory, agent: Agent) -> Inventory:
        """The same state."""
        return state

    def over(self, state: Inventory) -> End | None:
        """Never: an agent ends its own episode."""
        return None

    def true_depth(self, task: Task) -> int:
        """Longest chain of crafts that the task's targets need."""
        depths = book_of(task.spec).depths
        return max(depths[item] for item in task.spec["targets"])

    def observe(self, state: Inventory, agent: Agent) -> str:
        """The inventory as compact JSON."""
        return _compact(dict(state.items))

    def apply(self, state: Inventory, agent: Agent, action: Action) -> tuple[Inventory, Event]:
        """Run one tool; the state changes only in a craft that succeeds."""
        if action.tool == "view_inventory":
            return state, Event(True, _compact(dict(state.items)), feedback="info")
        if action.tool == "get_info":
            return state, _get_info(state, action.arguments.get("items"))
        if action.tool == "craft":
            return _craft(state, action.arguments)
        return state, _refused(f"unknown tool {action.tool}, allowed: {', '.join(t.name for t in TOOLS)}")

    def check_targets(self, state: Inventory, raw: Any) -> Mapping[str, Any]:
        """Validated targets of a launch from this state."""
        return check_targets(state.book, raw)

    def goal(self, targets: Mapping[str, Any]) -> str:
        """``craft 2x m2_i3, 1x o1_i1``."""
        return "craft " + ", ".join(f"{count}x {item}" for item, count in targets.items())

    def verdict(
        self,
        start: Inventory,
        end: Inventory,
        targets: Mapping[str, Any] | None,
        *,
        changes: Sequence[Mapping[str, Any]] | None = None,
    ) -> Verdict | None:
        """Success when the net gain reaches every target."""
        if not targets:
            return None
        net = self.difference(start, end, changes=changes)
        gained = {item: net.get(item, 0) for item in targets}
        missing = {item: count - gained[item] for item, count in targets.items() if gained[item] < count}
        return Verdict(not missing, {"gained": gained, "missing": missing})

    def least_steps(self, start: Inventory, targets: Mapping[str, Any]) -> int:
        """Fewest craft calls with which the start reaches the targets, as far as its materials go."""
        return len(plan(start.book, start.items, targets).crafts)

    def difference(
        self, start: Inventory, end: Inventory, *, changes: Sequence[Mapping[str, Any]] | None = None
    ) -> Mapping[str, Any]:
        """Net change of every item that changed, or that these changes make together."""
        if changes is not None:
            total: Counter[str] = Counter()
            for delta in changes:
                total.update(delta)
            return {name: count for name, count in sorted(total.items()) if count}
        names = sorted({*start.items, *end.items})
        change = {name: end.items.get(name, 0) - start.items.get(name, 0) for name in names}
        return {name: count for name, count in change.items() if count}

    def dump(self, state: Inventory) -> str:
        """Inventory and world key as canonical JSON."""
        return canonical_json({"inventory": dict(state.items), "world": list(state.book.key)})

    def load(self, text: str) -> Inventory:
        """Inverse of dump."""
        body = json.loads(text)
        book = recipe_book(*body["world"])
        return inventory(book, check_stock(book, body["inventory"]))

    def tools(self) -> tuple[Tool, ...]:
        """get_info, view_inventory and craft."""
        return TOOLS


def _get_info(state: Inventory, items: Any) -> Event:
    if not isinstance(items, (list, tuple)) or not items or not all(isinstance(item, str) for item in items):
        return _refused(f"items must be a non-empty list of names, got {_shown(items)}")
    return Event(True, _compact([_info(state, item) for item in items]), feedback="info")


def _refused(fault: str) -> Event:
    return Event(False, f"Error: {fault}", feedback="rejected")


def _info(state: Inventory, item: str) -> dict[str, Any]:
    recipe = state.book.recipes.get(item)
    have = state.items.get(item, 0)
    if recipe is not None:
        return {"item": item, "have": have, "makes": recipe.makes, "needs": dict(recipe.needs)}
    if item in state.book.bases:
        return {"item": item, "have": have, "base": True}
    return {"item": item, "error": "unknown item"}


def _craft(state: Inventory, arguments: Mapping[str, Any]) -> tuple[Inventory, Event]:
    target: Any = arguments.get("target")
    ingredients: Any = arguments.get("ingredients")
    fault = _malformed(target, ingredients) or _refusal(state, target[0], target[1], ingredients)
    if fault:
        return state, _refused(fault)
    item, count = target
    stock = dict(state.items)
    for name, amount in ingredients.items():
        stock[name] -= amount
    stock[item] = stock.get(item, 0) + count
    text = f"Crafted {count}x {item}, have {stock[item]}."
    delta = {**{name: -amount for name, amount in ingredients.items()}, item: count}
    return inventory(state.book, stock), Event(True, text, delta, "ok")


def _malformed(target: Any, ingredients: Any) -> str | None:
    """First fault of form, in the published order; booleans and floats are not counts."""
    if not isinstance(ingredients, Mapping):
        return f"ingredients must map items to counts, got {_shown(ingredients)}"
    if not isinstance(target, (list, tuple)) or len(target) != 2:
        return f"target must be [item, count], got {_shown(target)}"
    item, count = target
    if not isinstance(item, str):
        return f"target item must be a name, got {_shown(item)}"
    if not _is_int(count):
        return f"target count must be an integer, got {_shown(count)}"
    if count <= 0:
        return f"target count must be above 0, got {count}"
    for name, amount in ingredients.items():
        if not isinstance(name, str):
            return f"ingredient must be a name, got {_shown(name)}"
        if not _is_int(amount):
            return f"count of {_short(name)} must be an integer, got {_shown(amount)}"
        if amount <= 0:
            return f"count of {_short(name)} must be above 0, got {amount}"
    return None


def _refusal(state: Inventory, item: str, count: int, ingredients: Mapping[str, int]) -> str | None:
    """Every reason why a well-formed craft cannot be done, or None."""
    recipe = state.book.recipes.get(item)
    if recipe is None:
        return f"no recipe for {_short(item)}"
    if count % recipe.makes:
        return f"{item} is made {recipe.makes} at a time, {count} is not a multiple"
    times = count // recipe.makes
    needs = {name: amount * times for name, amount in recipe.needs.items()}
    reasons = [f"missing {name} {amount}" for name, amount in needs.items() if name not in ingredients]
    reasons += [
        f"{name} must be {amount}, got {ingredients[name]}"
        for name, amount in needs.items()
        if name in ingredients and ingredients[name] != amount
    ]
    reasons += [f"{_short(name)} is not in the recipe" for name in sorted(ingredients) if name not in needs]
    if not reasons:
        have = state.items
        reasons = [f"need {n} {a}, have {have.get(n, 0)}" for n, a in needs.items() if have.get(n, 0) < a]
    return "; ".join(reasons) or None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """A short form of what was got, on one line."""
    return _short(repr(value))


def _short(value: Any) -> str:
    """Text from a model on one line and not for ever."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
