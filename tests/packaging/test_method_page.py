"""docs/method.md points at lines; each still holds the symbol that the page names."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "method.md"
LINK = re.compile(r"\[`([^`:\]]+):(\d+)`\]\(\.\./([^)#]+)#L(\d+)\) `([^`]+)`")


def test_every_link_of_the_method_page_points_at_its_symbol():
    faults = []
    for path, line, target, anchor, symbol in LINK.findall(PAGE.read_text(encoding="utf-8")):
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines() if (ROOT / path).is_file() else []
        if (path, line) != (target, anchor):
            faults.append(f"{path}:{line} links to {target}#L{anchor}")
        elif int(line) > len(lines) or symbol not in lines[int(line) - 1]:
            now = [number for number, text in enumerate(lines, 1) if symbol in text]
            faults.append(f"{path}:{line} lacks {symbol!r}; it is on lines {now or 'none'}")
    assert not faults, "\n".join(faults)


def test_every_location_on_the_method_page_is_a_checked_link():
    text = PAGE.read_text(encoding="utf-8")
    assert len(LINK.findall(text)) == len(re.findall(r"\]\(\.\./", text)) > 50
