"""What collecting costs beside the engine: a job of the pocket policy against the same calls in one offline batch.

A job plays whole trees (rubrics, forks, scores and commits included) with four times as many trees in flight as the
engine has slots. Then a fresh engine of the same kind answers the very same calls, all handed over at once, calls of
one session in their order: once reusing for each call as many keys and values as the job did (`same reuse`, what the
floor is on), once as many as it can (`free reuse`). All run in this process, one after the other, after a small job
that loads what is loaded once, and are timed by the CPU they use, so a busy machine changes little. Prints completion
tokens per CPU second and the prompt tokens computed; exits with 1 when the job reaches less than FLOOR of the batch.

Run: ``OMP_NUM_THREADS=1 python benchmarks/collect_overhead.py [SLOTS]``
"""

import asyncio
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import sera_data as sd
from collect.config import CollectConfig
from collect.job import claim_job, run_job
from collect.policies import open_policy
from collect.slots import SlotEngine
from collect.tasks import load_tasks
from sera_data.config import load_config

FLOOR = 0.90
REPEATS = 1


class Recorder:
    """A policy that remembers every call and its answer."""

    def __init__(self, inner):
        self.inner, self.identity = inner, inner.identity
        self.renderer, self.trainable = inner.renderer, inner.trainable
        self.calls = []

    async def complete(self, request):
        completion = await self.inner.complete(request)
        self.calls.append((replace(request, facts={}), completion))
        return completion

    def release(self, session):
        self.inner.release(session)

    async def close(self):
        await self.inner.close()


class Frugal(SlotEngine):
    """An engine that reuses for each call no more of its cache than `given[session]` says, call by call."""

    given = None

    def _place(self, job):
        placed = super()._place(job)
        if placed and self.given is not None:
            job.n_cached = min(job.n_cached, self.given[job.session].pop(0))
        return placed


def config_of(slots, trees):
    return load_config(
        CollectConfig,
        Path("configs/pocket_eval.yaml"),
        [
            "policy.model=pocket",
            f"policy.options={{slots: {slots}}}",
            "world.tasks={worlds: 1000-1063, max_tier: 3, n: 96, tier_mix: {1: 0.1, 2: 0.6, 3: 0.3}}",
            f"groups={{execution: {trees // 16}, delegation: {trees // 16}, rubric: {trees // 16}}}",
            "samples=8",
            "sampling.writer={max_tokens: 96}",
            "sampling.scorer={max_tokens: 48, temperature: 0.0}",
            "delegation={k: 8, forks_per_tree: 1}",
            f"concurrency={trees}",
            "groups_per_unit=2",
        ],
    )


def collected(slots, trees):
    """CPU seconds of a job, its calls, and the engine's counters."""
    config = config_of(slots, trees)
    tasks = load_tasks(config)
    recorder = Recorder(open_policy("pocket", options=config.policy.options))
    policies = dict.fromkeys(config.roles(), recorder)
    with tempfile.TemporaryDirectory() as folder:
        store = sd.create(Path(folder) / "store")
        job = claim_job(store, config, tasks=tasks, policies=policies)
        started = time.process_time()
        run_job(store, job, policies=policies, style="terse", quiet=True)
        return time.process_time() - started, recorder.calls, recorder.inner.engine.counters


def batched(slots, calls, *, reuse):
    """CPU seconds of a fresh engine for the same calls, how many ended with the same tokens, and its counters."""
    policy = open_policy("pocket", options={"slots": slots})
    policy.engine.__class__ = Frugal
    sessions = {}
    for request, completion in calls:
        sessions.setdefault(request.session, []).append((request, completion))
    if reuse == "same":
        policy.engine.given = {name: [c.n_cached for _, c in chain] for name, chain in sessions.items()}

    async def answer(request, completion):
        got = await policy.complete(request)
        return got.completion_ids == completion.completion_ids

    async def everything():
        same = await asyncio.gather(*(answer(*call) for chain in sessions.values() for call in chain))
        await policy.close()
        return sum(same)

    started = time.process_time()
    same = asyncio.run(everything())
    return time.process_time() - started, same, policy.engine.counters


def main(slots):
    """Print the figures; 1 when the floor is missed."""
    collected(slots, 16)  # imports and first calls
    best = dict.fromkeys(("job", "same reuse", "free reuse"), float("inf"))
    counters = {}
    for repeat in range(REPEATS):
        seconds, calls, counters["job"] = collected(slots, 4 * slots)
        best["job"] = min(best["job"], seconds)
        for reuse in ("same", "free")[: 2 if repeat == 0 else 1]:
            name = f"{reuse} reuse"
            seconds, same, counters[name] = batched(slots, calls, reuse=reuse)
            best[name] = min(best[name], seconds)
    tokens = sum(len(completion.completion_ids) for _, completion in calls)
    print(
        f"{len(calls)} calls, {tokens:,} completion tokens, {slots} slots, {4 * slots} trees in flight;"
        f" {same} completions are the same in the batch"
    )
    for name, seconds in best.items():
        counted = counters[name]
        print(
            f"{name:<11}{tokens / seconds:7,.0f} tokens per CPU second, {counted.prefilled:,} prompt tokens computed,"
            f" {counted.evictions} evictions, {counted.sampled / counted.steps:.1f} tokens a step"
        )
    ratio = best["same reuse"] / best["job"]
    free = best["free reuse"] / best["job"]
    print(f"job / batch of the same reuse: {ratio:.3f} (floor {FLOOR}); of free reuse: {free:.3f}")
    return 0 if ratio >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 16))
