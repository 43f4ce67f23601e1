"""What collecting costs beside the engine: a job of the pocket policy against the same calls in one offline batch.

A job plays whole trees (rubrics, forks, scores and commits included) with four times as many trees in flight as the
engine has slots, and six times as many in all as are in flight, so that the last ones, beside which slots stay
empty, are few. Then a fresh engine of the same kind answers the very same calls, all handed over at once, calls of one
session in their order: reusing for each call as many keys and values as the job did (`same reuse`, what the floor is
on), and with `--free` also as many as it can (`free reuse`). All run in this process, after a small job that loads
what is loaded once, and are timed by the CPU they use. On shared cores the very same steps take a fifth more or less
CPU from one minute to the next, so job and batch are run ROUNDS times in turn, each goes first equally often, and the
least of each counts. Both sides sample and decode; rendering, parsing, worlds and the store are the job's alone. Prints
completion tokens per CPU second, the seconds of it in the engine's steps, and the prompt tokens computed; exits with 1
when the job reaches less than FLOOR of the batch.

Run: ``OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/collect_overhead.py [SLOTS] [--free]``; 2 to 7 CPU minutes.
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

FLOOR, ROUNDS, TREES = 0.90, 2, 24


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


class Timed(SlotEngine):
    """An engine that counts the CPU seconds of its steps, and its passes over the model."""

    seconds, passes = 0.0, 0

    def _prefill_batches(self, jobs):
        batches = super()._prefill_batches(jobs)
        self.passes += len(batches)
        return batches

    def _step(self):
        started = time.process_time()
        super()._step()
        self.seconds += time.process_time() - started
        self.passes += 1


class Frugal(Timed):
    """One that reuses for each call no more of its cache than `given[session]` says, call by call."""

    given = None

    def _place(self, job):
        placed = super()._place(job)
        if placed and self.given is not None:
            job.n_cached = min(job.n_cached, self.given[job.session].pop(0))
        return placed


def config_of(slots, trees, flight):
    return load_config(
        CollectConfig,
        Path("configs/pocket_eval.yaml"),
        [
            "policy.model=pocket",
            f"policy.options={{slots: {slots}}}",
            "world.tasks={worlds: 1000-1063, max_tier: 3, n: 96, tier_mix: {1: 0.1, 2: 0.6, 3: 0.3}}",
            f"groups={{execution: {trees // 24}, delegation: {trees // 24}, rubric: {trees // 24}}}",
            "samples=8",
            "sampling.writer={max_tokens: 96}",
            "sampling.scorer={max_tokens: 48, temperature: 0.0}",
            "delegation={k: 8, forks_per_tree: 1}",
            f"concurrency={flight}",
            "groups_per_unit=2",
        ],
    )


def collected(slots, trees, flight):
    """What a job took, and its calls."""
    config = config_of(slots, trees, flight)
    tasks = load_tasks(config)
    recorder = Recorder(open_policy("pocket", options=config.policy.options))
    recorder.inner.engine.__class__ = Timed
    policies = dict.fromkeys(config.roles(), recorder)
    with tempfile.TemporaryDirectory() as folder:
        store = sd.create(Path(folder) / "store")
        job = claim_job(store, config, tasks=tasks, policies=policies)
        started = time.process_time()
        run_job(store, job, policies=policies, style="terse", quiet=True)
        return Took(time.process_time() - started, recorder.inner.engine), recorder.calls


def batched(slots, calls, *, reuse):
    """What a fresh engine took for the same calls, and how many ended with the same tokens."""
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
    return Took(time.process_time() - started, policy.engine), same


class Took:
    """CPU seconds of a run, those in the engine's steps, and what the engine counted."""

    def __init__(self, seconds, engine):
        self.seconds, self.in_steps, self.passes, self.counters = (
            seconds,
            engine.seconds,
            engine.passes,
            engine.counters,
        )


def main(slots, *, free):
    """Print the figures; 1 when the floor is missed."""
    collected(slots, 24, 4 * slots)  # imports and first calls
    runs, calls = {}, []

    def job():
        run, found = collected(slots, TREES * slots, 4 * slots)
        runs.setdefault("job", []).append(run)
        return found

    def batches():
        for reuse in ("same", "free")[: 2 if free else 1]:
            run, same = batched(slots, calls, reuse=reuse)
            runs.setdefault(f"{reuse} reuse", []).append(run)
        return same

    for turn in range(ROUNDS):
        if turn % 2 == 0:
            calls = job()
            same = batches()
        else:
            same = batches()
            job()
    took = {name: min(each, key=lambda run: run.seconds) for name, each in runs.items()}
    tokens = sum(len(completion.completion_ids) for _, completion in calls)
    print(
        f"{len(calls)} calls, {tokens:,} completion tokens, {TREES * slots} trees, {4 * slots} in flight, {slots}"
        f" slots; {same} completions are the same in the batch"
    )
    for name, run in took.items():
        counted = run.counters
        print(
            f"{name:<11}{tokens / run.seconds:7,.0f} tokens per CPU second, {run.seconds:.1f} s,"
            f" {run.in_steps:.1f} s of it in {counted.steps} steps of {run.passes} passes,"
            f" {counted.prefilled:,} prompt tokens computed;"
            f" all turns {', '.join(f'{one.seconds:.1f}' for one in runs[name])} s"
        )
    for name in list(took)[1:]:
        print(f"job / batch of the {name}: {took[name].seconds / took['job'].seconds:.3f} (floor {FLOOR} for the same)")
    return 0 if took["same reuse"].seconds / took["job"].seconds >= FLOOR else 1


if __name__ == "__main__":
    numbers = [part for part in sys.argv[1:] if part != "--free"]
    sys.exit(main(int(numbers[0]) if numbers else 16, free="--free" in sys.argv))
