"""What a policy is: token ids in, token ids and logprobs out.

Invariant: a completion returns exactly the ids that were sampled and, one to one, their log-probabilities under the
distribution sampled from. A policy without ids returns None for both and is not trainable. A prompt is given
both as messages (for policies without ids) and as ids (rendered once, append-only; never re-tokenised).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from schemas.words import FinishReason, LogprobsMode, Role


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. An assistant message holds the completion's text exactly."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 = greedy; top_p 1 = off; max_tokens caps the completion; seed makes it repeatable."""

    temperature: float
    max_tokens: int
    seed: int
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """One completion wanted.

    session: cache key, one per node (or per rubric/score call); prompts of a session extend each other.
    messages: whole chat so far. prompt_ids: the same as ids, None for policies without a renderer.
    facts: structured facts for scripted policies only (goal, state, plan, rubric ...); model policies never read them.
    group: the task played; its trees and branches share prompt prefixes, so an engine with replicas keeps it on one.
    """

    role: Role
    session: str
    messages: Sequence[Message]
    prompt_ids: Sequence[int] | None
    sampling: Sampling
    facts: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """text excludes the end token; completion_ids includes it when it was sampled (finish_reason stop).

    n_prompt, n_completion: tokens as a server without ids counts them. served_model: what it says has answered.
    cost: price of the call, None without a price file.
    """

    text: str
    completion_ids: Sequence[int] | None
    logprobs: Sequence[float] | None
    finish_reason: FinishReason
    logprobs_mode: LogprobsMode
    policy_version: int
    n_cached: int | None = None
    n_prompt: int | None = None
    n_completion: int | None = None
    served_model: str | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """What `runs.policies` stores of a policy; hashes are None for scripts."""

    name: str
    engine: str
    version: int
    weights_sha256: str | None = None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None


class Identified(Protocol):
    """Somebody who serves a role, here or in another process."""

    @property
    def identity(self) -> Identity:
        """Who it is."""


class Renderer(Protocol):
    """Chat template as append-only token ids; contents are encoded with special tokens split."""

    def open(self, messages: Sequence[Message]) -> list[int]:
        """Ids of system and user messages plus the start of the assistant's reply (a keyframe prompt)."""

    def append(self, completion_ids: Sequence[int], finish_reason: FinishReason, observation: str) -> list[int]:
        """Ids after a completion: its end token when it was not sampled, a user message, the reply's start."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of completion ids without the end token."""

    def offsets(self, ids: Sequence[int]) -> list[int]:
        """Character length of decode(ids[:k]) for k = 0..len(ids), to map character spans to token spans."""


class Policy(Protocol):
    """A served policy. `renderer` is None for policies without token ids."""

    identity: Identity
    renderer: Renderer | None
    trainable: bool

    async def complete(self, request: Request) -> Completion:
        """Answer one request; many may be in flight. Raises PolicyError for infrastructure faults."""

    def release(self, session: str) -> None:
        """The session will not be continued; its cache may go."""

    async def close(self) -> None:
        """Free the engine."""


class PolicyError(Exception):
    """An infrastructure fault of a policy (engine down, timeout): retried, never trained.

    lasting: the policy has tried again by itself, or knows that trying again is useless.
    """

    def __init__(self, message: str = "", *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class PolicyTimeout(PolicyError):
    """No reply in time."""


class PolicyRateLimited(PolicyError):
    """Too many requests (HTTP 429), however long was waited."""


class PolicyUnavailable(PolicyError):
    """No connection, or an error of the server itself."""


class PolicyMalformed(PolicyError):
    """A reply that is no completion, or a request that the server did not understand."""
