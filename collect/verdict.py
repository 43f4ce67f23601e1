"""The verdict in a judge's reply: one parser for every judge, inline or later.

Invariant: a reply that is not exactly one complete verdict is a ValueError with a reason, never a guess. Thinking is
taken off first, so that a verdict which the judge only considered is never read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

THINKING_OPENS, THINKING_CLOSES = "<think>", "</think>"
PLACEHOLDERS = ("one or two sentences that name the proof", "...")
"""Reasons that stand in the prompt's answer format; who gives one back has repeated the format and judged nothing."""
FENCE = re.compile(r"```[\w-]*[ \t]*\n?(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a judge said: success or not, and why."""

    success: bool
    reason: str


def parse_verdict(text: str) -> Ruling:
    """The ruling in a reply: `{"success": true|false, "reason": "..."}`, alone, in one code fence, or inside prose.

    Raises ValueError when the thinking did not end, when there is no complete object or more than one, when `success`
    is not a JSON boolean or `reason` not a text, or when the reply repeats the answer format.
    """
    body = _one_object(_unfenced(without_thinking(text)))
    if "success" not in body:
        _refuse(f"the verdict has no 'success', its keys are {', '.join(sorted(body)) or 'none'}")
    success, reason = body["success"], body.get("reason")
    if not isinstance(success, bool):
        _refuse(f"'success' must be true or false, got {json.dumps(success)[:40]}")
    if not isinstance(reason, str):
        _refuse(f"'reason' must be a text, got {json.dumps(reason)[:40]}")
    if reason.strip() in PLACEHOLDERS:
        _refuse("the reply repeats the answer format")
    return Ruling(success, reason)


def without_thinking(text: str) -> str:
    """The text after the last closed thinking block; ValueError when a block is still open at the end."""
    if text.lstrip().startswith("{") and text.rstrip().endswith("}"):
        return text  # the reply starts with its verdict: a tag in it is part of the reason
    rest = text.rpartition(THINKING_CLOSES)[2]
    if THINKING_OPENS in rest:
        _refuse("the reply ended inside its thinking")
    return rest


def _unfenced(text: str) -> str:
    blocks = FENCE.findall(text)
    if len(blocks) > 1:
        _refuse(f"{len(blocks)} code blocks, wanted one verdict")
    return blocks[0] if blocks else text


def _one_object(text: str) -> dict[str, Any]:
    start = text.find("{")
    if not text.strip():
        _refuse("empty reply")
    if start < 0:
        _refuse("no JSON object in the reply")
    try:
        body, end = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant).raw_decode(text, start)
    except json.JSONDecodeError as error:
        _refuse(f"no complete JSON object in the reply: {error.msg} at character {error.pos}")
    except RecursionError:
        _refuse("no verdict in the reply: its JSON is nested too deeply")
    if "{" in text[end:] or "}" in text[end:]:
        _refuse("more than one JSON object in the reply")
    if not isinstance(body, dict):  # cannot happen after "{", but says so to the reader
        _refuse("no JSON object in the reply")
    return body


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        _refuse("a key of the verdict occurs twice")
    return body


def _no_constant(name: str) -> NoReturn:
    _refuse(f"the verdict holds {name}, which is not JSON")


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
