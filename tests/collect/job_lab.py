"""A small job that scripts play in about a second, for the tests of jobs, commands and evaluations."""

import sera_data as sd
from collect.config import CollectConfig
from collect.job import claim_job, run_job
from collect.policies import open_policies
from collect.tasks import load_tasks
from sera_data.config import load_config

POOL = "world.tasks={worlds: '1000-1003', n: 8, tier_mix: {2: 0.5, 3: 0.5}}"
SMALL = (
    "world.profile=strict",
    POOL,
    "policy.model=scripted:delegating_oracle",
    "groups={execution: 3, delegation: 1, rubric: 2}",
    "samples=2",
    "concurrency=2",
    "delegation.k=3",
    "delegation.forks_per_tree=1",
)


def small_config(*overrides):
    return load_config(CollectConfig, None, [*SMALL, *overrides])


def play(path, config, *, policies=None, part=None, interruption=None, tasks=None):
    """One process of a job; returns (store, job, work)."""
    store = sd.create(path)
    policies = policies or open_policies(config.policy, roles=config.roles())
    job = claim_job(store, config, tasks=tasks or load_tasks(config), policies=policies)
    work = run_job(store, job, policies=policies, style="terse", part=part, interruption=interruption, quiet=True)
    return store, job, work


def sealed_hash(store, job):
    """Seal the job's epoch, verify the store and give the content hash."""
    sd.seal(store, job.plan.name)
    sd.verify(store)
    return sd.content_hash(store, job.plan.name)


class Wrapped:
    """A policy that calls `before(request)` ahead of every completion of another."""

    renderer = None
    trainable = False

    def __init__(self, inner, before):
        self.inner, self.before, self.identity = inner, before, inner.identity
        self.requests = 0

    async def complete(self, request):
        self.requests += 1
        self.before(self)
        return await self.inner.complete(request)

    def release(self, session):
        self.inner.release(session)

    async def close(self):
        await self.inner.close()
