"""Text that models write without lone surrogates, which neither UTF-8 nor a store can hold.

Invariant: what comes out can be encoded as UTF-8, pairs become the character that they stand for, and text that was
whole comes out as it is. Halves of a pair come from escapes such as `\\ud83d` in JSON, and from servers that send them.
"""

from __future__ import annotations

from typing import Any


def mended(text: str) -> str:
    """The text with U+FFFD in place of every lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mended_json(value: Any) -> Any:
    """A value of parsed JSON with all its texts mended, names included; two names that become equal are one."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, list):
        return [mended_json(item) for item in value]
    if isinstance(value, dict):
        return {mended(name): mended_json(item) for name, item in value.items()}
    return value
