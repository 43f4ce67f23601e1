"""A refresh of many stored branches: is its memory independent of how much the store holds?

Scripts play two stores of forked delegations, one of a tenth of the branches; the rubrics and scores of each are then
written again in a process of its own. Prints branches per second of processor time, and how far the peak memory of each
process (VmHWM) rises above what it held before; exits 1 when ten times the branches raise it by more than half.

Run: ``python benchmarks/refresh.py [--branches 10000] [--keep DIRECTORY] [--k 1] [--out FILE.json]``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import sera_data as sd
from collect.config import CollectConfig
from collect.job import claim_job, run_job
from collect.policies import open_policies, open_policy, policy_hash
from collect.refresh_config import RefreshConfig
from collect.refresh_job import run_refresh
from collect.tasks import load_tasks
from sera_data.config import load_config

TEACHER = "scripted:teacher"
BRANCHES, SAMPLES = 8, 8
RATIO = 1.5
SETTINGS = (
    "world.profile=strict",
    f"policy.model={TEACHER}",
    "policy.options={slips: {0.0: 0.5, 0.45: 0.5}, delegate: 1.0}",
    f"samples={SAMPLES}",
    f"delegation.k={BRANCHES}",
    "delegation.forks_per_tree=2",
    "groups_per_unit=2",
)
PER_GROUP = 100
"""Stored branches that a group gives, less than it does: more are played until there are enough."""


def play(path: Path, wanted: int) -> sd.Store:
    """A store with at least `wanted` branches of complete forked delegations."""
    store = sd.create(path)
    while (there := stored(store)) < wanted:
        groups = max(1, (wanted - there) // PER_GROUP)
        seed = len(store.sealed_names())
        tasks = f"world.tasks={{worlds: '{1000 + 40 * seed}-{1039 + 40 * seed}', n: {groups}, tier_mix: {{2: 1.0}}}}"
        config = load_config(CollectConfig, None, [*SETTINGS, tasks, f"groups={{rubric: {groups}}}"])
        policies = open_policies(config.policy, roles=config.roles())
        job = claim_job(store, config, tasks=load_tasks(config), policies=policies)
        run_job(store, job, policies=policies, style="terse", quiet=True)
        sd.seal(store, job.plan.name)
    return store


def stored(store: sd.Store) -> int:
    """Branches that a refresh judges."""
    return store.sql("select count(*) from branches where k > 1 and complete").fetchall()[0][0]


def refresh(path: Path, k: int, answer) -> None:
    """Refresh every branch of a store and send the figures: run in a process of its own."""
    store = sd.open(path)
    policies = {role: open_policy(TEACHER) for role in ("writer", "scorer")}
    values = {"work": "rubrics", "writer": TEACHER, "scorer": TEACHER, "only": "complete", "k": k}
    config = RefreshConfig(**values, served=policy_hash(policies))
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak counts from here on
    started = time.process_time()
    summary = run_refresh(store, config, policies, quiet=True)
    seconds = time.process_time() - started
    counts = dict(summary.counts)
    answer.send({"cpu_s": seconds, "before_mib": before, "rise_mib": status("VmHWM") - before, **counts})


def status(name: str) -> float:
    """One figure of this process in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def measured(store: sd.Store, k: int) -> dict[str, float]:
    """The figures of one store."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=refresh, args=(store.path, k, theirs))
    process.start()
    theirs.close()
    figures = ours.recv()
    process.join()
    branches = stored(store)
    return {"branches": branches, "branches_per_cpu_s": round(branches / figures["cpu_s"], 1), **figures}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--branches", type=int, default=10_000)
    parser.add_argument("--k", type=int, default=1, help="rubrics written for each delegation")
    parser.add_argument("--keep", type=Path, help="directory of the two stores, made where they are not there")
    parser.add_argument("--out", type=Path, help="write the figures here too, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = []
        for wanted in (options.branches // 10, options.branches):
            path = (options.keep or Path(temporary)) / f"store{wanted}"
            started = time.process_time()
            store = sd.open(path) if (path / "store.json").exists() else sd.create(path)
            store = store if stored(store) >= wanted else play(path, wanted)
            print(f"{stored(store)} branches, played in {time.process_time() - started:.1f} s of processor time")
            found.append(measured(store, options.k))
            print(json.dumps({name: round(value, 2) for name, value in found[-1].items()}))
    ratio = found[1]["rise_mib"] / found[0]["rise_mib"]
    size = found[1]["branches"] / found[0]["branches"]
    print(f"{size:.1f} times the branches: {ratio:.2f} times the memory (at most {RATIO})")
    if options.out:
        options.out.write_text(json.dumps({"stores": found, "ratio": ratio}, indent=1) + "\n", encoding="utf-8")
    return int(ratio > RATIO)


if __name__ == "__main__":
    sys.exit(main())
