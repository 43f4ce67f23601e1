"""The left panel of the explorer: filters, and the page of trees or delegations that pass them.

Invariant: draws rows and computes nothing; every control has a label and a name that `Explorer.answer` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from analysis.explorer_marks import OUTCOMES, number, opener, ranked_words, verdict_mark, verdict_word
from analysis.explorer_store import PAGE

TITLES = {
    "worst": "Worst-ranked delegations",
    "failed": "Failed roots",
    "mixed": "Mixed groups",
    "loops": "Trees with loops",
    "infra": "Infrastructure errors",
    "all": "All trees",
}
EMPTY = {
    "worst": "No delegation has both a success and a failure with valid scores, so nothing can be ranked.",
    "failed": "No root has a failing verdict.",
    "mixed": "No group of samples has both a success and a failure.",
    "loops": "No node went in circles.",
    "infra": "No infrastructure error.",
    "all": "This store has no trees yet.",
}


def list_panel(
    entries: Sequence[dict[str, Any]],
    counts: dict[str, Any],
    *,
    which: str,
    epoch: int | None,
    text: str,
    first: int,
    selected: str = "",
) -> str:
    """Filters above entries; `counts` are those of the whole store."""
    total = entries[0]["total"] if entries else 0
    body = "".join(_delegation(row) if which == "worst" else _tree(row) for row in entries)
    if not entries:
        why = EMPTY[which] if not text and epoch is None else "Nothing passes these filters."
        body = f'<p class="empty">{escape(why)}</p>'
    found = f"{total:,} found" if total else ""
    return (
        f"{_form(counts, which=which, epoch=epoch, text=text)}"
        f'<p class="quiet" role="status">{escape(found)}</p><div class="entries">{body}</div>{_pages(total, first)}'
    )


def _form(counts: dict[str, Any], *, which: str, epoch: int | None, text: str) -> str:
    names = {"worst": "worst", "all": "trees"}
    options = "".join(
        f'<option value="{key}"{" selected" if key == which else ""}>'
        f"{escape(title)} ({counts[names.get(key, key)]:,})</option>"
        for key, title in TITLES.items()
    )
    epochs = '<option value="">all epochs</option>' + "".join(
        f'<option value="{e}"{" selected" if e == epoch else ""}>epoch {e}</option>' for e in counts["epochs"]
    )
    return (
        '<form class="filters" role="search" aria-label="Find a tree">'
        f'<label>Show <select name="filter">{options}</select></label>'
        f'<label>Epoch <select name="epoch">{epochs}</select></label>'
        f'<label>Task, tree or goal <input name="text" type="search" value="{escape(text)}" '
        'placeholder="id or words of the goal"></label></form>'
    )


def _delegation(row: dict[str, Any]) -> str:
    words = ranked_words(row["n_pairs"], row["n_wrong"], row["n_ties"])
    gap = f"mean gap {number(row['mean_gap'], sign=True)}"
    content = (
        f'<span class="first"><b>{escape(words)}</b></span><span class="second">{escape(gap)} · depth {row["depth"]} · '
        f'epoch {row["epoch"]}</span><span class="goal">{escape(row["goal"] or "")}</span>'
        f'<span class="id">{escape(row["delegation_id"])}</span>'
    )
    return opener("delegation", row["delegation_id"], content, kind="entry")


def _tree(row: dict[str, Any]) -> str:
    end = "" if row["outcome"] == "finished" else f" · {OUTCOMES[row['outcome']]}"
    faults = [
        f"{row[name]} {word}{'s' if row[name] > 1 else ''}"
        for name, word in (("n_loops", "loop"), ("n_infra", "error"))
        if row[name]
    ]
    size = f"{row['n_nodes']} node{'s' if row['n_nodes'] != 1 else ''}"
    forked = row["n_all_nodes"] - row["n_nodes"]
    size += f" + {forked} in other branches" if forked else ""
    content = (
        f'<span class="first">{verdict_mark(row["success"])} <b>{verdict_word(row["success"])}</b>{escape(end)}</span>'
        f'<span class="second">{escape(" · ".join([size, *faults]))} · epoch {row["epoch"]} · '
        f"sample {row['sample']}</span>"
        f'<span class="goal">{escape(row["goal"] or "")}</span><span class="id">{escape(row["tree_id"])}</span>'
    )
    return opener("node", row["tree_id"], content, kind="entry")


def _pages(total: int, first: int) -> str:
    if total <= PAGE:
        return ""
    back = f'<button type="button" data-page="{max(0, first - PAGE)}"{" disabled" if first == 0 else ""}>Back</button>'
    more = first + PAGE
    on = f'<button type="button" data-page="{more}"{" disabled" if more >= total else ""}>Next</button>'
    place = f"<span>{first + 1:,}–{min(more, total):,} of {total:,}</span>"
    return f'<nav class="pages" aria-label="Pages">{back}{place}{on}</nav>'
