"""The links of docs/method.md: each names a file, a line and the text that stands on that line.

Invariant: the text is the anchor and must be in the file; its line may have moved by at most NEAR lines since the links
were last drawn, which is done, for all of them, by

    python tests/packaging/method_page.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "method.md"
NEAR = 50
LINK = re.compile(r"\[`([^`:\]]+):(\d+)`\]\(\.\./([^)#]+)#L(\d+)\) `([^`]+)`")


def places(path: str, symbol: str) -> list[int]:
    """Lines of a file that hold the text, from 1."""
    file = ROOT / path
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [number for number, text in enumerate(lines, 1) if symbol in text]


def fault(link: re.Match[str]) -> str | None:
    """What is wrong with a link, or None."""
    path, line, target, anchor, symbol = link.groups()
    if (path, line) != (target, anchor):
        return f"{path}:{line} links to {target}#L{anchor}"
    found = places(path, symbol)
    if not found or min(abs(number - int(line)) for number in found) > NEAR:
        return f"{path}:{line} lacks {symbol!r}; it is on lines {found or 'none'}"
    return None


def relinked(link: re.Match[str]) -> str:
    """The link with the nearest line that holds its text."""
    path, line, _, _, symbol = link.groups()
    found = places(path, symbol)
    if not found:
        return link[0]
    number = min(found, key=lambda n: abs(n - int(line)))
    return f"[`{path}:{number}`](../{path}#L{number}) `{symbol}`"


if __name__ == "__main__":
    PAGE.write_text(LINK.sub(relinked, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print("\n".join(found for link in LINK.finditer(PAGE.read_text(encoding="utf-8")) if (found := fault(link))))
