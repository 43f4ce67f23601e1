"""The right panel of the explorer for a delegation: the frozen rubric, and its branches side by side.

Invariant: draws rows and computes nothing. The scores shown per criterion are those of the first collect rubric's first
attempt; every other rubric and score is listed below. A branch that never started keeps its column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from analysis.explorer_marks import (
    OUTCOMES,
    grid,
    number,
    opener,
    percent,
    score_word,
    text_block,
    verdict_mark,
    verdict_word,
)
from analysis.explorer_node import changes_list
from analysis.explorer_state import state_changes

Row = Mapping[str, Any]

LABELS = {"succeeded": "success", "failed": "failure", "no verdict": "none"}
"""A verdict as the short word of a narrow column."""


def delegation_panel(delegation: Mapping[str, Any], *, launch: Row | None) -> str:
    """One delegation; `launch` is its row of the drawn tree, with the ranking in counts."""
    branches: Sequence[Row] = delegation["branches"]
    first = branches[0]
    started = [b for b in branches if b["node_id"] is not None]
    goal = next((b["goal"] for b in started if b["goal"]), "")
    name = delegation["delegation_id"].rpartition("/")[2]
    rubric = main_rubric(delegation["rubrics"])
    chosen = f"forked as {first['selection']}"
    if first["inclusion_probability"] is not None:
        chosen += f", probability {number(first['inclusion_probability'])}"
    group = (
        "complete"
        if all(b["complete"] for b in branches)
        else f"not complete: {first['exclusion_reason'] or 'no reason stored'}"
    )
    return (
        f'<h3 tabindex="-1">Delegation {escape(name)}: {escape(goal)}</h3>'
        f'<p class="quiet"><code>{escape(delegation["delegation_id"])}</code></p>'
        f"<p>{_ranked(launch)} {len(started)} of {first['k']} branches started, {escape(chosen)}; "
        f"group {escape(group)}. "
        f"Launched by {opener('node', first['parent_id'], escape(first['parent_id']))}.</p>"
        f"<h4>Rubric, frozen before the child's first token</h4>{_rubric(rubric)}"
        f"<h4>Branches</h4>{_side_by_side(branches, rubric, delegation['scores'])}"
        f"{_other_rubrics(delegation['rubrics'], rubric)}{_other_scores(delegation['scores'], rubric)}"
    )


def main_rubric(rubrics: Sequence[Row]) -> Row | None:
    """The first rubric of phase collect that is valid, else the first there is."""
    collected = [r for r in rubrics if r["phase"] == "collect"]
    return next((r for r in collected if r["valid"]), next(iter([*collected, *rubrics]), None))


def main_scores(scores: Sequence[Row], rubric: Row | None) -> dict[str, Row]:
    """The first-attempt score of each node under that rubric, by node; of the first scorer at its newest version."""
    found: dict[str, Row] = {}
    mine = [s for s in scores if rubric is not None and s["rubric_id"] == rubric["rubric_id"] and s["attempt"] == 0]
    for score in sorted(mine, key=lambda s: (s["scorer"], -s["scorer_version"])):
        found.setdefault(score["node_id"], score)
    return found


def _ranked(launch: Row | None) -> str:
    if launch is None or not launch["n_pairs"]:
        return "No pair of a success and a failure with scores, so nothing is ranked."
    right = launch["n_pairs"] - launch["n_wrong"] - launch["n_ties"]
    return (
        f"<b>{right} of {launch['n_pairs']} pairs ranked right</b>, {launch['n_wrong']} wrong, {launch['n_ties']} tied "
        "(a pair is a success and a failure)."
    )


def _rubric(rubric: Row | None) -> str:
    if rubric is None:
        return '<p class="empty">No rubric was written for this delegation.</p>'
    if not rubric["valid"]:
        return f'<p class="fault">The rubric is invalid: {escape(rubric["error"] or "no reason stored")}</p>'
    items = [[escape(i["name"]), escape(i["description"]), percent(i["weight"])] for i in rubric["items"]]
    by = f"written by {rubric['writer']} v{rubric['writer_version']}, order stamp {rubric['order_stamp']}"
    return (
        f"{grid('Criteria', ['criterion', 'what it asks', 'weight'], items)}"
        f"<div class=rules>{text_block(rubric['success_gate'], label='No score above 0 unless')}"
        f"{text_block(rubric['failure_conditions'], label='Score 0 if')}"
        f"{text_block(rubric['procedure'], label='How to combine')}</div>"
        f'<p class="quiet">{escape(by)}, sha256 <code>{escape((rubric["rubric_sha256"] or "")[:12])}</code></p>'
    )


def _side_by_side(branches: Sequence[Row], rubric: Row | None, scores: Sequence[Row]) -> str:
    mine = main_scores(scores, rubric)
    found = [mine.get(b["node_id"]) for b in branches]
    head = ["", *(_branch_head(b) for b in branches)]
    body = [
        ["label", *(f"{verdict_mark(b['verdict'])} {LABELS[verdict_word(b['verdict'])]}" for b in branches)],
        ["score", *(_score(s) for s in found)],
        *_item_rows(rubric, found),
        ["steps", *("" if b["n_turns"] is None else f"{b['n_turns']} of {b['turn_budget']}" for b in branches)],
        ["tokens", *("" if b["n_tokens"] is None else f"{b['n_tokens']:,}" for b in branches)],
        ["ended", *(escape(OUTCOMES.get(b["outcome"], "never started")) for b in branches)],
        ["answer", *(escape(_short(b["message"] or b["error"] or "")) for b in branches)],
        ["what it changed", *(_changed(b, branches) for b in branches)],
    ]
    return grid(f"{len(branches)} branches from one state, side by side", head, body)


def _branch_head(branch: Row) -> str:
    name = f"b{branch['branch']}"
    taken = '<span class="small">taken</span>' if branch["committed"] else ""
    if branch["node_id"] is None:
        return f"{name}{taken}"
    return opener("node", branch["node_id"], name, label=f"Open branch {branch['branch']}") + taken


def _score(score: Row | None) -> str:
    if score is None:
        return "no score"
    if not score["valid"]:
        return f'<span title="{escape(score["error"] or "")}">invalid</span>'
    value = score["final_score"]
    bar = "" if value is None or not math.isfinite(value) else f'<meter min="0" max="1" value="{value:.3f}"></meter>'
    return f"<b>{score_word(value, 1)}</b>{bar}"


def _item_rows(rubric: Row | None, scores: Sequence[Row | None]) -> list[list[str]]:
    items = [] if rubric is None else rubric["items"] or []
    given = [{} if s is None else {i["name"]: i["score"] for i in s["item_scores"] or []} for s in scores]
    return [
        [escape(item["name"]), *(number(row[item["name"]]) if item["name"] in row else "–" for row in given)]
        for item in items
    ]


def _changed(branch: Row, branches: Sequence[Row]) -> str:
    if branch["node_id"] is None:
        return ""
    twin = next(
        (b for b in branches if b["end_digest"] is not None and b["end_digest"] == branch["end_digest"]), branch
    )
    if twin["branch"] != branch["branch"]:
        return f"as b{twin['branch']}"
    return changes_list(state_changes(branch["start_state"], branch["end_state"]))


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}…"


def _other_rubrics(rubrics: Sequence[Row], rubric: Row | None) -> str:
    others = [r for r in rubrics if rubric is None or r["rubric_id"] != rubric["rubric_id"]]
    if not others:
        return ""
    lines = "".join(
        f"<details><summary>{escape(r['phase'])} rubric {r['k']}, attempt {r['attempt']}, {escape(r['writer'])} "
        f"v{r['writer_version']}{'' if r['valid'] else ', invalid'}</summary>{_rubric(r)}</details>"
        for r in others
    )
    return f"<h4>Other rubrics</h4>{lines}"


def _other_scores(scores: Sequence[Row], rubric: Row | None) -> str:
    shown = {id(score) for score in main_scores(scores, rubric).values()}
    others = [s for s in scores if id(s) not in shown]
    if not others:
        return ""
    body = [
        [
            f"b{escape(s['node_id'].rpartition('b')[2])}", escape(s["rubric_id"].rpartition("/")[2]),
            f"{escape(s['scorer'])} v{s['scorer_version']}", str(s["attempt"]), _score(s),
        ]
        for s in others
    ]  # fmt: skip
    table = grid("Other scores", ["branch", "rubric", "scorer", "attempt", "score"], body)
    return f"<details><summary>{len(others)} other scores</summary>{table}</details>"
