"""The turns of one node as an episode to read: what it was told, what it said and did, what came back.

Invariant: text is shown as it was stored; the tokens of a turn are drawn while the panel's allowance lasts, and of a
later turn when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from analysis.explorer_marks import grid, opener, text_block
from analysis.explorer_tokens import Decode, credit_words, token_strip

TOKENS_DRAWN = 3_000
"""Tokens that a panel draws unasked: a mark each, about 0.1 kB."""
PROMPT_CHARS = 4_000
KINDS = {"act": "Turn", "rubric": "Rubric written", "score": "Score given"}
_THOUGHT = re.compile(r"<(think|thought)>(.*?)(?:</\1>|\Z)", re.DOTALL)

Row = dict[str, Any]


def split_thought(text: str) -> tuple[str, str]:
    """The thinking of a completion, and the rest of it."""
    thoughts = "\n".join(match[2].strip() for match in _THOUGHT.finditer(text))
    return thoughts, _THOUGHT.sub("", text).strip() if thoughts else text


def turn_list(node: Mapping[str, Any], *, decode: Decode | None, wanted: str = "") -> str:
    """Every turn of a node; `wanted` is the turn whose tokens were asked for."""
    if not node["turns"]:
        return '<p class="empty">No turn was taken.</p>'
    left, parts = TOKENS_DRAWN, []
    for turn in node["turns"]:
        size = len(turn["completion_ids"] or [])
        drawn = turn["turn_id"] == wanted or size <= left
        left -= size if drawn else 0
        credit = [row for row in node["credit"] if row["turn_id"] == turn["turn_id"]]
        tokens = _tokens(turn, credit, node["ratios"].get(turn["turn_id"]), decode, drawn=drawn)
        parts.append(_turn(turn, credit, tokens, decode, is_wanted=turn["turn_id"] == wanted))
    return "".join(parts)


def _turn(turn: Row, credit: Sequence[Row], tokens: str, decode: Decode | None, *, is_wanted: bool) -> str:
    name = f"{KINDS[turn['kind']]} {turn['step']}" if turn["kind"] == "act" else KINDS[turn["kind"]]
    facts = f"{turn['role']} {turn['policy']} v{turn['policy_version']} · temperature {turn['temperature']:g}"
    facts += f" · {turn['finish_reason']}" + ("" if turn["trainable"] else " · not trainable")
    fault = "" if turn["ok"] else f'<p class="fault">Not ok: {escape(turn["error"] or "no reason stored")}</p>'
    paid = "".join(f"<li>{escape(credit_words(row))}</li>" for row in credit)
    thought, said = split_thought(turn["text"])
    return (
        f'<article class="turn {turn["kind"]}"{" data-wanted" if is_wanted else ""}><h4>{escape(name)} '
        f'<span class="quiet">{escape(facts)}</span></h4>{_prompt(turn, decode)}'
        f"{text_block(thought, label='Thought', kind='thought')}"
        f"{text_block(said, label='Action' if turn['kind'] == 'act' else 'Text', kind='action')}{fault}"
        f"{_calls(turn['tool_calls'] or [])}{_launches(turn['delegations'] or [])}"
        f"{text_block(turn['observation'], label='Observation', kind='observation')}"
        f"{f'<ul class=paid>{paid}</ul>' if paid else ''}{tokens}</article>"
    )


def _prompt(turn: Row, decode: Decode | None) -> str:
    """What was added to the prompt before this completion."""
    ids, text = turn["prompt_ids"], turn["prompt_text"]
    if ids is not None:
        text = " ".join(map(str, ids)) if decode is None else "".join(decode(i) for i in ids)
    whole = "whole prompt" if turn["base_turn"] is None else "added to the prompt"
    size = "" if ids is None else f", {len(ids)} of {turn['n_prompt']} tokens"
    if not text:
        return ""
    cut = f" (first {PROMPT_CHARS:,} of {len(text):,} characters)" if len(text) > PROMPT_CHARS else ""
    form = "" if ids is None or decode is not None else " as token ids"
    return (
        f"<details><summary>Prompt{form}: {whole}{size}{cut}</summary>"
        f"<pre>{escape(text[:PROMPT_CHARS])}</pre></details>"
    )


def _tokens(
    turn: Row, credit: Sequence[Row], ratios: Sequence[float] | None, decode: Decode | None, *, drawn: bool
) -> str:
    if not turn["completion_ids"]:
        return ""
    if not drawn:
        return opener("turn", turn["turn_id"], f"Show its {len(turn['completion_ids']):,} tokens")
    return f'<div class="strip"><h5>Tokens</h5>{token_strip(turn, credit, ratios, decode)}</div>'


def _calls(calls: Sequence[Row]) -> str:
    changed = [call for call in calls if call["delta"] or not call["ok"]]
    if not changed:
        return ""
    body = [
        [
            escape(c["tool"]),
            escape(c["arguments"] or ""),
            "ok" if c["ok"] else "refused",
            escape(c["delta"] or "nothing"),
        ]
        for c in changed
    ]
    return grid("Calls that changed the world or were refused", ["tool", "arguments", "result", "change"], body)


def _launches(launches: Sequence[Row]) -> str:
    lines = []
    for launch in launches:
        name = launch["delegation_id"]
        what = opener("delegation", name, escape(name.rpartition("/")[2])) if name else escape(launch["status"])
        why = f": {escape(launch['reason'])}" if launch["reason"] else ""
        lines.append(f"<li>Delegates {escape(launch['targets'] or '')} {what}{why}</li>")
    return f'<ul class="launches">{"".join(lines)}</ul>' if lines else ""
