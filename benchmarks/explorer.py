"""A click in the tree explorer on a sealed store of 1,000,000 nodes, 2,000,000 turns: milliseconds, by kind of click.

A click is the whole answer: the queries and the HTML of the panels. What opening the store costs, once, is printed too.
Exits with 1 when the median of a kind of click is above 300 ms, counted in processor time of one thread where the
machine is busy (the smaller of wall and processor time).
Run: ``python benchmarks/explorer.py [--tasks 8000] [--clicks 20] [--keep DIRECTORY] [--out FILE.json]``
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "tests" / "analysis")]
from simulated_store import sealed_store  # noqa: E402

import sera_data as sd  # noqa: E402
from analysis.explorer import Explorer  # noqa: E402
from analysis.explorer_store import ExplorerStore  # noqa: E402

LIMIT_MS, LAUNCHES, EPOCHS, TURNS = 300.0, 8, 2, 2


def clicks(trees: ExplorerStore, count: int) -> dict[str, list[dict[str, object]]]:
    """Requests of each kind, on trees drawn by chance."""
    draw = random.Random(1)
    total = trees.counts["worst"]
    drawn = []
    for _ in range(count):
        page = trees.delegations(first=draw.randrange(max(1, total)))
        drawn.append(page[0]["delegation_id"])
    launch = [str(name) for name in drawn]
    return {
        "a list by filter": [{"filter": which} for which in ("failed", "mixed", "loops", "all", "worst")],
        "a list by words": [{"filter": "failed", "text": f"m{draw.randrange(8000):06d}"} for _ in range(5)],
        "a delegation of another tree": [{"open": f"delegation:{name}"} for name in launch],
        "a node of another tree": [{"open": f"node:{name}b{draw.randrange(8)}"} for name in reversed(launch)],
        "a node of the open tree": [{"open": f"node:{launch[0]}b{i % 8}"} for i in range(count)],
        "a delegation of the open tree": [{"open": f"delegation:{launch[0]}"} for _ in range(5)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=8000)
    parser.add_argument("--clicks", type=int, default=20)
    parser.add_argument("--keep", type=Path, default=None, help="Make the store here, or use the one that is there.")
    parser.add_argument("--out", type=Path, default=None, help="Write the figures here too, as JSON.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = options.keep or Path(temporary) / "store"
        if not (path / "store.json").exists():
            sealed_store(path, tasks=options.tasks, epochs=EPOCHS, launches=LAUNCHES, seed=1, turns=TURNS)
        store = sd.open(path)
        wall, cpu = time.perf_counter(), time.process_time()
        trees = ExplorerStore(store)
        opened = {"opening_s": round(time.perf_counter() - wall, 2), "processor_s": round(time.process_time() - cpu, 2)}
        explorer = Explorer(trees)
        explorer.start()
        explorer.answer(
            {"open": f"delegation:{trees.delegations()[0]['delegation_id']}"}
        )  # the first reads the footers
        found, slow = {}, False
        for kind, requests in clicks(trees, options.clicks).items():
            times = [_milliseconds(explorer, request) for request in requests]
            walls, cpus = ([round(x, 1) for x in column] for column in zip(*times, strict=True))
            found[kind] = {"wall_ms": statistics.median(walls), "processor_ms": statistics.median(cpus)}
            slow |= min(found[kind].values()) > LIMIT_MS
        rows = {name: store.listing().rows(name) for name in ("nodes", "turns")}
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figures = json.dumps({**rows, **opened, "memory_mb": memory, "click": found}, indent=1)
        print(figures)
        if options.out:
            options.out.write_text(figures + "\n", encoding="utf-8")
        return int(slow)


def _milliseconds(explorer: Explorer, request: dict[str, object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    explorer.answer(request)
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


if __name__ == "__main__":
    sys.exit(main())
