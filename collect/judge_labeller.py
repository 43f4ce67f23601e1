"""Judges as labellers: case, prompt, engine, parser, opinion.

Invariant: one vote is one opinion with the judge's words, the prompt's hash and the request's parameters; what went
wrong is its reason. Votes are repetitions of each other only under equal wording and equal sampling, which the
signature's version names.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any, Protocol

from collect.asking import InfrastructureFault, OutOfTime, ask
from collect.budget import Deadline
from collect.judge import Reply, open_endpoint
from collect.judge_config import JudgeSettings
from collect.judge_prompts import judge_messages, judge_texts_sha256, messages_sha256
from collect.judge_rule import open_rule
from collect.labels import Opinion
from collect.policy import Message, Policy, Request, Sampling
from collect.settings import Budgets
from collect.subject import Case, Subject, case_of
from collect.verdict import parse_verdict
from collect.world import World
from schemas.words import LabelKind
from sera_data.canonical import canonical_json, derive_seed, sha256_json
from sera_data.errors import UsageError

PROTOCOL = 1
SEEDS = 2**31  # some servers hold seeds in 32 bits
SCRIPTS = ("scripted", "known")


class Engine(Protocol):
    """What answers a judge's prompt."""

    name: str

    def parameters(self, seed: int | None) -> dict[str, Any]:
        """What is stored of the request besides its messages."""

    async def answer(self, case: Case, messages: Sequence[Message], *, seed: int | None) -> Reply:
        """One reply."""

    def clean(self, text: str) -> str:
        """A text that was read out of a reply, without secrets and fit to be stored."""

    async def close(self) -> None:
        """Free what it holds."""


class EndpointEngine:
    """An endpoint as an engine: it sees the messages only."""

    def __init__(self, argument: str, *, settings: JudgeSettings) -> None:
        self.endpoint = open_endpoint(argument, settings=settings)
        self.name = self.endpoint.name

    def parameters(self, seed: int | None) -> dict[str, Any]:
        """Model, URL and sampling."""
        return self.endpoint.parameters(seed)

    async def answer(self, case: Case, messages: Sequence[Message], *, seed: int | None) -> Reply:
        """Ask the endpoint."""
        return await self.endpoint.ask(messages, seed=seed)

    def clean(self, text: str) -> str:
        """Without the key and without lone surrogates."""
        return self.endpoint.clean(text)

    async def close(self) -> None:
        """Close its connections."""
        await self.endpoint.close()


class PolicyEngine:
    """Any policy as a judge's engine: the model that plays, or another that runs in this process or on a server.

    owned: whether it is closed with the judge; a policy that serves other roles too is not.
    """

    def __init__(self, policy: Policy, *, settings: JudgeSettings, owned: bool) -> None:
        self.identity, self.name = policy.identity, policy.identity.name
        self._policy, self._settings, self._owned = policy, settings, owned
        self._numbers = itertools.count()

    def parameters(self, seed: int | None) -> dict[str, Any]:
        """Model, version and sampling."""
        return {
            "engine": self.identity.engine,
            "model": self.name,
            "policy_version": self.identity.version,
            "temperature": self._settings.temperature,
            "max_tokens": self._settings.max_tokens,
            "seed": seed,
        }

    async def answer(self, case: Case, messages: Sequence[Message], *, seed: int | None) -> Reply:
        """One completion; a fault of the policy is a reply with its reason."""
        policy, settings, started = self._policy, self._settings, time.monotonic()
        session = f"judge~{next(self._numbers)}"
        prompt = None if policy.renderer is None else policy.renderer.open(messages)
        sampling = Sampling(settings.temperature, settings.max_tokens, seed or 0)
        request = Request("judge", session, messages, prompt, sampling)
        budgets = Budgets(retries=settings.retries, retry_wait_s=settings.retry_wait_s)
        try:
            got = await ask(policy, request, budgets=budgets, deadline=Deadline(settings.timeout_s))
        except InfrastructureFault as fault:
            return Reply(error=str(fault), latency_s=time.monotonic() - started)
        except OutOfTime:
            return Reply(error=f"no reply within {settings.timeout_s:g} s", latency_s=time.monotonic() - started)
        finally:
            policy.release(session)
        cut = got.finish_reason == "length"
        return Reply(
            text=got.text,
            raw=got.text,
            error=f"truncated reply: it reached {settings.max_tokens} tokens" if cut else None,
            prompt_tokens=got.n_prompt if prompt is None else len(prompt),
            cached_tokens=got.n_cached,
            completion_tokens=got.n_completion if got.completion_ids is None else len(got.completion_ids),
            served_model=got.served_model,
            latency_s=time.monotonic() - started,
        )

    def clean(self, text: str) -> str:
        """As it is: the policy has taken its secrets out."""
        return text

    async def close(self) -> None:
        """Close the policy, unless another role has it too."""
        if self._owned:
            await self._policy.close()


