"""Shards as the published evaluations deal them: disjoint, complete, balanced by band."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect.recipes import recipe_book
from collect.sharding import band_counts, band_key, deal_shards
from collect.textcraft_tasks import difficulty_sequence
from sera_data.errors import UsageError

BANDS = ("easy", "medium", "hard", "extreme")


def sizes(shards, bands):
    return [[Counter(bands[index] for index in shard)[band] for band in BANDS] for shard in shards]


def test_the_632_are_dealt_as_published():
    bands = difficulty_sequence(recipe_book(42, 25), "val")
    four, eight = (deal_shards(range(632), bands, of=n) for n in (4, 8))
    assert [len(shard) for shard in four] == [158] * 4
    assert sizes(four, bands)[0] == [37, 53, 34, 34]
    assert {max(column) - min(column) for column in zip(*sizes(four, bands), strict=True)} == {0, 1}
    assert [len(shard) for shard in eight] == [79] * 8
    assert sorted(index for shard in eight for index in shard) == list(range(632))
    assert all(list(shard) == sorted(shard) for shard in eight)


def test_the_1400_are_dealt_as_published():
    bands = [band for band in BANDS for _ in range(350)]
    four, seven = (deal_shards(range(1400), bands, of=n) for n in (4, 7))
    assert [len(shard) for shard in four] == [350] * 4
    assert {n for row in sizes(four, bands) for n in row} == {87, 88}
    assert sizes(seven, bands) == [[50] * 4] * 7


@settings(deadline=None)
@given(bands=st.lists(st.sampled_from([*BANDS, "tier2", "tier10"]), min_size=1, max_size=60), data=st.data())
def test_every_item_is_in_one_shard_and_bands_differ_by_one(bands, data):
    of = data.draw(st.integers(1, len(bands)))
    shards = deal_shards(range(len(bands)), bands, of=of)
    assert sorted(index for shard in shards for index in shard) == list(range(len(bands)))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    for band in set(bands):
        found = [sum(bands[index] == band for index in shard) for shard in shards]
        assert max(found) - min(found) <= 1


def test_bands_sort_from_easy_to_extreme_and_by_number():
    names = ["tier10", "extreme", "tier2", "easy", "depth 3"]
    assert sorted(names, key=band_key) == ["easy", "extreme", "depth 3", "tier2", "tier10"]
    assert list(band_counts(["hard", "easy", "hard"])) == ["easy", "hard"]


@pytest.mark.parametrize("of", [0, 4])
def test_more_shards_than_tasks_are_refused(of):
    with pytest.raises(UsageError, match="can be dealt to 1 to 3 shards"):
        deal_shards("abc", ["easy"] * 3, of=of)
