"""The completion tokens of a turn as coloured text, with the spans that are trained.

Invariant: one mark per token, in order. The colour is the ratio of a later policy where a file of ratios is given, else
the stored log-probability; the number is in the token's tooltip, and a sentence sums the row up, so no colour is needed
to read it. Without a tokenizer a token is shown as its id. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from analysis.explorer_marks import number

Decode = Callable[[int], str]
LEVELS = ((0.9, "p4"), (0.5, "p3"), (0.1, "p2"), (0.01, "p1"))
"""Class of a token by its probability: at least the number; below the last, p0."""
RATIOS = ((0.5, "r0"), (0.8, "r1"), (1.25, "r2"), (2.0, "r3"))
"""Class of a token by its ratio: below the number; from the last on, r4."""


def token_legend(*, ratios: bool) -> str:
    """What the colours of the tokens mean."""
    steps = (
        (("r0", "below 0.5"), ("r1", "below 0.8"), ("r2", "near 1"), ("r3", "above 1.25"), ("r4", "above 2"))
        if ratios
        else (("p4", "90 % and more"), ("p3", "50 %"), ("p2", "10 %"), ("p1", "1 %"), ("p0", "less"))
    )
    marks = " ".join(f'<span class="t {kind}">{word}</span>' for kind, word in steps)
    what = "Colour of a token: its ratio" if ratios else "Colour of a token: its probability when it was sampled"
    return f'<p class="legend">{what} {marks}</p>'


def token_strip(
    turn: dict[str, Any], credit: Sequence[dict[str, Any]], ratios: Sequence[float] | None, decode: Decode | None
) -> str:
    """The tokens of one turn; '' for a turn without token ids."""
    ids = turn["completion_ids"]
    if not ids:
        return ""
    logprobs = turn["logprobs"] or [None] * len(ids)
    if ratios is not None and len(ratios) != len(ids):
        ratios = None
    parts: list[str] = []
    for start, end, span in _spans(len(ids), credit):
        marks = "".join(
            _token(ids[i], logprobs[i], None if ratios is None else ratios[i], decode) for i in range(start, end)
        )
        parts.append(marks if span is None else _trained(span, marks))
    return (
        f'<p class="quiet">{escape(summary(ids, logprobs, ratios, decode))}</p><p class="tokens">{"".join(parts)}</p>'
    )


def summary(
    ids: Sequence[int], logprobs: Sequence[float | None], ratios: Sequence[float] | None, decode: Decode | None
) -> str:
    """The row of tokens in a sentence."""
    words = f"{len(ids)} token{'s' if len(ids) != 1 else ''}"
    known = [(value, i) for i, value in enumerate(logprobs) if value is not None]
    if known:
        low, where = min(known)
        mean = math.fsum(value for value, _ in known) / len(known)
        name = _text(ids[where], decode).strip() or f"token {where}"
        words += f", mean logprob {number(mean)}, least likely “{name}” (probability {math.exp(low):.3g})"
    else:
        words += ", no logprobs"
    if ratios:
        words += f", ratios from {number(min(ratios))} to {number(max(ratios))}"
    return words


def credit_words(row: dict[str, Any]) -> str:
    """One credited span in words."""
    return (
        f"{row['stage']}: advantage {number(row['advantage'], digits=3, sign=True)} on tokens {row['token_start']} to "
        f"{row['token_end'] - 1} (reward {number(row['reward'])}, baseline {number(row['baseline'])})"
    )


def _spans(n: int, credit: Sequence[dict[str, Any]]) -> list[tuple[int, int, dict[str, Any] | None]]:
    """[0, n) cut where credited spans begin and end; where two stages overlap, the first is drawn."""
    edges = {0, n}
    for row in credit:
        edges |= {min(max(row["token_start"], 0), n), min(max(row["token_end"], 0), n)}
    places = sorted(edges)
    return [
        (a, b, next((row for row in credit if row["token_start"] <= a and b <= row["token_end"]), None))
        for a, b in pairwise(places)
    ]


def _trained(span: dict[str, Any], marks: str) -> str:
    sign = "up" if span["advantage"] > 0 else "down" if span["advantage"] < 0 else "zero"
    title = escape(f"trained, {credit_words(span)}")
    value = number(span["advantage"], digits=2, sign=True)
    return f'<span class="trained {sign}" title="{title}">{marks}<sup>{value}</sup></span>'


def _token(token: int, logprob: float | None, ratio: float | None, decode: Decode | None) -> str:
    text = _text(token, decode).replace("\n", "↵")
    title = f"id {token}"
    kind = "pn"
    if logprob is not None:
        probability = math.exp(min(logprob, 0.0))
        title += f", logprob {number(logprob, digits=3)}, probability {probability:.3g}"
        kind = next((name for least, name in LEVELS if probability >= least), "p0")
    if ratio is not None:
        title += f", ratio {number(ratio, digits=3)}"
        kind = next((name for most, name in RATIOS if ratio < most), "r4")
    return f'<span class="t {kind}" title="{escape(title)}">{escape(text)}</span>'


def _text(token: int, decode: Decode | None) -> str:
    return f"{token} " if decode is None else decode(token)
