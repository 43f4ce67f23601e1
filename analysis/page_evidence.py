"""What the page's numbers rest on: coverage, integrity, gates, and the identity they were measured for.

Invariant: counts and hashes are shown as the store has them; nothing that limits the numbers is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from analysis.markup import section, table, tag
from analysis.page_sections import gates
from analysis.results import Audit
from analysis.wording import agents_text, count, share

DELEGATIONS = (
    ("delegations", "Delegations"),
    ("forked", "forked into branches"),
    ("complete", "every branch complete"),
    ("mixed", "mixed success and failure"),
    ("mixed_scored", "mixed, with usable scores"),
)
NODES = (
    ("child_nodes", "Delegated nodes"),
    ("child_nodes_ran", "ran without infrastructure error"),
    ("child_nodes_labelled", "with a verdict"),
    ("child_nodes_audited", "with verdict and score"),
    ("audit_labels", "of these judged by audit labels only"),
)
SHARES = {
    "rubrics_valid": ("Valid rubrics", "rubrics_written", "first attempts that parsed as a rubric"),
    "rubrics_distinct": ("Distinct rubrics", "rubrics_valid", "few distinct texts: the writer ignores the task"),
    "scores_valid": ("Valid scores", "scores_written", "first attempts that parsed as a score"),
    "trees_infra": ("Lost trees", "trees", "ended by an infrastructure error and left out"),
}


def coverage(audit: Audit) -> str:
    """From delegations to pairs, from nodes to scores, and the shares that explain the losses."""
    panels = "".join(
        f'<div class="card"><h3>{title}</h3>{_funnel(steps, audit.coverage)}</div>'
        for title, steps in (("From delegations to pairs", DELEGATIONS), ("From nodes to scores", NODES))
    )
    rows = [
        (name, share(audit.shares[key]), f"{audit.coverage[of]:,}", about) for key, (name, of, about) in SHARES.items()
    ]
    words = (
        f"{count(audit.coverage['trees'], 'tree')} of {count(audit.coverage['tasks'], 'task')}. Pair numbers speak of"
        " mixed delegations only: when nearly everything succeeds or fails, the few left are not typical."
    )
    content = f'<div class="grid">{panels}</div>' + table(("share", "value", "of", "meaning"), rows, words=3)
    return section("What this rests on", [words], content)


def _funnel(steps: Sequence[tuple[str, str]], counts: dict[str, int]) -> str:
    most = max(counts[key] for key, _ in steps) or 1
    lines = "".join(
        f'<span>{label}</span><span class="n">{counts[key]:,}</span>'
        f'<span class="bar"><i style="width:{100 * counts[key] / most:.1f}%"></i></span>'
        for key, label in steps
    )
    return f'<div class="funnel">{lines}</div>'


def trust(audit: Audit) -> str:
    """Integrity checks and gates."""
    found = sum(check.found for check in audit.integrity)
    words = "No fault was found in the rows that the numbers rest on."
    if found:
        words = f"{count(found, 'fault')} found in the rows that the numbers rest on: mend them before trusting these."
    rows = [
        (tag("fail" if check.found else "pass", f"{check.found:,}"), f"{check.looked_at:,}", escape(check.meaning))
        for check in audit.integrity
    ]
    content = table(("found", "looked at", "fault"), rows, words=2)
    return section("Can the numbers be trusted?", [words], content) + gates(audit.gates)


def identity(audit: Audit) -> str:
    """The footer: what the numbers were measured for."""
    known = audit.identity
    code = sorted({str(p["code_version"]) for p in known.policies})
    styles = sorted({str(p["style"]) for p in known.policies if p["style"]})
    parts = {
        "Store": escape(known.path),
        "Format": f"{known.format_version}, schema {known.schema_version}",
        "Snapshot": known.snapshot and f"{escape(known.snapshot)} <code>{known.snapshot_sha256}</code>",
        "Writers, scorers": "<br>".join(map(escape, agents_text(known.agents))) or "none yet",
        "Policies": "<br>".join(sorted({_policy(p) for p in known.policies})) or "none recorded",
        "Prompt style": escape(", ".join(styles)),
        "Rubric texts": f"{audit.coverage['rubrics_distinct']:,} distinct of {audit.coverage['rubrics_valid']:,} valid",
        "Rubric prompts (sha256)": f"<code>{known.rubric_prompts}</code>",
        "Data (sha256)": f"<code>{known.snapshot_hash}</code>",
        "Code": escape(", ".join(code)),
        "Seals (sha256)": "<br>".join(f"{name} <code>{sha}</code>" for name, sha in known.seals.items()) or "none",
        "Unsealed shards": f"{known.unsealed_shards:,}",
    }
    items = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in parts.items() if text)
    words = "A calibration result holds for this writer, this scorer and this data, and for nothing else."
    return "<footer>" + section("Measured for", [words], f'<div class="card"><dl>{items}</dl></div>') + "</footer>"


def _policy(policy: dict[str, object]) -> str:
    weights = policy["weights_sha256"]
    tail = f", weights <code>{escape(str(weights)[:16])}</code>" if weights else ""
    return escape(f"{policy['role']}: {policy['name']} version {policy['version']}, {policy['engine']}") + tail
