"""Words and small marks that all panels of the explorer share.

Invariant: whatever came from a store is escaped here or by the caller before it is HTML; a colour never stands alone, a
word or a sign says the same; a missing number says that it is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

OUTCOMES = {
    "finished": "finished",
    "not_finished": "ran out of turns",
    "truncated": "reply was cut",
    "loop": "went in circles",
    "timeout": "ran out of time",
    "infra_error": "infrastructure error",
}


def number(value: float | None, *, digits: int = 2, sign: bool = False) -> str:
    """A number for people; `none` when missing, `NaN` or `±∞` when it is no number."""
    if value is None:
        return "none"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def percent(share: float | None) -> str:
    """A share as whole per cent."""
    return "none" if share is None else f"{100 * share:.0f}\u00a0%"


def verdict_word(verdict: float | None) -> str:
    """succeeded, failed, or no verdict."""
    if verdict is None or math.isnan(verdict):
        return "no verdict"
    return "succeeded" if verdict > 0.5 else "failed"


def verdict_mark(verdict: float | None) -> str:
    """A tick, a cross or a question mark with its word for screen readers."""
    word = verdict_word(verdict)
    kind, sign = {"succeeded": ("good", "✓"), "failed": ("bad", "✗")}.get(word, ("none", "?"))
    return f'<span class="verdict {kind}" role="img" aria-label="{word}" title="{word}">{sign}</span>'


def score_word(score: float | None, attempts: int = 0) -> str:
    """The score of a node, or why it shows none."""
    if score is not None:
        return number(score)
    return "no valid score" if attempts else "no score"


def ranked_words(n_pairs: int | None, n_wrong: int | None, n_ties: int | None) -> str:
    """How the branches of a delegation were ranked, in counts."""
    if not n_pairs:
        return "no pair to rank"
    words = f"{n_wrong} of {n_pairs} pair{'s' if n_pairs > 1 else ''} ranked wrong"
    return words + (f", {n_ties} tied" if n_ties else "")


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A definition list; values are HTML."""
    return f'<dl class="facts">{"".join(f"<div><dt>{escape(k)}</dt><dd>{v}</dd></div>" for k, v in pairs)}</dl>'


def grid(caption: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table with headed rows and columns; every cell is HTML."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in body
    )
    title = f"<caption>{escape(caption)}</caption>"
    table = f"<table>{title}<thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">{table}</div>'


def text_block(text: str | None, *, label: str, kind: str = "") -> str:
    """Text as it was written, under its name; nothing when there is none."""
    if not text:
        return ""
    return f'<div class="said {kind}"><h5>{escape(label)}</h5><pre>{escape(text)}</pre></div>'


def opener(what: str, place: Any, content: str, *, label: str = "", kind: str = "link") -> str:
    """A button that opens something in the explorer; content is HTML."""
    name = f' aria-label="{escape(label)}"' if label else ""
    return f'<button type="button" class="{kind}" data-open="{what}:{escape(str(place))}"{name}>{content}</button>'


def fault(message: str) -> str:
    """A fault in words."""
    return f'<p class="fault" role="alert">{escape(message)}</p>'
