"""Spelling: text turns get the ids that the policy's template gives them, and only imitation may train on them."""

import json
from pathlib import Path

import numpy as np
import pytest

import sera_data
from collect.model_argument import pocket_directory
from collect.policy import Message
from collect.renderer import ChatRenderer
from learn.config import LearnConfig
from learn.feed import Feed, with_loss
from learn.method import open_method
from learn.spelling import keyframe, spelled_rows
from sera_data.duck import connect


@pytest.fixture(scope="module")
def renderer():
    return ChatRenderer.load(pocket_directory(""))


def turn(number, **values):
    row = {
        "node_id": "n", "turn_id": f"n#{number}", "kind": "act", "base_turn": None, "prompt_text": None, "text": "go",
        "observation": "ok", "finish_reason": "stop", "goal": "Make it", "context": None,
    }  # fmt: skip
    return {**row, **values}


def whole(rows):
    """Prompt and completion ids of a chain, one after the other."""
    return [token for row in rows for token in (*row["prompt_ids"], *row["completion_ids"])]


def test_a_chain_is_the_chat_as_the_template_renders_it(renderer):
    rows = list(spelled_rows(iter([turn(0), turn(1, text="stay", observation="no")]), renderer))
    assert [row["base_turn"] for row in rows] == [None, "n#0"]
    first = renderer.open([Message("user", "Make it")])
    said = [*renderer.encode("go"), renderer.end_id]
    assert rows[0]["prompt_ids"] == first
    assert rows[0]["completion_ids"] == said
    assert whole(rows) == [
        *first, *said, *renderer.append(said, "stop", "ok"), *renderer.encode("stay"), renderer.end_id
    ]  # fmt: skip


def test_a_prompt_of_its_own_is_a_keyframe_and_the_same_text(renderer):
    chat = [{"role": "user", "content": "Make it"}]
    later = [*chat, {"role": "assistant", "content": "go"}, {"role": "tool", "content": "ok"}]
    rows = list(
        spelled_rows(iter([turn(0, prompt_text=json.dumps(chat)), turn(1, prompt_text=json.dumps(later))]), renderer)
    )
    chained = list(spelled_rows(iter([turn(0), turn(1)]), renderer))
    assert rows[1]["base_turn"] is None
    assert [*rows[1]["prompt_ids"], *rows[1]["completion_ids"]] == whole(chained)


def test_a_cut_reply_has_no_end_token(renderer):
    (row,) = spelled_rows(iter([turn(0, finish_reason="length")]), renderer)
    assert row["completion_ids"] == renderer.encode("go")


def test_planted_control_tokens_stay_text(renderer):
    (row,) = spelled_rows(iter([turn(0, text="<|end|>")]), renderer)
    assert row["completion_ids"].count(renderer.end_id) == 1


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "assistant", "content": "a"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        [{"role": "user", "content": [{"type": "image"}]}],
        [{"role": "user", "content": None}],
    ],
)
def test_what_cannot_be_rebuilt_is_not_spelled(renderer, messages):
    assert keyframe(messages, renderer) is None
    assert list(spelled_rows(iter([turn(0, prompt_text=json.dumps(messages))]), renderer)) == []


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """A sealed epoch of warm-start groups that the oracle played."""
    from sera_data.cli import main

    store = tmp_path_factory.mktemp("scripted") / "store"
    config = Path(__file__).parents[2] / "configs" / "textcraft_scripted.yaml"
    code = main(
        ["collect", "--config", str(config), "--store", str(store), "--groups", "warm=3", "--set", "samples=2",
         "--set", "world.profile=strict",
         "--set", "world.tasks={worlds: 1-2, max_tier: 2, n: 12, seed: 1}",
         "--policy", "scripted:delegating_oracle", "--seal", "--json"]
    )  # fmt: skip
    assert code == 0
    return store


def feed(store, connection, kind, *, policy):
    method = open_method("sft" if kind == "sft" else "rao")
    config = with_loss(LearnConfig(updates_per_collect=1), method)
    return Feed(connection, config=config, method=method, epoch=0, start=0, tokenizer_sha256=None, policy=policy)


def test_a_scripted_store_is_imitated(scripted, renderer):
    opened = sera_data.open(scripted)
    with connect(opened.listing(view="sealed", epochs=[0])) as connection:
        made = feed(scripted, connection, "sft", policy=pocket_directory(""))
        meal = made.next(version=0, done=0, consumed={})
        texts = connection.sql("select text from turns where kind = 'act' and ok").fetchall()
    assert made.n_spelled > 0
    assert len(meal.groups) == 3
    assert meal.datums
    said = {text for (text,) in texts}
    for datum in meal.datums:
        assert set(datum.advantages[datum.trained].tolist()) == {1.0}
        runs = np.split(datum.token_ids[datum.trained], np.flatnonzero(np.diff(np.flatnonzero(datum.trained)) > 1) + 1)
        assert {renderer.decode(run.tolist()) for run in runs} <= said


def test_only_imitation_spells(scripted):
    opened = sera_data.open(scripted)
    with connect(opened.listing(view="sealed", epochs=[0])) as connection:
        made = feed(scripted, connection, "cispo", policy=pocket_directory(""))
        assert made.n_spelled == 0


def test_a_method_brings_its_loss_where_the_config_says_nothing():
    method = open_method("sft")
    assert with_loss(LearnConfig(), method).loss.kind == "sft"
    stated = LearnConfig.model_validate({"loss": {"kind": "cispo"}})
    assert with_loss(stated, method).loss.kind == "cispo"
