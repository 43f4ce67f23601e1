"""An audit compared with an older one: another snapshot, another store, or a page or JSON written earlier.

Invariant: says first whether the older audit was measured for the same data, writers, scorers and prompts; changes are
now minus before, with a paired interval when the older store can be read again.
Run: ``sera audit STORE --against SNAPSHOT | STORE | audit.json | audit.html``
"""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import measure
from analysis.identity import differences
from analysis.query import rows
from analysis.results import Audit, Change, Comparison
from sera_data.errors import UsageError
from sera_data.place import place

if TYPE_CHECKING:
    import duckdb

    from sera_data.store import Store

COMPARED = ("pair_accuracy", "mean_hinge", "calibration_error", "bias", "skill", "auroc_within", "tie_rate")
SQUARES = {"calibration_error": "l2_squared"}
META = re.compile(r'<meta name="sera-audit" content="([^"]*)">')


def compare(store: Store, con: duckdb.DuckDBPyConnection, audit: Audit, against: str) -> Comparison:
    """Compare `audit`, whose tables `con` holds, with what `against` names."""
    path = Path(against)
    if path.suffix in (".json", ".html"):
        old = read_audit(path)
        if old is None:
            msg = f"{path} is not an audit that this release wrote"
            raise UsageError(msg, hint="name a file of 'sera audit STORE --json' or '--html', a snapshot or a store")
        return _with_file(audit, against, old)
    return _with_view(store, con, audit, against)


def read_audit(path: Path) -> dict[str, Any] | None:
    """{identity, headline} of an audit's JSON or page; None when the file is neither."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    if path.suffix == ".html":
        found = META.search(text)
        text = unescape(found.group(1)) if found else ""
    try:
        body = json.loads(text)
    except ValueError:
        return None
    return body if isinstance(body, dict) and {"identity", "headline"} <= set(body) else None


def _with_file(audit: Audit, against: str, old: dict[str, Any]) -> Comparison:
    changes = []
    for name in COMPARED:
        now = audit.headline[name].value
        value = old["headline"].get(name)
        before = value.get("value") if isinstance(value, dict) else value
        change = None if now is None or before is None else now - before
        changes.append(Change(metric=name, before=before, now=now, change=change, low=None, high=None))
    found = differences(old["identity"], audit.identity)
    return Comparison(against=against, matches=not found, differences=found, changes=changes)


def _with_view(store: Store, con: duckdb.DuckDBPyConnection, audit: Audit, against: str) -> Comparison:
    import sera_data as sd
    from analysis.audit import run_audit

    other, snapshot = (sd.open(against), None) if (place(against) / "store.json").exists() else (store, against)
    share = audit.identity.held_out
    old_con = other.connect(view="live", snapshot=snapshot, held_out=share)
    try:
        options: dict[str, Any] = {"reps": audit.reps, "seed": audit.seed, "margin": audit.margin, "held_out": share}
        old = run_audit(other, snapshot=snapshot, con=old_con, **options)
        before, now = (rows(c, "headline_replicates") for c in (old_con, con))
        found = {row["metric"]: row for row in rows(con, "changes", now=now, before=before)}
    finally:
        old_con.close()
    changes = [_change(name, old, audit, found.get(SQUARES.get(name, name))) for name in COMPARED]
    unlike = differences(old.identity.model_dump(mode="json"), audit.identity)
    return Comparison(against=against, matches=not unlike, differences=unlike, changes=changes)


def _change(name: str, old: Audit, new: Audit, row: dict[str, Any] | None) -> Change:
    before, now = old.headline[name].value, new.headline[name].value
    change = None if before is None or now is None else now - before
    # the interval of a root is not that of its square: shown for metrics that are read as they are
    low, high = (None, None) if row is None or name in measure.DERIVED else (row["low"], row["high"])
    return Change(metric=name, before=before, now=now, change=change, low=low, high=high)
