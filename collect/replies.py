"""Find the JSON of a rubric or score in a writer's or scorer's reply.

Invariant: whatever is wrong with a reply is a ValueError with a reason, never another exception; the validation
itself is the schemas' (`rubric_from_json`, `score_from_json`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from collect.surrogates import mended_json
from schemas.rubric import MIN_ITEMS, Rubric, rubric_from_json
from schemas.score import Score, score_from_json

FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)```", re.DOTALL)


def find_object(text: str) -> dict[str, Any]:
    """The JSON object of a reply: the whole text, else a fenced block, else from the first { to the last }."""
    for candidate in _candidates(text):
        try:
            body = mended_json(json.loads(candidate))
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict):
            return body
    msg = "no JSON object in the reply"
    raise ValueError(msg)


def parse_rubric(text: str, *, min_items: int = MIN_ITEMS) -> Rubric:
    """The rubric in a writer's reply; raises ValueError with the reason."""
    try:
        return rubric_from_json(find_object(text), min_items=min_items)
    except OverflowError as error:
        raise ValueError(str(error)) from error


def parse_score(text: str, rubric: Rubric) -> Score:
    """The score in a scorer's reply; raises ValueError with the reason."""
    try:
        return score_from_json(find_object(text), rubric)
    except OverflowError as error:
        raise ValueError(str(error)) from error


def _candidates(text: str) -> Iterator[str]:
    yield text
    for match in FENCE.finditer(text):
        yield match.group(1)
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        yield text[start : end + 1]
