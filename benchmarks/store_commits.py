"""Ten-table commits per second with 8 writer processes: this store against Delta Lake, in the same run.

Both get the same rows as Python dicts, 20 per table, and make them visible to readers. The store checks every row,
writes all ten tables of a unit and publishes them by one rename, with fsync. Delta Lake appends to ten tables, one
transaction each, because it has no transaction over tables. Exit code 1 when the ratio is below 10.

Run: ``python benchmarks/store_commits.py [--seconds 12] [--writers 8]``  (needs deltalake)
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

import sera_data as sd
from schemas import TABLES
from tests.sera_data.small_store import task_id, unit_rows

WANTED = 10.0
ROWS = 20
EPOCH = {"run_id": "bench-1", "epoch": 0}


def rows_of_unit(number: int) -> dict[str, list[dict]]:
    """About 20 rows for each of the ten tables; keys differ from unit to unit."""
    rows = unit_rows(task_id(number), samples=2, k=8, run_id="bench-1")
    rows["tasks"] = [{**rows["tasks"][0], "task_id": f"{task_id(number)}{i}"} for i in range(ROWS)]
    rows["updates"] = [update(number, i) for i in range(ROWS)]
    rows["evals"] = [evaluation(number, i) for i in range(ROWS)]
    return {
        name: rows[name][:ROWS] if name != "turns" else keyframes(rows[name])[:ROWS] for name in TABLES if name in rows
    }


def keyframes(turns: list[dict]) -> list[dict]:
    return [t for t in turns if t["base_turn"] is None]


def update(number: int, index: int) -> dict:
    words = {"stage": "execution", "method": "sera", "loss_kind": "cispo", "skip_reason": "none", "credit_sha256": "c"}
    counts = dict.fromkeys(("version_in", "version_out", "n_groups_dropped", "n_datums", "n_tokens"), 1)
    return {
        **words,
        **counts,
        "update": number * ROWS + index,
        "attempt": 0,
        "group_ids": [],
        "datum_ids": [],
        "n_trained_tokens": 1,
        "plan_sha256": "p",
        "snapshot_sha256": "s",
    }


def evaluation(number: int, index: int) -> dict:
    words = {"protocol": "val", "policy": "p", "difficulty": "easy", "outcome": "finished"}
    counts = dict.fromkeys(("n_turns", "n_nodes", "n_prompt_tokens", "n_completion_tokens", "n_delegations"), 1)
    key = {"policy_version": 0, "task_id": task_id(number), "sample": index}
    return {**words, **counts, **key, "temperature": 1.0, "success": True}


def write_store(path: Path, worker: int, seconds: float, ready: Barrier, done: multiprocessing.Queue) -> None:
    store = sd.open(path)
    plan = sd.read_plan(store, "e000000")
    samples = [rows_of_unit(worker * 100 + i) for i in range(4)]
    commits = 0
    ready.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with sd.ShardWriter(store, plan, f"w{worker}-{commits:05d}") as writer:
            for table, rows in samples[commits % 4].items():
                writer.extend(table, rows)
            writer.commit()
        commits += 1
    done.put(commits)


def write_delta(path: Path, worker: int, seconds: float, ready: Barrier, done: multiprocessing.Queue) -> None:
    from deltalake import write_deltalake

    samples = [rows_of_unit(worker * 100 + i) for i in range(4)]
    commits = 0
    ready.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for table, rows in samples[commits % 4].items():
            write_deltalake(str(path / table), delta_table(table, rows, worker, commits), mode="append")
        commits += 1
    done.put(commits)


def delta_table(table: str, rows: list[dict], worker: int, commits: int) -> pa.Table:
    schema = pa.schema([pa.field(c.name, c.type) for c in TABLES[table].columns])
    provenance = {**EPOCH, "shard_id": f"w{worker}-{commits}"}
    return pa.Table.from_pylist([{**provenance, **row} for row in rows], schema=schema)


def measure(write, path: Path, writers: int, seconds: float) -> float:
    """Commits per second over all writers; a commit that began in time counts, and so does the time it took."""
    context = multiprocessing.get_context("spawn")
    done, ready = context.Queue(), context.Barrier(writers + 1)
    workers = [context.Process(target=write, args=(path, w, seconds, ready, done)) for w in range(writers)]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.monotonic()
    commits = sum(done.get(timeout=600) for _ in workers)
    took = time.monotonic() - start
    for worker in workers:
        worker.join()
    return commits / took


def prepare(place: Path, writers: int) -> tuple[Path, Path]:
    from deltalake import write_deltalake

    store = sd.create(place / "store")
    units = [{"unit_id": f"w{w}-{i:05d}"} for w in range(writers) for i in range(2_000)]
    sd.claim_plan(store, run_id="bench-1", phase="collect", config_hash="c", units=units)
    for table, rows in rows_of_unit(0).items():
        write_deltalake(str(place / "delta" / table), delta_table(table, rows, 0, 0))
    return store.path, place / "delta"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--writers", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        store, delta = prepare(Path(place), options.writers)
        theirs = measure(write_delta, delta, options.writers, options.seconds)
        ours = measure(write_store, store, options.writers, options.seconds)
    print(f"{options.writers} writers, ten tables of {ROWS} rows per commit")
    print(f"  Delta Lake   {theirs:8.2f} commits/s (not atomic over tables)")
    print(f"  this store   {ours:8.2f} commits/s (atomic, checked, fsynced)")
    print(f"  ratio        {ours / theirs:8.1f} x   wanted: at least {WANTED:g}")
    return 0 if ours / theirs >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
