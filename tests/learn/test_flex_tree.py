"""The block mask of FlexAttention: the same pairs as the trie's paths, the same blocks as torch works out itself."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.nn.attention.flex_attention import create_block_mask

from learn.flex_tree import BLOCK, attend_flex, block_kinds, block_mask
from learn.tree_attention import attend_tree
from learn.trie import lay_out
from tests.learn.branching import families


def long_trie(seed):
    """A trie of about 1,200 tokens whose runs cross the borders of blocks."""
    draw = np.random.default_rng(seed)
    base = draw.integers(0, 50, 400).astype(np.int32)
    cuts = [*draw.integers(0, 400, 6), 128, 256]
    return lay_out(
        [np.concatenate([base[:c], draw.integers(50, 99, draw.integers(1, 200))]).astype(np.int32) for c in cuts]
    )


def pairs(ends):
    row = np.arange(len(ends))
    return (row[None] <= row[:, None]) & (row[:, None] < ends[None])


def check_blocks(ends):
    seen = pairs(ends)
    partial, full = block_kinds(ends)
    for i, queries in enumerate(np.array_split(seen, range(BLOCK, len(seen), BLOCK), axis=0)):
        for j, block in enumerate(np.array_split(queries, range(BLOCK, len(seen), BLOCK), axis=1)):
            if i == j:
                assert partial[i, j]
                continue
            assert full[i, j] == (block.all() and block.shape[1] == BLOCK)
            assert partial[i, j] == (block.any() and not block.all())


def test_blocks_of_long_tries():
    for seed in range(6):
        check_blocks(long_trie(seed).ends)


@given(families())
@settings(max_examples=30, deadline=None)
def test_blocks_of_short_tries(lists):
    check_blocks(lay_out([np.array(ids, np.int32) for ids in lists]).ends)


def test_mask_is_the_one_that_torch_builds_from_the_rule():
    ends = long_trie(1).ends
    mine = block_mask(ends, "cpu")
    theirs = create_block_mask(mine.mask_mod, None, None, len(ends), len(ends), device="cpu")
    dense = mine.to_dense()[0, 0].bool()
    assert torch.equal(dense, theirs.to_dense()[0, 0].bool() | torch.eye(len(dense), dtype=torch.bool))


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_equals_the_tree_on_cpu():
    torch.manual_seed(0)
    trie = long_trie(2)
    length = len(trie.ends)
    query, key, value = (torch.randn(1, heads, length, 16) for heads in (4, 2, 2))
    expected = attend_tree(query, key, value, trie.nodes)
    # forward and unfused: torch has no backward of FlexAttention on CPU
    found = attend_flex(query, key, value, block_mask(trie.ends, "cpu"), compiled=False)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)
