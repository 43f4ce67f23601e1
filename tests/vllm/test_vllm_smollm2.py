"""The same real model through vLLM: one tree of 6 turns of 64 tokens, equal to transformers' log-probabilities."""

import pytest

from tests.collect.smollm2_lab import imported, play_tree, worst_gap

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]


def test_one_tree_of_six_turns_is_stored_as_transformers_sees_it(tmp_path):
    made = imported(tmp_path / "smollm2")
    turns = play_tree(tmp_path / "s", f"vllm:{made.path}", "{slots: 4, context: 4096, cache_gib: 1}")
    assert worst_gap(made.path, turns) < 1e-3
