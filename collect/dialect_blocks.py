"""The `blocks` dialect: one `<action>`, `<delegate>` or `<finish>` block per reply becomes one decision.

Invariant: a reply holds blocks of exactly one kind, of which the first counts, or it is invalid with a reason that
starts with a class of FAULTS; nothing of an invalid reply is executed. Text around the blocks and `<think>` parts are
kept in the transcript and never parsed. Tags are read in any case; a delegation is strict JSON without fences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, NoReturn

from collect.decision import Decision, Launch
from collect.dialect_json import element_spans, strict_json
from collect.world import Action

Kind = Literal["action", "delegate", "finish"]
KINDS: tuple[Kind, ...] = ("action", "delegate", "finish")
FAULTS = ("no_block", "unclosed_block", "mixed_blocks", "empty_block", "not_json", "bad_delegation", "bad_max_steps")
COMMAND = "command"

_BLOCK = re.compile(r"<(action|delegate|finish)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_OPENING = re.compile(r"<(action|delegate|finish)>", re.IGNORECASE)
_TAG = re.compile(r"</?(action|delegate|finish|think)>", re.IGNORECASE)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.IGNORECASE | re.DOTALL)
_THOUGHT_END = re.compile(r"</think>", re.IGNORECASE)


class Unreadable(ValueError):
    """Why a block is no decision; `span` of the block where there is one."""


class BlocksDialect:
    """Reads and writes decisions as tagged blocks."""

    name = "blocks"

    def decide(self, text: str, *, tools: Collection[str]) -> Decision:
        """The decision in a reply; commands are texts, so `tools` only says whether the world takes commands."""
        spoken = without_thoughts(text)
        try:
            block = _only_kind(spoken)
        except Unreadable as fault:
            return Decision("invalid", reason=str(fault))
        kind, body = block[1].lower(), block[2].strip()
        if kind == "delegate":
            return _delegate(spoken, block)
        if not body:
            return Decision("invalid", reason=f"empty_block: <{kind}> holds no text")
        if kind == "finish":
            return Decision("finish", action=Action("finish", {"message": body}), message=body)
        if COMMAND not in tools:
            return Decision("invalid", reason="no_block: this world takes no text commands")
        return Decision("act", action=Action(COMMAND, {"text": body}))

    def write(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Canonical text of a call; ValueError for a text that would hold a tag of its own or no text at all."""
        given = arguments or {}
        if tool == "delegate":
            return f"<delegate>{_payload(given)}</delegate>"
        if tool == "finish":
            return f"<finish>{_plain(given.get('message', ''))}</finish>"
        if tool == COMMAND:
            return f"<action>{_plain(given['text'])}</action>"
        msg = f"the blocks dialect has no call {tool!r}; allowed: {COMMAND}, delegate, finish"
        raise ValueError(msg)


def without_thoughts(text: str) -> str:
    """The text with its thinking blanked out, of the same length.

    A thought that never ends reaches to the end; one whose start the chat template wrote starts with the text.
    """
    blanked = _THOUGHT.sub(lambda match: " " * len(match[0]), text)
    ends = [match.end() for match in _THOUGHT_END.finditer(blanked)]
    return " " * ends[-1] + blanked[ends[-1] :] if ends else blanked


def _only_kind(text: str) -> re.Match[str]:
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        opened = _OPENING.search(text)
        if opened is not None:
            _fail("unclosed_block", f"{opened[0]} is not closed")
        _fail("no_block", "answer with one <action>, <delegate> or <finish> block")
    kinds = sorted({block[1].lower() for block in blocks})
    if len(kinds) > 1:
        _fail("mixed_blocks", f"{' and '.join(kinds)} in one reply, one kind is allowed")
    return blocks[0]


def _delegate(text: str, block: re.Match[str]) -> Decision:
    start, end = block.span()
    try:
        offset, items = _delegations(text, block)
    except Unreadable as fault:
        return Decision("invalid", launches=(Launch(None, None, start, end),), reason=str(fault))
    spans = [(start, end)] if offset is None else element_spans(text, offset, "delegations")
    # The block itself belongs to the launches: the first span starts and the last one ends with it.
    starts = [start, *(s for s, _ in spans[1:])]
    ends = [*(e for _, e in spans[:-1]), end]
    launches = tuple(
        Launch(targets, context, s, e) for (targets, context), s, e in zip(items, starts, ends, strict=True)
    )
    plain = [{"targets": targets} | ({"context": context} if context else {}) for targets, context in items]
    return Decision("delegate", action=Action("delegate", {"launches": plain}), launches=launches)


def _delegations(text: str, block: re.Match[str]) -> tuple[int | None, list[tuple[dict[str, Any], str | None]]]:
    """Where the object with a list of delegations opens (None for a single one), and (targets, context) of each."""
    inner = block[2].strip()
    if not inner:
        _fail("empty_block", "<delegate> holds no JSON")
    try:
        body = strict_json(inner)
    except ValueError as error:
        _fail("not_json", f"<delegate> must hold plain JSON: {error}")
    if not isinstance(body, dict):
        _fail("bad_delegation", "<delegate> must hold a JSON object")
    if ("goal" in body) == ("delegations" in body):
        _fail("bad_delegation", "give either goal or delegations")
    if "goal" in body:
        return None, [_launch(body)]
    listed = body["delegations"]
    if not isinstance(listed, list) or not listed:
        _fail("bad_delegation", "delegations must be a non-empty list")
    return text.index("{", block.start(2)), [_launch(item) for item in listed]


def _launch(item: Any) -> tuple[dict[str, Any], str | None]:
    if not isinstance(item, dict):
        _fail("bad_delegation", "every delegation must be an object")
    goal, context = item.get("goal"), item.get("context")
    if not isinstance(goal, str) or not goal.strip():
        _fail("bad_delegation", "every delegation needs a goal, a text that is not empty")
    if context is not None and not isinstance(context, str):
        _fail("bad_delegation", "context must be a text")
    return {"goal": goal.strip(), "max_steps": _max_steps(item.get("max_steps"))}, (context or "").strip() or None


def _max_steps(value: Any) -> int | None:
    """As published: what `int` takes counts (true is 1, "5" is 5, 3.7 is 3); it must be above 0."""
    if value is None:
        return None
    try:
        steps = int(value)
    except (TypeError, ValueError, OverflowError):
        steps = 0
    if steps < 1:
        _fail("bad_max_steps", "max_steps must be a number of at least 1")
    return steps


def _fail(fault: str, text: str) -> NoReturn:
    msg = f"{fault}: {text}"
    raise Unreadable(msg)


def _payload(arguments: Mapping[str, Any]) -> str:
    launches = arguments.get("launches", [arguments])
    bodies = []
    for launch in launches:
        targets = launch["targets"]
        body = {"goal": targets["goal"]}
        if targets.get("max_steps") is not None:
            body["max_steps"] = targets["max_steps"]
        if launch.get("context"):
            body["context"] = launch["context"]
        bodies.append(body)
    text = json.dumps(bodies[0] if len(bodies) == 1 else {"delegations": bodies}, ensure_ascii=False)
    return text.replace("<", "\\u003c")  # a goal may speak of tags


def _plain(text: str) -> str:
    if not text.strip() or _TAG.search(text):
        msg = f"a block holds text without tags, got {text!r}"
        raise ValueError(msg)
    return text
