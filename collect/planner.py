"""The planner: which crafts reach some targets from an inventory, each item crafted once and in order.

Invariant: the plan is minimal in every item. Each item has one recipe and recipes have no cycles, so visiting items
after all that consume them gives each item's exact demand; one call per item that must be made at all is then the
minimum number of craft calls. Cost is one pass over the targets' recipes, whose order is memoised per world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collect.recipes import Recipe, RecipeBook


@dataclass(slots=True)  # not frozen: scripted agents make thousands a turn, and a frozen one takes three times as long
class Craft:
    """One craft call: `count` items of `item` by `times` executions from the totals in `needs`."""

    item: str
    count: int
    times: int
    needs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Crafts in an order that works, and what the inventory lacks (empty: solvable)."""

    crafts: tuple[Craft, ...]
    missing: Mapping[str, int]

    @property
    def solvable(self) -> bool:
        """Whether the inventory suffices."""
        return not self.missing


def plan(book: RecipeBook, inventory: Mapping[str, int], targets: Mapping[str, int]) -> Plan:
    """Plan a net gain of `targets` (what is owned already does not count) from `inventory`."""
    key = tuple(sorted(targets))
    order = book.closures.get(key)
    if order is None:
        order = book.closures[key] = consumers_first(book.recipes, key)
    return plan_in_order(book.recipes, inventory, targets, order)


def plan_in_order(
    recipes: Mapping[str, Recipe], inventory: Mapping[str, int], targets: Mapping[str, int], order: Iterable[str]
) -> Plan:
    """The same for any recipes that are known; `order` is `consumers_first` of the targets."""
    demand = {item: count + inventory.get(item, 0) for item, count in targets.items()}
    crafts: list[Craft] = []
    missing: dict[str, int] = {}
    for item in order:
        short = demand.get(item, 0) - inventory.get(item, 0)
        if short <= 0:
            continue
        recipe = recipes.get(item)
        if recipe is None:
            missing[item] = short
            continue
        times = -(-short // recipe.makes)
        needs = {name: count * times for name, count in recipe.needs.items()}
        for name, count in needs.items():
            demand[name] = demand.get(name, 0) + count
        crafts.append(Craft(item, times * recipe.makes, times, needs))
    crafts.reverse()
    return Plan(tuple(crafts), missing)


def crafts_in_order(
    recipes: Mapping[str, Recipe], inventory: Mapping[str, int], targets: Mapping[str, int], order: Iterable[str]
) -> int:
    """How many crafts `plan_in_order` has, without the plan."""
    demand = {item: count + inventory.get(item, 0) for item, count in targets.items()}
    crafts = 0
    for item in order:
        short = demand.get(item, 0) - inventory.get(item, 0)
        recipe = recipes.get(item) if short > 0 else None
        if recipe is None:
            continue
        times = -(-short // recipe.makes)
        for name, count in recipe.needs.items():
            demand[name] = demand.get(name, 0) + count * times
        crafts += 1
    return crafts


def consumers_first(recipes: Mapping[str, Recipe], targets: Iterable[str]) -> tuple[str, ...]:
    """Every item below the targets, each after all items whose recipes consume it."""
    done: set[str] = set()
    order: list[str] = []
    for target in targets:
        stack: list[tuple[str, bool]] = [(target, False)]
        while stack:
            item, closed = stack.pop()
            if closed:
                order.append(item)
            elif item not in done:
                done.add(item)
                stack.append((item, True))
                recipe = recipes.get(item)
                if recipe is not None:
                    stack.extend((name, False) for name in recipe.needs if name not in done)
    order.reverse()
    return tuple(order)


def published_need(book: RecipeBook, targets: Mapping[str, int]) -> dict[str, int]:
    """Base units the published generator counts: products of ingredient counts over all paths, yields ignored."""
    demand = dict(targets)
    for item in consumers_first(book.recipes, sorted(targets)):
        recipe = book.recipes.get(item)
        if recipe is not None:
            amount = demand.pop(item)
            for name, count in recipe.needs.items():
                demand[name] = demand.get(name, 0) + amount * count
    return demand


def exact_need(book: RecipeBook, targets: Mapping[str, int]) -> dict[str, int]:
    """Base units that just suffice when every craft is batched."""
    return dict(plan(book, {}, targets).missing)
