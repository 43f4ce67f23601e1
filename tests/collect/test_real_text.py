"""What a real language model says, through every parser: nothing crashes, nothing is read that is not there.

The replies are SmolLM2-135M-Instruct's (`tests/data/smollm2`), to the prompts of every role and dialect.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

import collect
from collect.dialect import CLASSES, open_dialect
from collect.replies import parse_rubric, parse_score
from collect.verdict import PLACEHOLDERS, parse_verdict
from schemas.rubric import Rubric, RubricItem

REPLIES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "smollm2" / "replies.jsonl").read_text("utf-8").splitlines()
]
TOOLS = {"textcraft": ("craft", "get", "inventory", "view"), "textworld": ("command",)}
RUBRIC = Rubric(
    items=(RubricItem(name="a", description="a", weight=0.5), RubricItem(name="b", description="b", weight=0.5)),
    success_gate="a",
    failure_conditions="b",
    procedure="c",
)


def said_by(*roles):
    return [row["text"] for row in REPLIES if row["role"] in roles]


def read(parse, text):
    """What a parser makes of a reply; None where it refuses it, which it does with a reason."""
    try:
        return parse(text)
    except ValueError as fault:
        if not str(fault):
            raise
        return None


def test_the_replies_are_of_every_role_and_dialect():
    kinds = Counter((row["role"], row["dialect"]) for row in REPLIES)
    players = {("act", dialect) for dialect in CLASSES}
    assert set(kinds) >= players | {("writer", "json"), ("scorer", "json"), ("judge", "json")}
    assert {row["finish_reason"] for row in REPLIES} == {"stop", "length"}


@pytest.mark.parametrize("dialect", sorted(CLASSES))
@pytest.mark.parametrize("world", sorted(TOOLS))
def test_a_decision_is_made_of_what_the_reply_says(dialect, world):
    reader = open_dialect(dialect)
    for text in said_by("act", "writer", "scorer", "judge"):
        decision = reader.decide(text, tools=TOOLS[world])
        if decision.kind == "invalid":
            assert decision.reason, text
            continue
        if decision.cell is not None:
            assert decision.cell.strip() in text
            continue
        assert decision.action is not None, text
        assert dialect == "blocks" or decision.action.tool in text
        for value in decision.action.arguments.values():
            assert not isinstance(value, str) or value in text or json.dumps(value, ensure_ascii=False)[1:-1] in text
        for launch in decision.launches:
            assert 0 <= launch.char_start < launch.char_end <= len(text)


def test_a_rubric_is_read_only_where_one_stands():
    for text in said_by("act", "writer", "scorer", "judge"):
        rubric = read(lambda text: parse_rubric(text), text)
        if rubric is not None:
            assert all(item.name in text for item in rubric.items), text


def test_a_score_is_read_only_where_one_stands():
    for text in said_by("act", "writer", "scorer", "judge"):
        score = read(lambda text: parse_score(text, RUBRIC), text)
        if score is not None:
            assert "final_score" in text
            assert 0 <= score.final_score <= 1


def test_a_verdict_is_read_only_where_one_stands():
    for text in said_by("act", "writer", "scorer", "judge"):
        ruling = read(lambda text: parse_verdict(text), text)
        if ruling is not None:
            assert '"success"' in text
            assert ruling.reason in text or json.dumps(ruling.reason, ensure_ascii=False)[1:-1] in text


def strings(node):
    """Every text inside a mapping of texts."""
    if isinstance(node, dict):
        return [text for part in node.values() for text in strings(part)]
    return [node] if isinstance(node, str) else []


PROMPTS = Path(collect.__file__).parent / "prompts"


@pytest.mark.parametrize("name", ["full", "full_blocks", "judge"])
def test_a_model_that_repeats_its_prompt_has_answered_nothing(name):
    """No answer format of a prompt is a valid answer, whole, alone on its line, or with a choice made for the truth."""
    texts = strings(yaml.safe_load((PROMPTS / f"{name}.yaml").read_text("utf-8")))
    whole = [text.replace("{{", "{").replace("}}", "}") for text in texts]
    formats = [text[text.index("{") : text.rindex("}") + 1] for text in whole if "{" in text and "}" in text]
    assert formats
    chosen = [text.replace('"true or false"', "true").replace("true or false", "true") for text in formats]
    for text in [*whole, *formats, *chosen]:
        assert read(lambda text: parse_rubric(text, min_items=1), text) is None
        assert read(lambda text: parse_score(text, RUBRIC), text) is None
        assert read(parse_verdict, text) is None


def test_the_placeholders_of_the_judges_answer_stand_in_its_prompt():
    prompt = (PROMPTS / "judge.yaml").read_text("utf-8")
    assert all(f'"reason": "{text}"' in prompt for text in PLACEHOLDERS)
    for text in PLACEHOLDERS:
        with pytest.raises(ValueError, match="repeats the answer format"):
            parse_verdict(json.dumps({"success": True, "reason": text}))
