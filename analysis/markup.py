"""Small pieces of HTML shared by the sections of the page.

Invariant: titles and words are escaped here; cells and contents are HTML that the caller has escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def section(title: str, words: Iterable[str], content: str) -> str:
    """A heading, sentences, and what follows them."""
    return f"<h2>{escape(title)}</h2>\n" + "".join(f"<p>{escape(w)}</p>\n" for w in words) + content


def table(head: Sequence[str], body: Iterable[Sequence[str]], *, words: int | None = None) -> str:
    """A table in a card that scrolls sideways when narrow; column `words` holds sentences. One cell: a subheading."""

    def cell(tag: str, i: int, text: str) -> str:
        return f'<{tag} class="words">{text}</{tag}>' if i == words else f"<{tag}>{text}</{tag}>"

    def line(row: Sequence[str]) -> str:
        if len(row) == 1:
            return f'<tr class="part"><td colspan="{len(head)}">{row[0]}</td></tr>\n'
        return f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>\n"

    top = "".join(cell("th", i, escape(text)) for i, text in enumerate(head))
    return (
        f'<div class="card scroll"><table><thead><tr>{top}</tr></thead><tbody>\n'
        f"{''.join(line(row) for row in body)}</tbody></table></div>\n"
    )


def tag(status: str, text: str) -> str:
    """A coloured word: pass, warn, fail or too few."""
    return f'<span class="tag {status.split()[-1]}">{text}</span>'
