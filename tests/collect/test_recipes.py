"""The generated world equals the published one, and its generator touches no other random stream."""

import pickle
import random

import pytest

from collect.recipes import built_book, is_base_name, recipe_book

FULL = "00bd78a2a39a89f8f0f3e9b5d2912204d7129f8fac91cdb57b63d2883552894f"
SMALL = "0499ae4c70cfb9e09881eb77c13b596d7deea3bfda536c4319fbff01ff134269"


def test_published_world_hash():
    book = recipe_book(42, 25)
    assert (book.world_hash, len(book.bases), len(book.recipes)) == (FULL, 50, 1402)


def test_published_dump_hash():
    book = recipe_book(42, 8)
    assert (book.world_hash, len(book.bases), len(book.recipes)) == (SMALL, 40, 382)


def test_items_per_tier_are_the_published_ones():
    sizes = [len(items) for _, items in sorted(recipe_book(42, 25).tiers.items())]
    assert sizes == [125, 125, 120, 120, 120, 115, 115, 115, 110, 114, 114, 109]


@pytest.mark.parametrize(
    "item, makes, needs",
    [
        ("a1_i1", 3, {"raw_a4": 1}),
        ("m2_i2_12", 3, {"m2_i1_12": 1, "m3_ore": 1}),
        ("a1_i5", 1, {"a7_i4": 1, "a3_i4_23": 1, "a9_i4": 1}),
        ("a0_i6_6", 1, {"a2_i5_12": 1, "a1_i5_11": 1}),
        ("x10_am", 1, {"a1_i7_7": 1, "m6_i7_7": 1}),
        ("x12_all", 1, {"m8_i9_9": 2, "c7_i9_9": 1, "o0_i9_9_20": 2, "a9_i9_9": 1, "t2_i9_9": 1}),
    ],
)
def test_spot_recipes(item, makes, needs):
    recipe = recipe_book(42, 25).recipes[item]
    assert (recipe.makes, dict(recipe.needs)) == (makes, needs)


@pytest.mark.parametrize("seed, size", [(42, 25), (7, 8), (3, 1), (11, 13)])
def test_ingredients_come_from_lower_tiers(seed, size):
    book = recipe_book(seed, size)
    for recipe in book.recipes.values():
        assert recipe.needs
        for name in recipe.needs:
            tier = 0 if name in book.bases else book.recipes[name].tier
            assert tier < recipe.tier
            assert is_base_name(name) == (name in book.bases)


def test_a_low_world_is_a_part_of_the_full_one():
    full, low = recipe_book(5, 8), recipe_book(5, 8, 3)
    assert len(low.recipes) == 115
    assert all(full.recipes[item] == recipe for item, recipe in low.recipes.items())
    assert low.world_hash != full.world_hash


def test_the_global_random_stream_is_left_alone():
    random.seed(1)
    before = random.getstate()
    built = built_book.cache_info().misses
    recipe_book(77, 8)
    assert built_book.cache_info().misses == built + 1
    assert random.getstate() == before


def test_a_world_is_built_once_however_it_is_named():
    built = built_book.cache_info().misses
    books = {id(recipe_book(78, 8)), id(recipe_book(78, 8, 12)), id(recipe_book(seed=78, items_per_tier=8))}
    assert (len(books), built_book.cache_info().misses) == (1, built + 1)


@pytest.mark.parametrize("size, top", [(0, 12), (8, 0), (8, 13)])
def test_impossible_sizes_are_refused(size, top):
    with pytest.raises(ValueError, match=r"items_per_tier 1..1000 and max_tier"):
        recipe_book(1, size, top)


def test_a_book_is_pickled_as_its_key():
    book = recipe_book(42, 8, 3)
    assert pickle.loads(pickle.dumps(book)) is book
