"""TextCraft tasks: the published splits and goal sets, inventories of our own, pools over many worlds, imports.

Invariant: a task's content depends only on (world, split, item, count, seed), never on the order or number of the tasks
built with it, and its id is the hash of the content. Splits, goals and the sequence of difficulties equal the
published ones; published inventories cannot be regenerated and are read from their file.

Run: ``sera tasks build textcraft --world-seed 42 --items-per-tier 25 --split val --out val.jsonl``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError, field_validator

from collect.planner import exact_need, plan, published_need
from collect.recipes import MOST_ITEMS, RecipeBook, recipe_book
from collect.world import Task
from sera_data.canonical import derive_seed, sha256_json, sha256_text
from sera_data.config import MAX_SEED, Config
from sera_data.errors import UsageError

WORLD = "textcraft"
RAO = "rao-42"
STRICT = "strict"
BANDS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {  # band: tiers, counts
    "easy": ((2, 3), (1, 2, 3)),
    "medium": ((4, 5, 6), (1, 2, 3)),
    "hard": ((7, 8, 9), (1, 2)),
    "extreme": ((10, 11, 12), (1, 2)),
}
MOST_WORLDS = 10_000
MOST_SURPLUS, MOST_COUNT = 1000, 1000
TRAIN_SHARE = 0.8
LETTERS = {"easy": "e", "medium": "m", "hard": "h", "extreme": "x"}


class PoolParams(Config):
    """What `build_pool` builds. `worlds` is a range like 1000-1063 or a list like 3,5,8."""

    worlds: str = "1000-1063"
    items_per_tier: int = Field(default=8, ge=1, le=MOST_ITEMS)
    max_tier: int = Field(default=3, ge=1, le=12)
    n: int = Field(default=500, ge=1)
    split: str = "train"
    seed: int = 0
    surplus: float = Field(default=1.5, ge=1, le=MOST_SURPLUS)
    distractors: int = Field(default=2, ge=0)
    counts: tuple[int, ...] = (1, 2, 3)
    tier_mix: dict[int, float] = Field(default_factory=lambda: {1: 0.2, 2: 0.4, 3: 0.4})

    @field_validator("counts")
    @classmethod
    def _positive(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or not 1 <= min(value) <= max(value) <= MOST_COUNT:
            msg = f"counts must be integers from 1 to {MOST_COUNT}, got {list(value)}"
            raise ValueError(msg)
        return value


class PublishedParams(Config):
    """What `build_published` builds; `surplus` None = the generous published rule, 1 = exactly enough."""

    world_seed: int = 42
    items_per_tier: int = Field(default=25, ge=1, le=MOST_ITEMS)
    split: str = "val"
    seed: int = 0
    surplus: float | None = Field(default=None, ge=1, le=MOST_SURPLUS)
    distractors: int = Field(default=3, ge=0)


def build_tasks(params: Mapping[str, Any]) -> list[Task]:
    """Tasks from a job's build parameters: a pool when they name `worlds`, else a published split."""
    model = PoolParams if "worlds" in params else PublishedParams
    try:
        checked = model.model_validate(dict(params))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        msg = f"task parameter {key!r}: {fault['msg']}, got {fault.get('input')!r}"
        raise UsageError(msg, hint=f"allowed: {', '.join(model.model_fields)}") from None
    return build_pool(checked) if isinstance(checked, PoolParams) else build_published(checked)


def split_items(book: RecipeBook) -> dict[str, dict[int, list[str]]]:
    """Items of the train and val split by tier: 80/20 of every shuffled tier, as published."""
    rng = random.Random(book.key.seed)
    splits: dict[str, dict[int, list[str]]] = {"train": {}, "val": {}}
    for tier, items in book.tiers.items():
        shuffled = list(items)
        rng.shuffle(shuffled)
        cut = int(len(shuffled) * TRAIN_SHARE)
        splits["train"][tier], splits["val"][tier] = shuffled[:cut], shuffled[cut:]
    return splits


def goals(book: RecipeBook, split: str) -> dict[str, list[tuple[str, int]]]:
    """All (item, count) goals of a split by band: the full product of its items and the band's counts."""
    by_tier = split_items(book).get(split)
    if by_tier is None:
        msg = f"no split {split!r} in profile {RAO}; allowed: train, val"
        raise UsageError(msg)
    return {
        band: [(item, count) for tier in tiers for item in by_tier.get(tier, ()) for count in counts]
        for band, (tiers, counts) in BANDS.items()
    }


def goal_set_hash(pairs: Sequence[tuple[str, int]]) -> str:
    """Hash of a set of goals, independent of order."""
    return sha256_text("\n".join(sorted(f"{item} {count}" for item, count in pairs)))


def difficulty_sequence(book: RecipeBook, split: str) -> list[str]:
    """Band of the task at each index of a split: one stream shuffles the train blocks, then the val blocks."""
    rng = random.Random(book.key.seed + 1)
    shuffled: dict[str, list[str]] = {}
    for name in ("train", "val"):
        blocks = [band for band, pairs in goals(book, name).items() for _ in pairs]
        rng.shuffle(blocks)
        shuffled[name] = blocks
    return shuffled[split]


