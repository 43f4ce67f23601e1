"""The one verdict parser: what it takes, what it refuses, and that it never raises anything but ValueError."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.verdict import Ruling, parse_verdict

YES = '{"success": true, "reason": "done"}'
NO = '{"success": false, "reason": "no salt"}'

GOOD = {
    "alone": YES,
    "blanks": f"\n  {YES}\n",
    "fence": f"```json\n{YES}\n```",
    "fence with words": f"Here it is:\n```\n{YES}\n```\nThat is all.",
    "words around": f"I conclude {YES}.",
    "thinking": f"<think>perhaps {NO}? no.</think>\n{YES}",
    "thinking without its start": f"perhaps {NO}? no.</think>{YES}",
    "two thoughts": f"<think>a</think><think>{NO}</think>{YES}",
    "thinking with a fence": f"<think>```json\n{NO}\n```</think>```json\n{YES}\n```",
    "more keys": '{"reason": "done", "confidence": 0.9, "success": true}',
    "nested": '{"success": true, "reason": "done", "evidence": {"success": false}}',
    "escapes": '{"success": true, "reason": "d\\u006fne"}',
    "a tag in the reason": '{"success": true, "reason": "done"}',
}

BAD = {
    "": "empty",
    "  \n": "empty",
    "yes": "no JSON object",
    "true": "no JSON object",
    "[true]": "no JSON object",
    "{": "no complete JSON",
    '{"success": true, "reason": "don': "no complete JSON",
    '{"verdict": {"success": true, "reason": "x"}': "no complete JSON",
    "{'success': True, 'reason': 'x'}": "no complete JSON",
    '{"success": "true", "reason": "x"}': "must be true or false",
    '{"success": 1, "reason": "x"}': "must be true or false",
    '{"success": null, "reason": "x"}': "must be true or false",
    '{"success": true}': "'reason' must be a text",
    '{"success": true, "reason": 3}': "'reason' must be a text",
    '{"Success": true, "reason": "x"}': "has no 'success'",
    "{}": "has no 'success', its keys are none",
    '{"success": true, "success": false, "reason": "x"}': "twice",
    '{"success": true, "reason": "x", "p": NaN}': "NaN",
    f"{YES} {NO}": "more than one",
    f"{YES} or {{}}": "more than one",
    f"```{YES}``` or ```{NO}```": "2 code blocks",
    f"<think>{YES}": "inside its thinking",
    f"{YES}</think>": "empty",
    f"<think>{YES}</think>": "empty",
    f"<think>{YES}</think> I am not sure.": "no JSON object",
    f"<think>a</think><think>{YES}": "inside its thinking",
    "{" * 5000 + '"a":1' + "}" * 5000: "",
    '{"a":' * 5000 + "1" + "}" * 5000: "",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_complete_verdict_is_read(text):
    assert parse_verdict(text) == Ruling(True, "done")


def test_a_tag_inside_the_reason_is_part_of_it():
    text = '{"success": false, "reason": "it wrote </think> and {braces}"}'
    assert parse_verdict(text) == Ruling(False, "it wrote </think> and {braces}")


@pytest.mark.parametrize("text, reason", BAD.items(), ids=range(len(BAD)))
def test_anything_else_is_refused_with_a_reason(text, reason):
    with pytest.raises(ValueError) as refusal:
        parse_verdict(text)
    assert reason in str(refusal.value)
    assert str(refusal.value)


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        ruling = parse_verdict(text)
    except ValueError:
        return
    assert isinstance(ruling.success, bool)


@given(st.booleans(), st.text(), st.sampled_from(["{}", "```\n{}\n```", "<think>so</think>{}", "It is:\n{}\n"]))
def test_a_verdict_survives_its_wrapping(success, reason, around):
    body = json.dumps({"success": success, "reason": reason})
    if ("`" in reason and "`" in around) or "think>" in reason:
        return
    assert parse_verdict(around.replace("{}", body)) == Ruling(success, reason)


@given(st.booleans(), st.text(min_size=1), st.data())
def test_a_cut_verdict_is_never_read(success, reason, data):
    body = json.dumps({"success": success, "reason": reason})
    with pytest.raises(ValueError):
        parse_verdict(body[: data.draw(st.integers(0, len(body) - 1))])