class Judge:
    """A labeller of kind judge around an engine."""

    kind: LabelKind = "judge"

    def __init__(self, engine: Engine, *, settings: JudgeSettings) -> None:
        self.engine, self.settings = engine, settings
        self.concurrency = settings.concurrency
        asked = {
            "texts": judge_texts_sha256(),
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "trajectory_chars": settings.trajectory_chars,
            "body": settings.body,
        }
        self.version = f"{PROTOCOL}.{sha256_json(asked)[:8]}"

    def signature(self, world: World[Any]) -> tuple[str, str]:
        """The model's name, and the hash of wording and sampling; the same for every world."""
        return self.engine.name, self.version

    async def label(self, subject: Subject, *, attempt: int) -> Opinion:
        """One vote."""
        case = case_of(subject)
        messages = judge_messages(case, trajectory_chars=self.settings.trajectory_chars)
        seed = self._seed(subject.node_id, attempt)
        reply = await self.engine.answer(case, messages, seed=seed)
        value, reason, error = None, None, reply.error
        if error is None and reply.text is not None:
            try:
                ruling = parse_verdict(reply.text)
            except ValueError as fault:
                error = self.engine.clean(str(fault))
            else:
                value, reason = float(ruling.success), self.engine.clean(ruling.reason)
        details = {"reason": reason, "served_model": reply.served_model, "tries": reply.tries}
        return Opinion(
            value=value,
            error=error,
            details=canonical_json({name: known for name, known in details.items() if known is not None}),
            raw_text=reply.raw,
            prompt_sha256=messages_sha256(messages),
            params=canonical_json(self.engine.parameters(seed)),
            prompt_tokens=reply.prompt_tokens,
            cached_tokens=reply.cached_tokens,
            completion_tokens=reply.completion_tokens,
            latency_s=reply.latency_s,
        )

    async def close(self) -> None:
        """Close the engine."""
        await self.engine.close()

    def _seed(self, node_id: str, attempt: int) -> int | None:
        if self.settings.seed is None:
            return None
        return derive_seed(self.settings.seed, node_id, self.engine.name, attempt) % SEEDS


def open_openai(argument: str, *, settings: JudgeSettings) -> Judge:
    """`openai:MODEL@URL`."""
    return Judge(EndpointEngine(argument, settings=settings), settings=settings)


def open_policy_judge(policy: Policy, *, settings: JudgeSettings, owned: bool) -> Judge:
    """A judge that asks a policy; UsageError for scripts, which play worlds and read no prompts."""
    if policy.identity.engine in SCRIPTS:
        msg = f"{policy.identity.name} is a script and judges nothing"
        raise UsageError(msg, hint="rule:finish and rule:change judge without a model")
    return Judge(PolicyEngine(policy, settings=settings, owned=owned), settings=settings)


def open_rules(argument: str, *, settings: JudgeSettings) -> Judge:
    """`rule:NAME`, without any network."""
    return Judge(open_rule(argument), settings=settings)
