"""A policy behind any OpenAI-compatible server: text in, text out, for every role that is not trained.

Invariant: it gives no token ids and is never trainable; text, served model and usage are taken as the server says
them. What the server does wrong is a typed PolicyError, so that the node is lost to infrastructure and not to a
failure; a refused key or model stops the job in one line. The key is read from the environment, sent in the request's
header and nowhere else.

Options: base_url (instead of MODEL@URL), key_variable (default SERA_POLICY_KEY, then OPENAI_API_KEY), body (further
fields of the request; null takes one out), timeout_s, retries, retry_wait_s, retry_wait_max_s, concurrency.

Run: ``policy: {model: pocket, roles: {writer: "openai:qwen3-32b@http://localhost:8000/v1"}}`` in a collect config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from collect.chat_endpoint import Address, Caller, ChatEndpoint, Reply, read_address
from collect.endpoint_config import EndpointSettings
from collect.policy import (
    Completion,
    Identity,
    Policy,
    PolicyError,
    PolicyMalformed,
    PolicyRateLimited,
    PolicyTimeout,
    PolicyUnavailable,
    Renderer,
    Request,
)
from schemas.words import FinishReason
from sera_data.errors import SeraError, UsageError

ENGINE = "openai"
KEY_VARIABLES = ("SERA_POLICY_KEY", "OPENAI_API_KEY")
SEEDS = 2**31  # some servers hold seeds in 32 bits
FINISH: dict[str | None, FinishReason] = {"stop": "stop", "length": "length"}


class PolicyRefused(SeraError):
    """A server that refuses the key or the model: no request of this policy can succeed."""


class OpenAIOptions(EndpointSettings):
    """Options of the engine (see the module's docstring)."""

    base_url: str | None = Field(default=None, description="URL of the server with its /v1, without a key in it.")


class OpenAIPolicy:
    """One model of one server (see collect.policy.Policy)."""

    trainable = False

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.identity = Identity(name=endpoint.name, engine=ENGINE, version=0)
        self.renderer: Renderer | None = None
        self.endpoint = endpoint

    async def complete(self, request: Request) -> Completion:
        """Ask for one chat completion; raises PolicyError for what the server does wrong."""
        sampling = request.sampling
        fields = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed % SEEDS,
            "top_p": None if sampling.top_p == 1 else sampling.top_p,
        }
        reply = await self.endpoint.request(request.messages, fields)
        if reply.text is None:
            raise _fault(reply)
        if reply.finish_reason not in FINISH:
            msg = f"the server ended the completion with finish_reason {reply.finish_reason!r}, not stop or length"
            raise PolicyMalformed(msg)
        return Completion(
            text=self.endpoint.clean(reply.text),
            completion_ids=None,
            logprobs=None,
            finish_reason=FINISH[reply.finish_reason],
            logprobs_mode="none",
            policy_version=0,
            n_cached=reply.cached_tokens,
            n_prompt=reply.prompt_tokens,
            n_completion=reply.completion_tokens,
            served_model=reply.served_model,
        )

    def release(self, session: str) -> None:
        """Nothing is held for a session."""

    async def close(self) -> None:
        """Close the connections."""
        await self.endpoint.close()


def open_policy(argument: str, *, options: Mapping[str, Any]) -> Policy:
    """`openai:MODEL@URL`, or `openai:MODEL` with option base_url."""
    settings = read_options(options)
    return OpenAIPolicy(ChatEndpoint(read_policy_address(argument, settings), settings=settings, caller=CALLER))


def read_policy_address(argument: str, settings: OpenAIOptions) -> Address:
    """Model and URL; UsageError when neither the spec nor base_url says one, or both do."""
    if settings.base_url is not None and "@http" in argument:
        msg = f"openai:{argument.partition('@http')[0]} has two URLs: in its spec and in option base_url"
        raise UsageError(msg, hint="leave one of them out")
    return read_address(argument, noun=CALLER.noun, keys=KEY_VARIABLES, base_url=settings.base_url)


def read_options(options: Mapping[str, Any]) -> OpenAIOptions:
    """Validated options; UsageError names the key and what is allowed, and never shows what stands in a key's place."""
    try:
        return OpenAIOptions.model_validate(dict(options))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        msg = f"policy option {key!r}: {fault['msg']}"
        hint = f"allowed: {', '.join(sorted(OpenAIOptions.model_fields))}; a key itself comes from the environment"
        raise UsageError(msg, hint=hint) from None


def _fault(reply: Reply) -> PolicyError:
    """The error for a reply without text. What the endpoint has tried again itself is not tried again at once."""
    kinds: dict[str | None, type[PolicyError]] = {
        "rate_limit": PolicyRateLimited,
        "timeout": PolicyTimeout,
        "unavailable": PolicyUnavailable,
    }
    said = reply.error or "no text"
    if reply.fault == "refused" and reply.raw:
        said = f"{said}: {' '.join(reply.raw.split())[:300]}"
    kind = kinds.get(reply.fault, PolicyMalformed)
    return kind(said, lasting=kind is not PolicyMalformed or reply.fault == "refused")


CALLER = Caller("policy", KEY_VARIABLES, PolicyRefused)