def build_published(params: PublishedParams) -> list[Task]:
    """Every goal of a published split, in the published sequence of difficulties, with inventories of our own.

    Within a band the goals come in the order of their names: which goal stands at which index was never fixed.
    """
    book = recipe_book(params.world_seed, params.items_per_tier)
    waiting = {band: iter(sorted(pairs)) for band, pairs in goals(book, params.split).items()}
    tasks = []
    for band in difficulty_sequence(book, params.split):
        item, count = next(waiting[band])
        stock = _stock(book, params.split, item, count, params)
        tasks.append(_task(book, RAO, params.split, band, {item: count}, stock, seed=params.seed))
    return tasks


def build_pool(params: PoolParams) -> list[Task]:
    """`n` distinct tasks over a pool of worlds, tiers drawn by `tier_mix`; fewer is a prefix of more."""
    seeds = world_seeds(params.worlds)
    mix = {tier: share for tier, share in params.tier_mix.items() if tier <= params.max_tier and share > 0}
    if not mix:
        msg = f"tier_mix names no tier from 1 to {params.max_tier}, got {params.tier_mix}"
        raise UsageError(msg)
    rng = random.Random(derive_seed("pool", params.worlds, params.items_per_tier, params.split, params.seed))
    names = recipe_book(seeds[0], params.items_per_tier, params.max_tier).tiers  # worlds of one size share their names
    urns: dict[int, list[tuple[int, str, int]]] = {}
    for tier in sorted(mix):
        urns[tier] = [
            (world, item, count) for world in seeds for item in sorted(names[tier]) for count in params.counts
        ]
        rng.shuffle(urns[tier])
    available = sum(map(len, urns.values()))
    if params.n > available:
        msg = f"{params.n} tasks wanted, but these worlds, tiers and counts have {available} goals"
        raise UsageError(msg, hint="name more worlds or ask for fewer tasks")
    tasks = []
    for _ in range(params.n):
        tiers = [tier for tier in urns if urns[tier]]
        (tier,) = rng.choices(tiers, [mix[t] for t in tiers])
        world, item, count = urns[tier].pop()
        book = recipe_book(world, params.items_per_tier, params.max_tier)
        stock = _stock(book, params.split, item, count, params)
        tasks.append(_task(book, STRICT, params.split, f"tier{tier}", {item: count}, stock, seed=params.seed))
    return tasks


def world_seeds(text: str) -> list[int]:
    """Seeds of a pool: '1000-1063', '3,5,8' or a mixture."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            low, dash, high = part.strip().partition("-")
            first, last = int(low), int(high if dash else low)
            if not first <= last < first + MOST_WORLDS or last > MAX_SEED:
                raise ValueError(part)
            seeds.extend(range(first, last + 1))
    except ValueError:
        msg = (
            f"worlds must be like 1000-1063 or 3,5,8, seeds up to 2**63 - 1 and {MOST_WORLDS} in a range, got {text!r}"
        )
        raise UsageError(msg) from None
    if len(set(seeds)) != len(seeds):
        msg = f"worlds names a seed twice: {text!r}"
        raise UsageError(msg)
    return seeds


def textcraft_task(
    spec: Mapping[str, Any], *, profile: str, split: str, difficulty: str, seed: int | None, upstream_id: str | None
) -> Task:
    """A task from its spec; the goal is in the words of the world."""
    words = ", ".join(f"{count}x {item}" for item, count in spec["targets"].items())
    task_id = "t" + sha256_json([WORLD, profile, dict(spec)])[:16]
    return Task(
        task_id, WORLD, profile, split, difficulty, f"craft {words}", spec, None, seed=seed, upstream_id=upstream_id
    )


def spec_of(book: RecipeBook, targets: Mapping[str, int], stock: Mapping[str, int]) -> dict[str, Any]:
    """Everything the world needs to reset."""
    key = book.key
    return {
        "world_seed": key.seed,
        "items_per_tier": key.items_per_tier,
        "max_tier": key.max_tier,
        "targets": dict(targets),
        "inventory": {item: stock[item] for item in sorted(stock)},
    }


def _task(
    book: RecipeBook, profile: str, split: str, band: str, targets: dict[str, int], stock: dict[str, int], *, seed: int
) -> Task:
    if not plan(book, stock, targets).solvable:  # pragma: no cover - inventories are built from the need
        msg = f"task {targets} of world {book.key} is not solvable from {stock}"
        raise UsageError(msg)
    return textcraft_task(
        spec_of(book, targets, stock), profile=profile, split=split, difficulty=band, seed=seed, upstream_id=None
    )


def _stock(book: RecipeBook, split: str, item: str, count: int, params: PublishedParams | PoolParams) -> dict[str, int]:
    """Starting inventory: what is needed, a random surplus, and up to `distractors` kinds that are not needed."""
    rng = random.Random(derive_seed(book.world_hash, split, item, count, params.seed))
    targets = {item: count}
    need = published_need(book, targets) if params.surplus is None else exact_need(book, targets)
    stock = {}
    for base in sorted(need):
        spare = max(1, need[base] // 2) if params.surplus is None else int(need[base] * (params.surplus - 1) + 1e-9)
        stock[base] = need[base] + rng.randint(0, spare)
    others = sorted(book.bases - set(stock))
    kinds = min(rng.randint(0, params.distractors), len(others))
    for base in rng.sample(others, kinds):
        stock[base] = rng.randint(1, 5)
    return stock
