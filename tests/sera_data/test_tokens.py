import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sera_data.errors import RowError
from sera_data.tokens import full_prompt, prompt_hash, require_token_rule


def turn(number: int, own: list[int], prompt: list[int], *, completion: list[int], base: int | None = None, **changes):
    row: dict[str, Any] = {
        "turn_id": f"n#{number:04d}",
        "node_id": "n",
        "kind": "act",
        "step": number,
        "base_turn": None if base is None else f"n#{base:04d}",
        "prompt_ids": own,
        "completion_ids": completion,
        "logprobs": [-0.1] * len(completion),
        "logprobs_mode": "processed_logprobs",
        "trainable": True,
        "top_p": 1.0,
        "n_prompt": len(prompt),
        "prompt_sha256": prompt_hash(prompt),
        "text": "abc",
        "delegations": [],
    }
    return {**row, **changes}


def two(**changes):
    first = turn(0, [1, 2], [1, 2], completion=[3, 4])
    return [first, turn(1, [5], [1, 2, 3, 4, 5], completion=[6], base=0, **changes)]


def test_a_chain_and_a_keyframe_hold():
    require_token_rule(two())
    require_token_rule(reversed(two()))
    require_token_rule([*two(), turn(2, [9], [9], completion=[1])])


@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"logprobs": [math.nan]}, "logprob 0 is nan; logprobs must be finite"),
        ({"logprobs": [-math.inf]}, "logprob 0 is -inf"),
        ({"logprobs": [-0.1, -0.2]}, "got 2 logprobs for 1 completion ids"),
        ({"logprobs": None}, "exactly when logprobs_mode is 'none'"),
        ({"logprobs_mode": "none"}, "exactly when logprobs_mode is 'none'"),
        ({"logprobs_mode": "raw_logprobs"}, "a trainable turn needs"),
        ({"top_p": 0.9}, "a trainable turn needs"),
        ({"completion_ids": None}, "must both be there or both be null"),
        ({"n_prompt": 4}, "n_prompt is 4, the full prompt rebuilt from its base turns has 5 ids"),
        ({"n_prompt": None}, "n_prompt is None"),
        ({"prompt_sha256": "0" * 64}, "prompt_sha256 is 0000"),
        ({"prompt_ids": [7]}, "prompt_sha256 is"),
        ({"base_turn": "n#0009"}, "base_turn 'n#0009' is not in this shard"),
        ({"base_turn": "n#0001"}, "is not earlier than step 1"),
        ({"kind": "score", "step": None}, "must link act turns of one node"),
        ({"step": None}, "step must be null exactly"),
        ({"node_id": "m"}, "turn_id must be its node"),
        ({"delegations": [{"status": "sent"}]}, "status 'sent' is not one of launched, refused, invalid"),
        ({"delegations": [{"status": "launched"}]}, "a delegation_id exactly when"),
        ({"delegations": [{"status": "refused", "char_start": 0, "char_end": 4}]}, "char span"),
        ({"delegations": [{"status": "refused", "token_start": 0, "token_end": 2}]}, "token span"),
    ],
)
def test_a_broken_turn_is_named(changes, fault):
    with pytest.raises(RowError, match=rf"turn n#0001: .*{fault}"):
        require_token_rule(two(**changes))


def test_a_base_of_another_node_is_refused():
    other = turn(0, [1], [1], completion=[2], turn_id="m#0000", node_id="m")
    extends = turn(1, [5], [1, 2, 5], completion=[6], base_turn="m#0000")
    with pytest.raises(RowError, match="must link act turns of one node"):
        require_token_rule([other, extends])


def test_turns_without_ids_hold():
    plain = {"prompt_ids": None, "completion_ids": None, "logprobs": None, "logprobs_mode": "none"}
    text = {**plain, "trainable": False, "n_prompt": None, "prompt_sha256": "of the text"}
    require_token_rule([{**t, **text} for t in two()])
    with pytest.raises(RowError, match="must both have ids or both have none"):
        require_token_rule(two(**text))


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, 9), max_size=4)), min_size=1),
    st.data(),
)
def test_concatenation_gives_back_every_prompt(parts, data):
    """Any chain with any keyframes: what is rebuilt is what was put in, and one changed id is noticed."""
    turns, prompts, history = [], [], []
    for number, (own, completion) in enumerate(parts):
        keyframe = number == 0 or data.draw(st.booleans())
        prompt = list(own) if keyframe else history + own
        turns.append(turn(number, own, prompt, completion=completion, base=None if keyframe else number - 1))
        prompts.append(prompt)
        history = prompt + completion
    require_token_rule(turns)
    by_id = {t["turn_id"]: t for t in turns}
    assert [full_prompt(t, by_id, {}) for t in reversed(turns)] == prompts[::-1]
    spot = data.draw(st.sampled_from(turns))
    if spot["prompt_ids"]:
        spot["prompt_ids"] = [spot["prompt_ids"][0] + 1, *spot["prompt_ids"][1:]]
        with pytest.raises(RowError, match="prompt_sha256"):
            require_token_rule(turns)
