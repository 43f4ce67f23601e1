"""Lone surrogates: mended wherever a model's text or JSON comes in, so that every tree can be stored."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.surrogates import mended, mended_json
from tests.collect.tree_lab import RUBRIC, SCORE, Fake, call, done, play, script

HALF = "\\ud83d"  # as JSON writes it


@given(st.text(st.characters(exclude_categories=[])))
def test_mended_text_can_be_encoded_and_is_mended_once(text):
    once = mended(text)
    assert mended(once) == once.encode().decode()


def test_whole_text_stays_pairs_join_and_halves_are_marked():
    assert mended("né 🙂") == "né 🙂"
    assert mended("\ud83d\ude42") == "🙂"
    assert mended("a\ud83db") == "a\ufffdb"
    assert mended_json({"\ud83d": ["\ude42", 1, None, {"x": "\ud800"}]}) == {
        "\ufffd": ["\ufffd", 1, None, {"x": "\ufffd"}]
    }


@pytest.mark.parametrize(
    "reply",
    [
        "half a character: \ud83d",
        f'{{"tool":"add","item":"{HALF}","n":1}}',
        f'{{"tool":"{HALF}"}}',
        f'{{"tool":"delegate","targets":{{"{HALF}":1}}}}',
        f'{{"tool":"delegate","targets":{{"a":1}},"context":"{HALF}"}}',
        f'{{"tool":"finish","message":"{HALF}"}}',
    ],
)
def test_an_agent_that_writes_half_a_character_can_be_stored(reply):
    tree = play(Fake("player", script({"": [reply, done()], "/t0d0b0": [done()]})))
    assert tree.root.outcome == "finished"
    for rows in (tree.nodes, tree.turns, tree.branches):
        json.dumps(rows, ensure_ascii=False, default=str).encode()


def test_rubrics_and_scores_with_half_a_character_are_valid():
    def marked(body):
        return json.dumps(body).replace(': "', f': "{HALF} ')

    tree = play(
        Fake("player", script({"": [call("delegate", targets={"a": 1}), done()], "/t0d0b0": [done()]})),
        writer=Fake("writer", lambda request: marked(RUBRIC)),
        scorer=Fake("scorer", lambda request: marked(SCORE)),
    )
    assert [row["valid"] for row in (*tree.rubrics, *tree.scores)] == [True, True]
    json.dumps([tree.rubrics, tree.scores, tree.turns], ensure_ascii=False, default=str).encode()
