"""Reading files of other tools: JSON, JSON lines, archives; and messages in the forms that are about.

Invariant: a file that is not what it says is refused with its path and line before anything is written.

Run: ``for place, row in json_lines(path): ...``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.episode import Message, fault, require_list, require_object, shown

if TYPE_CHECKING:
    from sera_data.losses import Losses

ROLES = ("system", "user", "assistant", "tool")
SAME = {
    "human": "user",
    "gpt": "assistant",
    "developer": "system",
    "function": "tool",
    "model": "assistant",
    "ai": "assistant",
}
LARGEST = 1e300
PARTS = "parts of messages that are no text (images, audio, files)"
MEMBERS = ("tool_calls", "reasoning_content", "tool_call_id", "name")


def json_document(path: Path) -> Any:
    """A whole JSON file."""
    return json_value(read_text(path), str(path), lines=True)


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """`path:line` and value per non-empty line."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", json_value(line, f"{path}:{number}")


def json_value(text: str | bytes, place: str, *, lines: bool = False) -> Any:
    """One JSON value; lines: the text is a whole file, so that a fault has a line of its own."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
        if rb"\ud" in (text if isinstance(text, bytes) else text.encode()).lower():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except json.JSONDecodeError as error:
        return fault(f"{place}:{error.lineno}" if lines else place, f"not JSON: {error.msg} (column {error.colno})")
    except UnicodeError as error:
        return fault(place, f"not UTF-8: {error}")
    except ValueError as error:
        return fault(place, f"not JSON: {error}")
    except RecursionError:
        return fault(place, "JSON is nested too deeply")
    return value


def _no_constant(name: str) -> Any:
    msg = f"{name} is no number"
    raise ValueError(msg)


def read_text(path: Path) -> str:
    """A UTF-8 file, a byte order mark allowed."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return fault(str(path), "there is no such file")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        return fault(f"{path}:{line}", f"not UTF-8: {error.reason}")
    except OSError as error:
        return fault(str(path), error.strerror or str(error))


def messages_of(value: Any, place: str, losses: Losses, *, what: str = "messages") -> list[Message]:
    """Messages with role and content, whatever names their writer gave; at least one."""
    found = [message_of(m, place, losses, what=f"{what}[{n}]") for n, m in enumerate(require_list(value, place, what))]
    if not found:
        fault(place, f"{what} is empty")
    return found


def message_of(value: Any, place: str, losses: Losses, *, what: str) -> Message:
    """One message: OpenAI's form, or ShareGPT's `from` and `value`."""
    body = require_object(value, place, what)
    named = body.get("role", body.get("from"))
    role = SAME.get(named, named) if isinstance(named, str) else None
    if role not in ROLES:
        allowed = ", ".join((*ROLES, *SAME))
        fault(place, f"{what} has role {shown(named)}; allowed: {allowed}")
    content = body.get("content", body.get("value"))
    if isinstance(content, list):
        content = _parts(content, place, losses, what=what)
    elif content is not None and not isinstance(content, str):
        fault(place, f"{what} has content {shown(content)}; allowed: text, or a list of parts")
    kept = {name: body[name] for name in MEMBERS if body.get(name) is not None}
    for name, value in kept.items():
        if not isinstance(value, list if name == "tool_calls" else str):
            fault(place, f"{what} has {name} {shown(value)}; allowed: {'a list' if name == 'tool_calls' else 'text'}")
    reasoning = body.get("reasoning")
    if isinstance(reasoning, str) and "reasoning_content" not in kept:
        kept["reasoning_content"] = reasoning
    return {"role": role, "content": content or "", **kept}


def _parts(parts: list[Any], place: str, losses: Losses, *, what: str) -> str:
    texts = []
    for n, part in enumerate(parts):
        body = (
            {"type": "text", "text": part} if isinstance(part, str) else require_object(part, place, f"{what} part {n}")
        )
        if body.get("type", "text") in ("text", "input_text", "output_text") and isinstance(body.get("text"), str):
            texts.append(body["text"])
        else:
            losses.add(PARTS)
    return "".join(texts)


def ids_of(value: Any, place: str, what: str) -> list[int] | None:
    """Token ids, or None when there are none."""
    if value is None or value == []:
        return None
    found = require_list(value, place, what)
    bad = next((i for i in found if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < 2**31), None)
    if bad is not None:
        fault(place, f"{what} has {shown(bad)}; token ids are integers from 0 to 2147483647")
    return found


def number_of(value: Any, place: str, what: str) -> float | None:
    """A finite number, or None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)) or not -LARGEST < value < LARGEST:
        fault(place, f"{what} must be a finite number, got {shown(value)}")
    return float(value)


def numbers_of(values: list[Any], place: str, what: str) -> list[float]:
    """Finite numbers, none of them absent."""
    found = [number_of(value, place, what) for value in values]
    if None in found:
        fault(place, f"{what} has a null; every element is a number")
    return [value for value in found if value is not None]
