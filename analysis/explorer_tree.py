"""The middle panel of the explorer: one tree, drawn from the root on the left to the leaves on the right.

Invariant: draws rows and computes nothing. At most LIMIT nodes are drawn, nearest to the root first; what is left out
is counted where it hangs and can be opened. Markup follows the ARIA tree pattern: arrow keys walk, Enter opens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from analysis.explorer_marks import (
    OUTCOMES,
    number,
    opener,
    percent,
    ranked_words,
    score_word,
    verdict_mark,
    verdict_word,
)

LIMIT = 300

Row = dict[str, Any]


class Drawing:
    """The rows of a tree by parent, and which of them are drawn."""

    def __init__(self, nodes: Sequence[Row], launches: Sequence[Row], *, top: str, limit: int = LIMIT) -> None:
        self.nodes = {row["node_id"]: row for row in nodes}
        self.launches: dict[str, list[Row]] = defaultdict(list)
        for launch in launches:
            self.launches[launch["parent_id"]].append(launch)
        self.branches: dict[str, list[Row]] = defaultdict(list)
        for row in nodes:
            self.branches[row["delegation_id"]].append(row)
        for rows in self.branches.values():
            rows.sort(key=lambda row: (not row["on_path"], row["branch"] or 0))
        self.top = top
        self.shown = self._nearest(limit)

    def _nearest(self, limit: int) -> set[str]:
        shown: set[str] = set()
        wave = [self.top]
        while wave and len(shown) < limit:
            shown.update(wave[: limit - len(shown)])
            wave = [
                b["node_id"] for node in wave for x in self.launches[node] for b in self.branches[x["delegation_id"]]
            ]
        return shown

    def below(self, launch: Row) -> int:
        """Nodes that hang under a delegation."""
        rows = self.branches[launch["delegation_id"]]
        return len(rows) + sum(self.below(x) for row in rows for x in self.launches[row["node_id"]])


def tree_panel(root: Mapping[str, Any], nodes: Sequence[Row], launches: Sequence[Row], *, top: str) -> str:
    """The head of a tree and its drawing; `top` is the node that is drawn leftmost."""
    drawing = Drawing(nodes, launches, top=top)
    if top not in drawing.nodes:
        return '<p class="empty">The root of this tree is not in the store.</p>'
    note = ""
    if top != root["tree_id"]:
        note = f"<p>Drawn from {escape(top)}. {opener('focus', root['tree_id'], 'Draw the whole tree')}</p>"
    label = f"Tree {root['tree_id']}, {len(nodes)} nodes"
    return (
        f'{_head(root)}{note}{LEGEND}<div class="drawing"><ul role="tree" aria-label="{escape(label)}">'
        f"{_node(drawing, drawing.nodes[top], level=1)}</ul></div>"
    )


LEGEND = (
    '<p class="legend"><span class="verdict good">✓</span> succeeded <span class="verdict bad">✗</span> failed '
    '<span class="verdict none">?</span> no verdict · <span class="swatch solid"></span> what happened '
    '<span class="swatch dashed"></span> other branches, forked from the same state · leaves: the node\'s share of the '
    "tree's leaves</p>"
)


def _head(root: Mapping[str, Any]) -> str:
    samples = "".join(
        opener(
            "node",
            s["tree_id"],
            f"{s['sample']}{verdict_mark(s['success'])}",
            label=f"Sample {s['sample']}, {verdict_word(s['success'])}",
            kind="sample here" if s["tree_id"] == root["tree_id"] else "sample",
        )
        for s in root["samples"]
    )
    updates = root["updates"]
    trained = "No update has consumed this group."
    if updates:
        steps = ", ".join(f"{u['update']} ({u['stage']})" for u in updates)
        trained = f"Consumed by update{'s' if len(updates) > 1 else ''} {steps} of {updates[0]['method']}."
    where = (
        f"task {root['task_id']} · {root['difficulty'] or 'no difficulty'} · epoch {root['epoch']} · {root['purpose']}"
    )
    return (
        f"<header><h3>{verdict_mark(root['success'])} {escape(root['goal'] or root['tree_id'])}</h3>"
        f'<p class="quiet">{escape(where)} · <code>{escape(root["tree_id"])}</code></p>'
        f'<p class="samples">Samples of this task: {samples}</p><p class="quiet">{escape(trained)}</p></header>'
    )


def _node(drawing: Drawing, row: Row, *, level: int) -> str:
    launches = drawing.launches[row["node_id"]]
    below = "".join(_launch(drawing, launch, level=level + 1) for launch in launches)
    kind = "card" if row["on_path"] else "card off"
    return _item("node", row["node_id"], _node_words(row), _card(row), kind=kind, level=level, below=below)


def _launch(drawing: Drawing, launch: Row, *, level: int) -> str:
    rows = drawing.branches[launch["delegation_id"]]
    drawn = [row for row in rows if row["node_id"] in drawing.shown]
    below = "".join(_node(drawing, row, level=level + 1) for row in drawn)
    if len(drawn) < len(rows):
        more = f"{drawing.below(launch):,} nodes below: draw from here"
        below += f'<li role="none">{opener("focus", launch["parent_id"], more)}</li>'
    name = launch["delegation_id"].rpartition("/")[2]
    words = f"{launch['n_started']} of {launch['k']} branches" if launch["k"] > 1 else "plain"
    ranked = ranked_words(launch["n_pairs"], launch["n_wrong"], launch["n_ties"]) if launch["k"] > 1 else ""
    bad = " wrong" if launch["n_pairs"] and launch["n_wrong"] + launch["n_ties"] / 2 > launch["n_pairs"] / 2 else ""
    card = f'<b>{escape(name)}</b> {escape(words)}<span class="small">{escape(ranked)}</span>'
    label = f"Delegation {name}, {words}" + (f", {ranked}" if ranked else "")
    return _item("delegation", launch["delegation_id"], label, card, kind=f"launch{bad}", level=level, below=below)


def _item(what: str, place: str, words: str, card: str, *, kind: str, level: int, below: str) -> str:
    group = f'<ul role="group">{below}</ul>' if below else ""
    expanded = ' aria-expanded="true"' if below else ""
    return (
        f'<li role="treeitem" tabindex="-1" aria-level="{level}"{expanded} aria-selected="false" '
        f'aria-label="{escape(words)}" data-open="{what}:{escape(place)}">'
        f'<span class="{kind}">{card}</span>{group}</li>'
    )


def _card(row: Row) -> str:
    name = "root" if row["branch"] is None else f"b{row['branch']}"
    score = "" if row["branch"] is None and row["score"] is None else score_word(row["score"], row["n_scores"])
    leaves = "" if row["leaf_share"] is None else f"leaves {percent(row['leaf_share'])}"
    end = "" if row["outcome"] == "finished" else OUTCOMES[row["outcome"]]
    small = " · ".join(part for part in (leaves, f"{row['n_turns']} turns", end) if part)
    goal = f'<span class="goal">{escape(row["goal"])}</span>' if row["on_path"] else ""
    return (
        f'{verdict_mark(row["verdict"])} <b>{name}</b> <span class="score">{escape(score)}</span>{goal}'
        f'<span class="small">{escape(small)}</span>'
    )


def _node_words(row: Row) -> str:
    name = "Root" if row["branch"] is None else f"Branch {row['branch']}"
    path = "" if row["on_path"] else ", not taken"
    score = "" if row["score"] is None else f", score {number(row['score'])}"
    leaves = "" if row["leaf_share"] is None else f", {percent(row['leaf_share'])} of the leaves"
    return f"{name}{path}, {verdict_word(row['verdict'])}, {OUTCOMES[row['outcome']]}{score}{leaves}: {row['goal']}"
