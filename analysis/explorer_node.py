"""The right panel of the explorer for a node: goal, verdicts, budgets, what it changed in the world, and its turns.

Invariant: draws rows and computes nothing; what is missing is said in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from analysis.explorer_marks import OUTCOMES, facts, number, opener, text_block, verdict_mark, verdict_word
from analysis.explorer_state import Change, state_changes
from analysis.explorer_tokens import Decode, token_legend
from analysis.explorer_turns import turn_list

CHANGES = 40
NO_CREDIT = (
    '<p class="quiet">To see trained spans: <code>sera credit STORE --rows credit.parquet</code>, then open the '
    "notebook with <code>--credit credit.parquet</code>.</p>"
)


def node_panel(node: Mapping[str, Any], *, decode: Decode | None, has_credit: bool, wanted: str = "") -> str:
    """One node; `wanted` is the turn whose tokens were asked for."""
    name = "Root" if node["branch"] is None else f"Branch {node['branch']}"
    path = "" if node["on_path"] else " (not taken)"
    marks = "" if has_credit else NO_CREDIT
    marks = marks + token_legend(ratios=bool(node["ratios"])) if node["turns"] else ""
    return (
        f'<h3 tabindex="-1">{verdict_mark(node["verdict"])} {name}{path}: {escape(node["goal"])}</h3>'
        f'<p class="quiet"><code>{escape(node["node_id"])}</code></p>{facts(_facts(node))}'
        f"{text_block(node['context'], label='Given by its parent')}"
        f"{text_block(node['message'], label='Its answer')}{text_block(node['error'], label='Error', kind='fault')}"
        f"<h4>What it changed</h4>{changes_list(state_changes(node['start_state'], node['end_state']))}"
        f"{_labels(node['labels'])}<h4>Turns</h4>{marks}"
        f"{turn_list(node, decode=decode, wanted=wanted)}"
    )


def changes_list(changes: Sequence[Change] | None) -> str:
    """State changes as a list."""
    if changes is None:
        return '<p class="empty">No end state was stored.</p>'
    if not changes:
        return '<p class="empty">Nothing.</p>'
    more = f"<li>and {len(changes) - CHANGES:,} more</li>" if len(changes) > CHANGES else ""
    return f'<ul class="changes">{"".join(f"<li>{escape(c.text)}</li>" for c in changes[:CHANGES])}{more}</ul>'


def _facts(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    spent = node["n_completion_tokens"]
    tokens = f"{spent:,} of {node['token_budget']:,}" if node["token_budget"] else f"{spent:,}, no limit"
    low, high = node["policy_version_min"], node["policy_version_max"]
    version = "none" if low is None else f"{low}" if low == high else f"{low} to {high}"
    found = [
        (
            "verdict",
            verdict_word(node["verdict"]) + (f" ({escape(node['verdict_source'])})" if node["verdict_source"] else ""),
        ),
        ("ended", escape(OUTCOMES[node["outcome"]])),
        ("turns", f"{node['n_turns']} of {node['turn_budget']}"),
        ("completion tokens", tokens),
        ("prompt tokens", f"{node['n_prompt_tokens']:,}"),
        ("children", str(node["n_children"])),
        ("policy version", version),
        ("purpose", escape(node["purpose"])),
        ("seed", str(node["seed"])),
    ]
    if node["targets"]:
        found.insert(0, ("targets", f"<code>{escape(node['targets'])}</code>"))
    if node["delegation_id"]:
        found.append(
            (
                "launched by",
                opener("delegation", node["delegation_id"], escape(node["delegation_id"].rpartition("/")[2])),
            )
        )
    return found


def _labels(labels: Sequence[Mapping[str, Any]]) -> str:
    if not labels:
        return '<p class="empty">No label: nobody has judged this node.</p>'
    lines = "".join(f"<li>{escape(_label_words(label))}</li>" for label in labels)
    return f"<details><summary>{len(labels)} label{'s' if len(labels) > 1 else ''}</summary><ul>{lines}</ul></details>"


def _label_words(label: Mapping[str, Any]) -> str:
    vote = f", vote {label['attempt']}" if label["attempt"] else ""
    value = number(label["value"], digits=0) if label["valid"] else f"invalid, {label['error'] or 'no reason stored'}"
    use = " (audit only)" if label["use"] == "audit" else ""
    return f"{label['kind']} {label['source']} {label['version']}{vote}: {value}{use}"
