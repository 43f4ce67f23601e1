"""The trie: every distinct prefix once, ancestors by an interval, parts cut at any capacity."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from learn.trie import common_prefix, lay_out, walk
from tests.learn.branching import families


def arrays(lists):
    return [np.array(ids, np.int32) for ids in lists]


def prefixes(lists):
    return {tuple(ids[: i + 1]) for ids in lists for i in range(len(ids))}


@given(families())
@settings(max_examples=150, deadline=None)
def test_each_prefix_lies_there_once_and_sees_its_ancestors_only(lists):
    trie = lay_out(arrays(lists))
    assert len(trie.token_ids) == len(prefixes(lists))
    row = np.arange(len(trie.ends))
    assert (trie.ends > row).all()
    for ids, where in zip(lists, trie.where, strict=True):
        assert trie.token_ids[where].tolist() == ids
        assert trie.positions[where].tolist() == list(range(len(ids)))
        assert (np.diff(where) > 0).all()
        for depth, place in enumerate(where):
            seen = np.flatnonzero((row <= place) & (place < trie.ends))
            assert seen.tolist() == where[: depth + 1].tolist()


@given(families())
@settings(max_examples=150, deadline=None)
def test_the_runs_tile_the_row(lists):
    trie = lay_out(arrays(lists))
    assert [start for start, _, _ in trie.nodes] == [0, *(stop for _, stop, _ in trie.nodes[:-1])]
    assert trie.nodes[-1][1] == len(trie.token_ids)
    for start, stop, end in trie.nodes:
        assert start < stop <= end
        assert set(trie.ends[start:stop]) == {end}


@given(families(), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_parts_are_as_long_as_they_say(lists, extra):
    capacity = max(map(len, lists)) + extra
    found = walk(arrays(lists))
    assert found.n_tokens == len(prefixes(lists))
    parts = found.cut(capacity)
    assert [i for part in parts for i in found.order[part]] == found.order.tolist()
    for part in parts:
        own = [lists[i] for i in found.order[part]]
        assert found.tokens_of(part) == len(prefixes(own)) <= capacity


def test_ids_beyond_one_byte_are_ordered_as_numbers():
    found = walk(arrays([[300, 1], [2, 9], [300, 0], [151_935, 5]]))
    assert found.order.tolist() == [1, 2, 0, 3]
    assert found.shared.tolist() == [0, 0, 1, 0]


def test_common_prefix():
    one, other = arrays([[1, 2, 3], [1, 2, 4, 5]])
    assert common_prefix(one, other) == 2
    assert common_prefix(one, one[:2]) == 2
    assert common_prefix(one[:0], other) == 0
