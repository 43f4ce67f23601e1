"""The batching engine: many sessions share slots of one key/value cache, every waiting request joins the next step.

Invariants: a request's tokens depend only on its prompt, its sampling settings and its seed, never on what is batched
with it (one uniform per token from a counter hash, inverse CDF); the logprob of a sampled token is the fp32
log-softmax of the whole masked distribution at the sampling temperature; only tokens that a session's slot does not
hold are computed; a session that is not decoding can lose its slot at any time and is prefilled again, so
waiting parents never block children. Who holds a slot goes on first, then trees that began earlier: few trees at a
time use the slots, and use their cache again. Steps run inline on the event loop, so the order is deterministic.

Temperature 0 is greedy; its logprobs are those of the temperature-1 distribution and are marked raw, not
trainable. So are those of a nucleus (top_p < 1), which are of the untruncated distribution.

Run: ``await SlotEngine(decoder, slots=64, stop_ids={2}).generate(session, prompt_ids, sampling)``.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from collect.policy import PolicyError, Sampling
from schemas.words import FinishReason, LogprobsMode

QUIET_ROUNDS = 5  # event-loop rounds without a new request before a step: a tree hops through a few futures
PREFILL_TOKENS = 4096


class Decoder(Protocol):
    """A causal language model with one key/value cache of `slots` rows."""

    max_context: int
    vocab_size: int

    def forward(self, rows: Sequence[Row]) -> Tensor:
        """Write each row's new tokens into its slot; logits (rows, vocabulary) after each row's last token."""


@dataclass(frozen=True, slots=True)
class Row:
    """New tokens of one slot; `start` tokens are already there."""

    slot: int
    start: int
    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Generation:
    """What was sampled: ids one to one with logprobs."""

    ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    logprobs_mode: LogprobsMode
    n_cached: int


@dataclass(slots=True)
class Counters:
    """What the engine has done, for throughput lines and tests."""

    requests: int = 0
    prefilled: int = 0
    sampled: int = 0
    steps: int = 0
    evictions: int = 0


@dataclass(slots=True)
class _Session:
    slot: int
    ids: list[int]
    used: int
    busy: bool = False
    released: bool = False


@dataclass(slots=True, eq=False)
class _Job:
    session: str
    prompt: list[int]
    sampling: Sampling
    future: asyncio.Future[Generation]
    limit: int
    place: tuple[int, int]
    n_cached: int = 0
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class SlotEngine:
    """Continuous batching over a decoder's slots. One engine serves every role of a policy."""

    def __init__(
        self, decoder: Decoder, *, slots: int, stop_ids: Collection[int], allowed: Sequence[int] | None = None
    ) -> None:
        self.decoder = decoder
        self.counters = Counters()
        self._stops = frozenset(stop_ids)
        self._blocked = blocked_mask(decoder.vocab_size, allowed)
        self._free = list(range(slots))[::-1]
        self._sessions: dict[str, _Session] = {}
        self._trees: dict[str, int] = {}
        self._waiting: list[_Job] = []
        self._asked: dict[str, list[_Job]] = {}  # the same jobs by session
        self._starting: list[_Job] = []
        self._active: list[_Job] = []
        self._clock = itertools.count()
        self._task: asyncio.Task[None] | None = None

    async def generate(self, session: str, prompt: Sequence[int], sampling: Sampling) -> Generation:
        """Sample a completion of `prompt`; requests of one session run one after another."""
        room = self.decoder.max_context - len(prompt)
        mode: LogprobsMode = "processed_logprobs" if _trainable(sampling) else "raw_logprobs"
        if room <= 0 or sampling.max_tokens <= 0:
            return Generation([], [], "length", mode, 0)
        loop = asyncio.get_running_loop()
        place = self._trees.setdefault(_tree(session), len(self._trees)), self.counters.requests
        job = _Job(session, list(prompt), sampling, loop.create_future(), min(room, sampling.max_tokens), place)
        insort(self._waiting, job, key=_order)
        self._asked.setdefault(session, []).append(job)
        self.counters.requests += 1
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._drop_dead(loop)
            self._task = loop.create_task(self._run())
        return await job.future

    def release(self, session: str) -> None:
        """Give the session's slot back (after its running request, if one is)."""
        held = self._sessions.get(session)
        if held is None:
            return
        if held.busy:
            held.released = True
        else:
            self._free.append(self._sessions.pop(session).slot)

    async def close(self) -> None:
        """Stop; running requests fail with PolicyError."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._waiting or self._active:
                await self._settle()
                self._step()
        except asyncio.CancelledError:
            self._fail("the engine was closed")
            raise
        except Exception as error:  # whatever it is, no request may wait for ever: each of them raises
            self._fail(f"{type(error).__name__}: {error}")

    async def _settle(self) -> None:
        """Let every runnable coroutine reach its next request, so that it joins this step."""
        quiet, seen = 0, self.counters.requests
        while quiet < QUIET_ROUNDS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.counters.requests == seen else 0
            seen = self.counters.requests

    @torch.inference_mode()
    def _step(self) -> None:
        self.counters.steps += 1
        for job in [j for j in self._active if j.future.done()]:  # cancelled by its tree
            self._active.remove(job)
            self._settle_session(job)
        self._starting = self._admit()
        for rows, jobs in self._prefill_batches(self._starting):
            self._sample(jobs, self.decoder.forward(rows))
            self._active += [j for j in jobs if not j.future.done()]
        self._starting = []
        if self._active:
            rows = [self._next_row(job) for job in self._active]
            self._sample(self._active, self.decoder.forward(rows))
            self._active = [j for j in self._active if not j.future.done()]

    def _admit(self) -> list[_Job]:
        """Waiting jobs that get a slot now: those whose session holds one, then by tree, then in order of arrival."""
        nexts = [self._next_of(name) for name, held in self._sessions.items() if not held.busy]
        admitted = [job for job in sorted(filter(None, nexts), key=_order) if self._place(job)]
        room, gone = len(self._free) + sum(not held.busy for held in self._sessions.values()), []
        for job in self._waiting:  # as far as there is room: thousands may wait
            if not room:
                break
            if job.future.done():  # cancelled by its tree
                gone.append(job)
            elif job.session not in self._sessions and self._place(job):
                admitted.append(job)
                room -= 1
        for job in [*admitted, *gone]:
            self._forget(job)
        return admitted

    def _next_of(self, session: str) -> _Job | None:
        """The job of a session that came first and still waits."""
        for job in list(self._asked.get(session, ())):
            if not job.future.done():
                return job
            self._forget(job)
        return None

    def _forget(self, job: _Job) -> None:
        """Take a job out of the queue."""
        del self._waiting[bisect_left(self._waiting, _order(job), key=_order)]
        asked = self._asked[job.session]
        asked.remove(job)
        if not asked:
            del self._asked[job.session]

    def _place(self, job: _Job) -> bool:
        held = self._sessions.get(job.session)
        if held is not None and held.busy:
            return False
        if held is None:
            slot = self._free.pop() if self._free else self._evict()
            if slot is None:
                return False
            held = self._sessions[job.session] = _Session(slot, [], 0)
        held.busy, held.used = True, next(self._clock)
        job.n_cached = _common(held.ids, job.prompt[:-1])
        return True

    def _evict(self) -> int | None:
        idle = [(s.used, name) for name, s in self._sessions.items() if not s.busy]
        if not idle:
            return None
        self.counters.evictions += 1
        return self._sessions.pop(min(idle)[1]).slot

    def _prefill_batches(self, jobs: list[_Job]) -> list[tuple[list[Row], list[_Job]]]:
        """Rows of similar length together, at most PREFILL_TOKENS padded tokens in one forward."""
        batches: list[tuple[list[Row], list[_Job]]] = []
        for job in sorted(jobs, key=lambda j: len(j.prompt) - j.n_cached):
            held = self._sessions[job.session]
            start = job.n_cached
            self.counters.prefilled += len(job.prompt) - start
            while len(job.prompt) - start > PREFILL_TOKENS:
                self.decoder.forward([Row(held.slot, start, job.prompt[start : start + PREFILL_TOKENS])])
                start += PREFILL_TOKENS
            row = Row(held.slot, start, job.prompt[start:])
            held.ids = list(job.prompt)
            if batches and (len(batches[-1][0]) + 1) * len(row.ids) <= PREFILL_TOKENS:
                batches[-1][0].append(row)
                batches[-1][1].append(job)
            else:
                batches.append(([row], [job]))
        return batches

    def _next_row(self, job: _Job) -> Row:
        held = self._sessions[job.session]
        row = Row(held.slot, len(held.ids), job.ids[-1:])
        held.ids.append(job.ids[-1])
        return row

    def _sample(self, jobs: Sequence[_Job], logits: Tensor) -> None:
        ids, logprobs = sample(logits, self._blocked, [j.sampling for j in jobs], [len(j.ids) for j in jobs])
        self.counters.sampled += len(jobs)
        for job, token, logprob in zip(jobs, ids, logprobs, strict=True):
            job.ids.append(token)
            job.logprobs.append(logprob)
            if token in self._stops:
                self._finish(job, "stop")
            elif len(job.ids) >= job.limit:
                self._finish(job, "length")

    def _finish(self, job: _Job, reason: FinishReason) -> None:
        self._settle_session(job)
        mode: LogprobsMode = "processed_logprobs" if _trainable(job.sampling) else "raw_logprobs"
        if not job.future.done():
            job.future.set_result(Generation(job.ids, job.logprobs, reason, mode, job.n_cached))

    def _settle_session(self, job: _Job) -> None:
        held = self._sessions[job.session]
        held.busy = False
        if held.released:
            self._free.append(self._sessions.pop(job.session).slot)

    def _fail(self, reason: str) -> None:
        jobs = [*self._active, *self._starting, *self._waiting]
        self._active, self._starting, self._waiting, self._asked = [], [], [], {}
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(PolicyError(f"the engine stopped: {reason}"))
        for name in [n for n, s in self._sessions.items() if s.busy]:  # their slots may be half written
            self._free.append(self._sessions.pop(name).slot)

    def _drop_dead(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget requests of an event loop that is gone."""
        for job in self._active:
            self._settle_session(job)
        self._active = []
        for job in [j for j in self._waiting if j.future.get_loop() is not loop]:
            self._forget(job)


