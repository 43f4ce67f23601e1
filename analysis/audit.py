"""The audit: do rubric scores rank success above failure, and are they calibrated?

Invariant: reads one view of one store, changes nothing, and returns one frozen result that the terminal, the page, the
notebook and `--json` all show. An empty or one-sided store gives nulls with a reason, never an error.
Run: ``sera audit STORE`` or ``analysis.audit.run_audit("runs/demo/store")``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import evidence, learning, measure, wording
from analysis.agreement import agreement
from analysis.gates import GateFile, judge, load_gates
from analysis.identity import identify
from analysis.metrics import HEADLINES
from analysis.query import counted, rows
from analysis.results import Audit, Epoch
from sera_data.errors import UsageError
from sera_data.place import ObjectPath

if TYPE_CHECKING:
    import duckdb

    from sera_data.store import Store, View


def run_audit(
    store: Store | str | Path | ObjectPath,
    *,
    view: View = "live",
    snapshot: str | None = None,
    epochs: Sequence[int] | None = None,
    held_out: float | None = None,
    reps: int = measure.REPS,
    seed: int = measure.SEED,
    margin: float = measure.MARGIN,
    gates: GateFile | None = None,
    against: str | None = None,
    con: duckdb.DuckDBPyConnection | None = None,
) -> Audit:
    """Audit one view of a store. `reps` bootstrap replicates over tasks; 0 leaves the intervals out.

    held_out: only the tasks that this share keeps from training, learn's `hold_out`. against: an older audit to compare
    with (analysis.against), of the same tasks when it is a view of a store. con: a connection to that view and those
    tasks, which then keeps the audit's tables; otherwise one is opened and closed.
    """
    import sera_data as sd

    opened = sd.open(store) if isinstance(store, str | Path | ObjectPath) else store
    _require_epochs(opened, epochs)
    with contextlib.ExitStack() as stack:
        if con is None:
            con = opened.connect(view=view, snapshot=snapshot, epochs=epochs, held_out=held_out)
            stack.enter_context(contextlib.closing(con))
        measure.prepare(con, reps=reps, seed=seed, margin=margin)
        identity = identify(opened, con, view=view, snapshot=snapshot, epochs=epochs, held_out=held_out)
        listing = opened.listing(view=view, snapshot=snapshot, epochs=epochs)
        size = {name: listing.bytes(name) for name in _tables()}
        found = measured(con, margin=margin, gates=gates)
        audit = Audit(identity=identity, bytes=size, reps=reps, seed=seed, margin=margin, **found)
        if against is not None:
            from analysis.against import compare

            audit = audit.model_copy(update={"comparison": compare(opened, con, audit, against)})
        return audit


def measured(con: duckdb.DuckDBPyConnection, *, margin: float, gates: GateFile | None = None) -> dict[str, Any]:
    """Everything in an `Audit` that is read from the tables of `measure.prepare`."""
    slices = measure.slices(con)
    headline = slices[0].metrics
    worst = next((part.metrics for part in slices if part.slice == "worst"), headline)
    counts, shares = measure.coverage(con)
    integrity = measure.integrity(con)
    checks = measure.checks(con)
    items, texts, judges = evidence.items(con), evidence.texts(con), agreement(con)
    table, rule = measure.reliability(con)
    repeats = rows(con, "self_consistency")[0]
    worst_slice = wording.worst_slice(slices)
    exact = evidence.shares(counts, shares, items, texts)
    found = judge(con, gates or load_gates(), evidence.Evidence(slices, checks, exact, integrity, judges))
    parts = {
        "coverage": counts,
        "shares": shares,
        "integrity": integrity,
        "headline": headline,
        "worst": worst,
        "checks": checks,
        "reliability": table,
        "reliability_rule": rule,
        "score_histogram": counted(con, "score_histogram"),
        "gap_histogram": counted(con, "gap_histogram", margin=margin),
        "slices": [part for part in slices if part.slice not in ("all", "worst")],
        "worst_slice": worst_slice,
        "epochs": learning.epochs(con, slices),
        "rows": {row["table_name"]: row["n"] for row in counted(con, "rows")},
        "drift": evidence.drift(con),
        "recalibration": evidence.recalibration(con),
        "divergence": evidence.divergence(con),
        "agreement": judges,
        "repeat_sd": repeats["repeat_sd"],
        "repeats": repeats["n"],
        "items": items,
        "texts": texts,
        "gates": found,
        "summary": [
            *wording.summary({name: headline[name] for name in HEADLINES}, counts, shares, worst_slice),
            *(wording.agreement_sentence(part) for part in judges if part.slice == "all"),
        ],
    }
    return {**parts, "sections": evidence.sections(parts)}


def epoch_summary(store: Store | str | Path | ObjectPath, *, reps: int = 0) -> list[Epoch]:
    """The learning table of a store, without intervals unless `reps` is given."""
    return run_audit(store, reps=reps).epochs


def _require_epochs(store: Store, epochs: Sequence[int] | None) -> None:
    if epochs is None:
        return
    known = sorted({row[0] for row in store.sql("select distinct epoch from runs").fetchall()})
    missing = sorted(set(epochs) - set(known))
    if missing:
        there = f"it has {', '.join(map(str, known))}" if known else "it has none yet"
        msg = f"store {store.path} has no epoch {', '.join(map(str, missing))}; {there}"
        raise UsageError(msg)


def _tables() -> Sequence[Any]:
    from schemas import TABLES

    return list(TABLES)
