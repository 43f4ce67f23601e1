"""The generated recipe graph of TextCraft-Synth: base materials, craftable items and one recipe for each.

Invariant: the same (seed, items_per_tier) gives the published world, item for item, because the order of draws
from the random stream is kept, forced draws included; the stream is private, so that no other use of `random`
is touched. Ingredients always come from lower tiers. `max_tier` keeps the lower tiers of the full world: a small
world is a part of the published one, with the same recipes.

Run: ``sera tasks build textcraft --world-seed 42 --items-per-tier 25`` prints `RecipeBook.world_hash`.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

from sera_data.canonical import sha256_json

TOP_TIER = 12
MOST_ITEMS = 1_000
"""Most items per domain and tier: 60,000 recipes, which take half a minute to build; the time grows by the square."""
VARIANTS = 10
MAX_KINDS = 6
DOMAINS = "mcoat"
RAW = "oat"  # organic, arcane and tech bases are called raw_*, metal and crystal ones *_ore

# tier: (ingredient kinds, lowest yield, highest yield)
TABLE: Mapping[int, tuple[int, int, int]] = {
    1: (1, 2, 4),
    2: (2, 2, 3),
    3: (2, 1, 2),
    4: (2, 1, 2),
    5: (2, 1, 2),
    6: (2, 1, 1),
    7: (2, 1, 1),
    8: (3, 1, 1),
    9: (3, 1, 1),
    10: (3, 1, 1),
    11: (3, 1, 1),
    12: (4, 1, 1),
}
# name: the domains it draws one ingredient from; the tier is the number in the name
CROSS: tuple[tuple[int, str, str], ...] = (
    (10, "x10_mc", "mc"),
    (10, "x10_ot", "ot"),
    (10, "x10_am", "am"),
    (10, "x10_ct", "ct"),
    (11, "x11_mct", "mct"),
    (11, "x11_oam", "oam"),
    (11, "x11_act", "act"),
    (11, "x11_tca", "tca"),
    (12, "x12_mcat", "mcat"),
    (12, "x12_oacm", "oacm"),
    (12, "x12_tcoa", "tcoa"),
    (12, "x12_all", "mcoat"),
)


class Recipe(NamedTuple):
    """One execution consumes `needs` and makes `makes` of `item`; `tier` is the published depth label."""

    item: str
    makes: int
    needs: Mapping[str, int]
    tier: int


class WorldKey(NamedTuple):
    """What determines a world."""

    seed: int
    items_per_tier: int
    max_tier: int


@dataclass(frozen=True, eq=False)
class RecipeBook:
    """A world: every recipe by item, the base materials, and craftable items of each tier in list order."""

    key: WorldKey
    recipes: Mapping[str, Recipe]
    bases: frozenset[str]
    tiers: Mapping[int, tuple[str, ...]]
    closures: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[object, WorldKey]:
        """Travels between processes as its key."""
        return recipe_book, self.key

    @cached_property
    def world_hash(self) -> str:
        """Canonical hash of the craftable items: sorted names with sorted ingredients, tier label and yield."""
        return sha256_json(
            {i: {"in": dict(r.needs), "tier": r.tier, "yield": r.makes} for i, r in self.recipes.items()}
        )

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """Longest chain of crafts that each craftable item needs; the tier label may be larger, never smaller."""
        found: dict[str, int] = {}
        for recipe in sorted(self.recipes.values(), key=lambda recipe: recipe.tier):
            found[recipe.item] = 1 + max(found.get(name, 0) for name in recipe.needs)
        return found


def recipe_book(seed: int, items_per_tier: int, max_tier: int = TOP_TIER) -> RecipeBook:
    """The world of a seed, built once per process; raises ValueError for sizes that cannot exist."""
    if not 1 <= items_per_tier <= MOST_ITEMS or not 1 <= max_tier <= TOP_TIER:
        allowed = f"items_per_tier 1..{MOST_ITEMS} and max_tier 1..{TOP_TIER}"
        msg = f"a world needs {allowed}, got {items_per_tier} and {max_tier}"
        raise ValueError(msg)
    return built_book(WorldKey(seed, items_per_tier, max_tier))


@lru_cache(maxsize=4096)
def built_book(key: WorldKey) -> RecipeBook:
    """The book of a key that is known to be valid; its cache counts how many worlds this process has built."""
    seed, items_per_tier, max_tier = key
    if max_tier < TOP_TIER:
        full = built_book.__wrapped__(key._replace(max_tier=TOP_TIER))  # not cached: a pool keeps its lower parts only
        return _lower_part(full, key)
    rng = random.Random(seed)
    recipes: dict[str, Recipe] = {}
    domains = {d: _domain(rng, d, items_per_tier, recipes) for d in DOMAINS}
    tiers = {t: [item for d in DOMAINS for item in domains[d][t]] for t in TABLE}
    for tier, item, sources in CROSS:
        recipes[item] = _cross_recipe(rng, item, tier, [domains[d] for d in sources])
        tiers[tier].append(item)
    bases = frozenset(item for d in DOMAINS for item in domains[d][0])
    return RecipeBook(key, recipes, bases, {t: tuple(items) for t, items in tiers.items()})


def _lower_part(full: RecipeBook, key: WorldKey) -> RecipeBook:
    kept = {item: recipe for item, recipe in full.recipes.items() if recipe.tier <= key.max_tier}
    tiers = {tier: items for tier, items in full.tiers.items() if tier <= key.max_tier}
    return RecipeBook(key, kept, full.bases, tiers)


def base_name(domain: str, variant: int) -> str:
    """Name of a base material: m3_ore or raw_o2."""
    return f"raw_{domain}{variant}" if domain in RAW else f"{domain}{variant}_ore"


def is_base_name(item: str) -> bool:
    """Whether a name is that of a base material; names are public, so agents may read them this way."""
    return item.startswith("raw_") or item.endswith("_ore")


def _domain(rng: random.Random, domain: str, size: int, recipes: dict[str, Recipe]) -> list[list[str]]:
    """Items of one domain by tier; the base list repeats names, which weights the draws."""
    levels = [[base_name(domain, i % VARIANTS) for i in range(size)]]
    for tier in TABLE:
        names: list[str] = []
        for index in range(max(1, size - tier // 3)):
            item = _item_name(domain, tier, index, recipes)
            recipes[item] = _recipe(rng, item, tier, levels)
            names.append(item)
        levels.append(names)
    return levels


def _item_name(domain: str, tier: int, index: int, taken: Mapping[str, Recipe]) -> str:
    stem = f"{domain}{index % VARIANTS}_i{tier}" + (f"_{tier}" if tier >= 6 else "")
    return f"{stem}_{index}" if stem in taken else stem


def _recipe(rng: random.Random, item: str, tier: int, levels: list[list[str]]) -> Recipe:
    base_kinds, low, high = TABLE[tier]
    names: list[str] = []
    weights: list[float] = []
    for near in range(max(0, tier - 2), tier):
        names += levels[near]
        weights += [1.0 / (tier - near + 1)] * len(levels[near])
    if tier >= 4:
        far = rng.randint(max(0, tier - 4), tier - 3)
        names.append(rng.choice(levels[far]))
        weights.append(1.0 / (tier - far + 1))
    kinds = min(base_kinds + rng.randint(0, min(2, tier // 3)), len(names), MAX_KINDS)
    needs: dict[str, int] = {}
    for name in _draw(rng, names, weights, kinds):
        needs[name] = rng.randint(1, 2 if tier <= 4 else 1)
    return Recipe(item, rng.randint(low, high), needs, tier)


def _draw(rng: random.Random, names: list[str], weights: list[float], kinds: int) -> list[str]:
    """Weighted draws without replacement; uses its lists up.

    The total is the last running sum, as `sum` rounds differently since Python 3.12.
    """
    drawn: list[str] = []
    for _ in range(kinds):
        sums = list(accumulate(weights))
        chosen = min(bisect_left(sums, rng.random() * sums[-1]), len(sums) - 1)
        drawn.append(names.pop(chosen))
        weights.pop(chosen)
    return drawn


def _cross_recipe(rng: random.Random, item: str, tier: int, sources: list[list[list[str]]]) -> Recipe:
    needs: dict[str, int] = {}
    for levels in sources:
        name = rng.choice(levels[max(1, tier - 3)])
        needs[name] = rng.randint(1, 2)
    return Recipe(item, 1, needs, tier)
