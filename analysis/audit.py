"""The audit: do rubric scores rank success above failure, and are they calibrated?

Invariant: reads one view of one store, changes nothing, and returns one frozen result that the terminal, the page, the
notebook and `--json` all show. An empty or one-sided store gives nulls with a reason, never an error.
Run: ``sera audit STORE`` or ``analysis.audit.run_audit("runs/demo/store")``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import learning, measure, wording
from analysis.agreement import agreement
from analysis.gates import GateFile, judge, load_gates
from analysis.identity import identify
from analysis.metrics import HEADLINES
from analysis.query import rows
from analysis.results import Audit, Epoch
from sera_data.errors import UsageError

if TYPE_CHECKING:
    from sera_data.store import Store, View


def run_audit(
    store: Store | str | Path,
    *,
    view: View = "live",
    snapshot: str | None = None,
    epochs: Sequence[int] | None = None,
    reps: int = measure.REPS,
    seed: int = measure.SEED,
    margin: float = measure.MARGIN,
    gates: GateFile | None = None,
) -> Audit:
    """Audit one view of a store. `reps` bootstrap replicates over tasks; 0 leaves the intervals out."""
    import sera_data as sd

    opened = sd.open(store) if isinstance(store, str | Path) else store
    _require_epochs(opened, epochs)
    con = opened.connect(view=view, snapshot=snapshot, epochs=epochs)
    try:
        measure.prepare(con, reps=reps, seed=seed, margin=margin)
        slices = measure.slices(con)
        counts, shares = measure.coverage(con)
        checks = measure.integrity(con)
        table, rule = measure.reliability(con)
        headline = slices[0].metrics
        judges = agreement(con)
        worst = wording.worst_slice(slices)
        listing = opened.listing(view=view, snapshot=snapshot, epochs=epochs)
        return Audit(
            identity=identify(opened, con, view=view, snapshot=snapshot, epochs=epochs),
            reps=reps,
            seed=seed,
            margin=margin,
            coverage=counts,
            shares=shares,
            integrity=checks,
            headline=headline,
            reliability=table,
            reliability_rule=rule,
            score_histogram=rows(con, "score_histogram"),
            gap_histogram=rows(con, "gap_histogram", margin=margin),
            slices=slices[1:],
            worst_slice=worst,
            epochs=learning.epochs(con, slices),
            rows={row["table_name"]: row["n"] for row in rows(con, "rows")},
            bytes={name: listing.bytes(name) for name in _tables()},
            agreement=judges,
            gates=judge(gates or load_gates(), slices=slices, counts=counts, shares=shares, integrity=checks),
            summary=[
                *wording.summary({name: headline[name] for name in HEADLINES}, counts, shares, worst),
                *(wording.agreement_sentence(part) for part in judges if part.slice == "all"),
            ],
        )
    finally:
        con.close()


def epoch_summary(store: Store | str | Path, *, reps: int = 0) -> list[Epoch]:
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