def sample(
    logits: Tensor, blocked: Tensor | None, samplings: Sequence[Sampling], indices: Sequence[int]
) -> tuple[list[int], list[float]]:
    """One token and its logprob per row: fp32 log-softmax, then inverse CDF in float64 at the row's own uniform."""
    scores = logits.float()
    if blocked is not None:
        scores = scores.masked_fill(blocked.to(scores.device), float("-inf"))
    temperatures = [s.temperature if s.temperature > 0 else 1.0 for s in samplings]
    if any(t != 1.0 for t in temperatures):
        scores = scores / torch.tensor(temperatures, device=scores.device).unsqueeze(1)
    logprobs = torch.log_softmax(scores, dim=-1)
    probabilities = logprobs.double().exp()
    if any(s.top_p < 1 for s in samplings):
        probabilities = _nucleus(probabilities, [s.top_p for s in samplings])
    cumulated = probabilities.cumsum(-1)
    draws = [uniform(s.seed, i) for s, i in zip(samplings, indices, strict=True)]
    points = torch.tensor(draws, dtype=torch.float64, device=scores.device).unsqueeze(1) * cumulated[:, -1:]
    chosen = torch.searchsorted(cumulated, points, right=True)  # right: a token of probability 0 is never hit
    if any(s.temperature <= 0 for s in samplings):
        greedy = torch.tensor([s.temperature <= 0 for s in samplings], device=scores.device).unsqueeze(1)
        chosen = torch.where(greedy, logprobs.argmax(-1, keepdim=True), chosen)
    return chosen.squeeze(1).tolist(), logprobs.gather(1, chosen).squeeze(1).tolist()


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) from (seed, token index): the splitmix64 generator used as a counter hash."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def blocked_mask(vocab_size: int, allowed: Sequence[int] | None) -> Tensor | None:
    """True for ids that may not be sampled; None when all may."""
    if allowed is None:
        return None
    mask = torch.ones(vocab_size, dtype=torch.bool)
    mask[torch.tensor(list(allowed))] = False
    return mask


def _nucleus(probabilities: Tensor, masses: Sequence[float]) -> Tensor:
    """Zero outside the smallest set of tokens whose mass reaches top_p; the best token always stays."""
    ordered, order = probabilities.sort(-1, descending=True)
    limit = torch.tensor(masses, dtype=torch.float64, device=probabilities.device).unsqueeze(1)
    kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= limit, 0.0)
    return torch.zeros_like(probabilities).scatter(1, order, kept)


def _trainable(sampling: Sampling) -> bool:
    return sampling.temperature > 0 and sampling.top_p >= 1


def _order(job: _Job) -> tuple[int, int]:
    """What waiting jobs are sorted by: the age of their tree, then their own."""
    return job.place


def _tree(session: str) -> str:
    """The tree of a session: ids of its nodes and delegations begin with its own."""
    return session.partition("/")[0]


def _common(held: Sequence[int], prompt: Sequence[int]) -> int:
    """Length of the common beginning."""
    for i, (a, b) in enumerate(zip(held, prompt, strict=False)):
        if a != b:
            return i
    return min(len(held), len(prompt))
