"""The recipe sampler of TextWorld-Sync: which foods a dish takes and how each is prepared.

Invariant: every draw of the published generator is made, in its order, draws among one option and samples of nothing
included, so that a seeded stream gives the published recipes; the stream is the caller's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

Complexity = Literal["low", "medium", "high"]
Preparation = tuple[str, str]  # cooking, cutting
Options = Mapping[str, Sequence[Preparation]]  # preparations that a fold knows, by food

AS_IT_IS: Preparation = ("raw", "uncut")
TRIES = 256


class Ingredient(NamedTuple):
    """One food of a dish and how it is wanted."""

    name: str
    preparation: Preparation

    @property
    def prepared(self) -> bool:
        """Whether anything must be done to it beyond collecting."""
        return self.preparation != AS_IT_IS

    @property
    def work(self) -> int:
        """Actions it takes: collecting, and one each for cutting and cooking."""
        return work(self.preparation)


class NoRecipe(Exception):
    """The foods that are left do not make such a dish; the caller draws other parameters."""


def work(preparation: Preparation) -> int:
    """1 + (is cut) + (is cooked)."""
    cooking, cutting = preparation
    return 1 + (cutting != "uncut") + (cooking != "raw")


def sample_recipe(
    stream: random.Random, options: Options, used: set[str], *, size: int, least: int, most: int, complexity: Complexity
) -> list[Ingredient]:
    """`size` unused foods, from `least` to `most` of them prepared; adds their names to `used`.

    Raises NoRecipe when too few foods are left or 256 tries gave none.
    """
    candidates = sorted(food for food in options if food not in used)
    if len(candidates) < size:
        msg = f"{size} foods wanted, {len(candidates)} left"
        raise NoRecipe(msg)
    for _ in range(TRIES):
        recipe = _try(stream, options, candidates, size=size, least=least, most=most, complexity=complexity)
        if recipe is not None and least <= sum(ingredient.prepared for ingredient in recipe) <= most:
            used.update(ingredient.name for ingredient in recipe)
            return recipe
    msg = f"no recipe of {size} foods with {least} to {most} prepared in {TRIES} tries"
    raise NoRecipe(msg)


def _try(
    stream: random.Random,
    options: Options,
    candidates: Sequence[str],
    *,
    size: int,
    least: int,
    most: int,
    complexity: Complexity,
) -> list[Ingredient] | None:
    """One try; None when the required foods took too many of those that can stay as they are."""
    preparable = [food for food in candidates if any(option != AS_IT_IS for option in options[food])]
    if len(preparable) < least:
        msg = f"{least} foods to prepare wanted, {len(preparable)} left"
        raise NoRecipe(msg)
    required = stream.sample(preparable, least)
    others = [food for food in candidates if food not in required]
    bounded = most < size
    if bounded:  # foods beyond the required ones stay as they are
        rest = _unprepared(stream, options, others, size - least)
        if rest is None:
            return None
    else:
        rest = stream.sample(others, size - least)
    names = required + rest
    stream.shuffle(names)
    choose = CHOOSERS[complexity]
    recipe = []
    for name in names:
        if name in required:
            allowed = [option for option in options[name] if option != AS_IT_IS]
        else:
            allowed = [AS_IT_IS] if bounded else list(options[name])
        recipe.append(Ingredient(name, choose(stream, allowed)))
    return recipe


def _unprepared(stream: random.Random, options: Options, foods: Sequence[str], count: int) -> list[str] | None:
    """Foods that can stay as they are, first those that cannot be anything else; None when there are too few."""
    able = [food for food in foods if AS_IT_IS in options[food]]
    only = [food for food in able if all(option == AS_IT_IS for option in options[food])]
    if len(able) < count:
        return None
    first = stream.sample(only, min(len(only), count))
    return first + stream.sample([food for food in able if food not in first], count - len(first))


def _lowest(stream: random.Random, allowed: Sequence[Preparation]) -> Preparation:
    return min(allowed, key=lambda option: (work(option), option))


def _any(stream: random.Random, allowed: Sequence[Preparation]) -> Preparation:
    return stream.choice(allowed)


def _highest(stream: random.Random, allowed: Sequence[Preparation]) -> Preparation:
    return max(allowed, key=lambda option: (work(option), option))


CHOOSERS: Mapping[Complexity, Callable[[random.Random, Sequence[Preparation]], Preparation]] = {
    "low": _lowest,
    "medium": _any,
    "high": _highest,
}
