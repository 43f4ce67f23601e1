"""The `json` dialect: one JSON object per reply becomes one decision.

Invariant: a reply either holds exactly one top-level JSON object that is a known call, or it is invalid with a
reason that the agent can act on; nothing of an invalid reply is executed. Text around the object is kept in the
transcript and ignored here. Braces in strings and nested objects are not counted as objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from collect.decision import Decision, Launch
from collect.surrogates import mended_json
from collect.world import Action

LAUNCH_KEYS = ("targets", "launches")


class JsonDialect:
    """Reads and writes decisions as compact JSON."""

    name = "json"

    def decide(self, text: str, *, tools: Collection[str]) -> Decision:
        """The decision in a reply; `tools` names the world's tools (delegate and finish are always known)."""
        try:
            start, end, body = _only_object(text)
        except ValueError as error:
            return Decision("invalid", reason=str(error))
        tool = body.get("tool")
        if tool == "delegate":
            return _delegate(text, start, end, body)
        if tool == "finish":
            return _finish(body)
        if not isinstance(tool, str) or tool not in tools:
            allowed = ", ".join([*tools, "delegate", "finish"])
            shown = "no tool" if tool is None else f"tool {_short(tool)}"
            return Decision("invalid", reason=f"{shown}; use one of {allowed}")
        return Decision("act", action=Action(tool, {k: v for k, v in body.items() if k != "tool"}))

    def write(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Canonical text of a call: compact JSON with `tool` first and the arguments in the order given."""
        return json.dumps({"tool": tool, **(arguments or {})}, ensure_ascii=False, separators=(",", ":"))


def _delegate(text: str, start: int, end: int, body: Mapping[str, Any]) -> Decision:
    def invalid(reason: str) -> Decision:
        return Decision("invalid", launches=(Launch(None, None, start, end),), reason=reason)

    given = [key for key in LAUNCH_KEYS if key in body]
    if len(given) != 1:
        return invalid(
            "delegate needs either targets or launches" if not given else "delegate takes targets or launches, not both"
        )
    raw = [body] if given == ["targets"] else body["launches"]
    if not isinstance(raw, list) or not raw:
        return invalid("launches must be a non-empty list")
    for item in raw:
        if not isinstance(item, dict) or "targets" not in item:
            return invalid("every launch needs targets")
        if not isinstance(item.get("context", ""), str):
            return invalid("context must be a text")
    spans = [(start, end)] if given == ["targets"] else element_spans(text, start, "launches")
    # The call itself belongs to the launches: the first span starts and the last one ends with the object.
    starts = [start, *(s for s, _ in spans[1:])]
    ends = [*(e for _, e in spans[:-1]), end]
    launches = tuple(
        Launch(item["targets"], item.get("context") or None, s, e) for item, s, e in zip(raw, starts, ends, strict=True)
    )
    plain = [
        {"targets": launch.targets} | ({"context": launch.context} if launch.context else {}) for launch in launches
    ]
    return Decision("delegate", action=Action("delegate", {"launches": plain}), launches=launches)


def _finish(body: Mapping[str, Any]) -> Decision:
    message = body.get("message", "")
    if not isinstance(message, str):
        return Decision("invalid", reason=f"message must be a text, got {_short(message)}")
    return Decision("finish", action=Action("finish", {"message": message}), message=message)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        msg = f"key {_short(twice)} occurs twice"
        raise ValueError(msg)
    return body


def _constant(name: str) -> Any:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        msg = f"the number {text[:20]} is too large"
        raise ValueError(msg)
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite)


def _only_object(text: str) -> tuple[int, int, dict[str, Any]]:
    """Start, end and value of the only JSON object of a text; raises ValueError with the reason."""
    found: list[tuple[int, int, dict[str, Any]]] = []
    fault = "no JSON object in the reply"
    position = text.find("{")
    while position >= 0:
        try:
            value, end = _decode(text, position)
            found.append((position, end, value))
        except ValueError as error:
            fault = f"not valid JSON: {error}"
            closing = _closing(text, position)
            if closing is None:
                found.clear()
                break
            end = closing
        position = text.find("{", end)
    if not found:
        raise ValueError(fault)
    if len(found) > 1:
        msg = f"{len(found)} JSON objects in one reply, one is allowed"
        raise ValueError(msg)
    return found[0]


def _decode(text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
        return mended_json(value), end
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None
    except json.JSONDecodeError as error:
        raise ValueError(error.msg.lower()) from None


def _closing(text: str, start: int) -> int | None:
    """End of the balanced braces that open at `start`, or None when they never close."""
    depth, inside, position = 0, False, start
    while position < len(text):
        sign = text[position]
        if inside:
            if sign == "\\":
                position += 1
            elif sign == '"':
                inside = False
        elif sign == '"':
            inside = True
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return None


def strict_json(text: str) -> Any:
    """The value of a text that is JSON and nothing else; ValueError with the reason, for keys that occur twice too."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None
    except json.JSONDecodeError as error:
        raise ValueError(error.msg.lower()) from None


def element_spans(text: str, start: int, key: str) -> list[tuple[int, int]]:
    """Spans of the elements of the list under `key` in the valid JSON object that opens at `start`."""
    position = _skip(text, start + 1)
    while text[position] != "}":
        name, position = _DECODER.raw_decode(text, position)
        position = _skip(text, _skip(text, position) + 1)
        if name == key:
            return _elements(text, position)
        _, position = _DECODER.raw_decode(text, position)
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return []


def _elements(text: str, start: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    position = _skip(text, start + 1)
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        spans.append((position, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return spans


def _skip(text: str, position: int) -> int:
    while text[position] in " \t\n\r":
        position += 1
    return position
