"""A full audit of 1,000,000 scored branches (8,000 tasks) with 1,000 bootstrap replicates: seconds, and of what.

The store is made by SQL and sealed as real files first, which is not counted. Exits with 1 above 15 s of two processors
(30 s of processor time), which is what the audit of such a store may cost.
Run: ``python benchmarks/audit.py [--tasks 8000] [--reps 1000] [--keep DIRECTORY] [--out FILE.json]``
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "tests" / "analysis")]
from simulated_store import sealed_store  # noqa: E402

import sera_data as sd  # noqa: E402
from analysis import agreement, audit, evidence, gates, identity, learning, measure, query  # noqa: E402
from analysis.audit import run_audit  # noqa: E402

LIMIT_S, PROCESSORS, LAUNCHES, EPOCHS = 15.0, 2, 8, 2


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=8000)
    parser.add_argument("--reps", type=int, default=1000)
    parser.add_argument("--keep", type=Path, default=None, help="Make the store here, or use the one that is there.")
    parser.add_argument("--out", type=Path, default=None, help="Write the figures here too, as JSON.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = options.keep or Path(temporary) / "store"
        started = time.perf_counter()
        if not (path / "store.json").exists():
            sealed_store(path, tasks=options.tasks, epochs=EPOCHS, launches=LAUNCHES, seed=1)
        made = time.perf_counter() - started
        store = sd.open(path)
        spent = _watch_files()
        wall, cpu = time.perf_counter(), time.process_time()
        result = run_audit(store, reps=options.reps)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        figures = json.dumps({
            "branches": result.coverage["child_nodes"], "tasks": result.coverage["tasks"], "reps": options.reps,
            "store_s": round(made, 1), "audit_s": round(wall, 2), "processor_s": round(cpu, 2),
            "slowest": dict(sorted(((k, round(v, 2)) for k, v in spent.items()), key=lambda x: -x[1])[:14]),
        }, indent=1)  # fmt: skip
        print(figures)
        if options.out:
            options.out.write_text(figures + "\n", encoding="utf-8")
        return int(min(wall, cpu / PROCESSORS) > LIMIT_S)


def _watch_files() -> dict[str, float]:
    """Seconds per SQL file, filled while the audit runs."""
    spent: dict[str, float] = {}
    plain = query.rows

    def timed(con, name, /, **parameters):
        began = time.perf_counter()
        try:
            return plain(con, name, **parameters)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

    for module in (query, measure, audit, evidence, identity, learning, agreement, gates):
        if getattr(module, "rows", None) is plain:
            module.rows = timed
    return spent


if __name__ == "__main__":
    sys.exit(main())
