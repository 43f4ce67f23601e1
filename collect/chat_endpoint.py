"""One model behind any OpenAI-compatible endpoint (`POST URL/chat/completions`), for judges and policies alike.

Invariant: the key comes from the environment and leaves it only in the request's header: it is taken out of every text
that is stored, raised or printed. Only 429, 5xx, lost connections and silence are tried again; whatever remains wrong
is a Reply with its reason and its kind, except what makes every request fail (wrong key, no such model), which stops
the work.

Run: ``sera collect --policy openai:qwen3-32b@http://localhost:8000/v1 ...`` or ``sera label --judge`` with the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import Any, Literal
from urllib.parse import urlsplit

from collect.endpoint_config import EndpointSettings
from collect.policy import Message
from sera_data.errors import SeraError, UsageError

LARGEST_BODY = 4 * 2**20
SHOWN_BODY = 2_000
SHORTEST_SECRET = 8  # shorter keys are placeholders such as EMPTY, and ordinary words
LARGEST_COUNT = 2**31 - 1

Fault = Literal["rate_limit", "timeout", "unavailable", "malformed", "refused"]
"""What is wrong with a reply: the last two are not tried again by the endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. text: the assistant's words, None when there are none. raw: what is stored of the reply.

    error: why there is no usable text; fault: its kind. finish_reason: as the endpoint says it. tries: requests sent.
    latency_s: seconds from the first one, waits included. prompt_tokens include cached_tokens.
    """

    text: str | None = None
    raw: str | None = None
    error: str | None = None
    fault: Fault | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    served_model: str | None = None
    tries: int = 1
    latency_s: float | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a model is served: its name there, and the URL with its /v1."""

    model: str
    url: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the word for it in messages, the variables its key is read from, and what a refusal raises."""

    noun: str
    key_variables: tuple[str, ...]
    refusal: type[SeraError]


class _Passing(Exception):
    """A fault that may be gone at the next try; `wait_s` when the endpoint says how long to wait."""

    def __init__(self, reply: Reply, wait_s: float | None = None) -> None:
        super().__init__(reply.error)
        self.reply, self.wait_s = reply, wait_s


class ChatEndpoint:
    """One model behind one URL; at most `settings.concurrency` requests in flight."""

    def __init__(self, address: Address, *, settings: EndpointSettings, caller: Caller) -> None:
        if find_spec("httpx2") is None:  # now, not after hours of play
            msg = "No module named 'httpx2'"
            raise ModuleNotFoundError(msg, name="httpx2")
        own = settings.key_variable
        self.caller = caller if own is None else replace(caller, key_variables=(own,))
        self.name, self.url, self.patience = address.model, address.url, settings
        self._key = key_of_environment(self.caller.key_variables)
        if own is not None and self._key is None:
            msg = f"{own} is not set, but key_variable names it for the {caller.noun} {self.name!r}"
            raise UsageError(msg, hint=f"export {own}=..., or leave key_variable out for a server that wants no key")
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client: Any = None

    def fields(self, sampling: Mapping[str, Any]) -> dict[str, Any]:
        """The request without its messages: sampling, then the settings' own `body`; null takes a field out."""
        fields = {"model": self.name, **sampling, **self.patience.body}
        if "max_completion_tokens" in self.patience.body:  # newer models know only one of the two
            fields.pop("max_tokens", None)
        return {name: value for name, value in fields.items() if value is not None}

    async def request(self, messages: Sequence[Message], sampling: Mapping[str, Any]) -> Reply:
        """One reply. Raises the caller's refusal when the endpoint refuses the key or the model."""
        body = {**self.fields(sampling), "messages": [{"role": m.role, "content": m.content} for m in messages]}
        async with self._slots:
            started, tries = time.monotonic(), 1
            while True:
                try:
                    reply = await self._once(body)
                except _Passing as fault:
                    if tries <= self.patience.retries:
                        await asyncio.sleep(self._wait(tries, fault.wait_s))
                        tries += 1
                        continue
                    plural = "" if tries == 1 else f" ({tries} tries)"
                    reply = replace(fault.reply, error=f"{fault.reply.error}{plural}")
                return replace(reply, tries=tries, latency_s=time.monotonic() - started)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _wait(self, tries: int, asked: float | None) -> float:
        longest = self.patience.retry_wait_max_s
        if asked is not None:
            return min(asked, longest)
        return min(self.patience.retry_wait_s * 2.0 ** (tries - 1), longest) * random.uniform(0.75, 1.25)

    async def _once(self, body: dict[str, Any]) -> Reply:
        import httpx2

        client = self._open_client()  # before the clock starts: it reads certificates
        try:
            async with asyncio.timeout(self.patience.timeout_s):
                status, headers, content = await self._post(client, body)
        except TimeoutError:
            raise _Passing(Reply(error=f"no reply within {self.patience.timeout_s:g} s", fault="timeout")) from None
        except httpx2.TransportError as error:
            raise _Passing(Reply(error=self.clean(f"{type(error).__name__}: {error}"), fault="unavailable")) from None
        except (httpx2.DecodingError, _TooLarge) as error:
            return Reply(error=self.clean(f"unreadable reply: {error}"), fault="malformed")
        if status == 200:
            return self._read(content)
        shown = self.clean(content.decode("utf-8", errors="backslashreplace"))[:SHOWN_BODY]
        failed = Reply(error=f"HTTP {status}", raw=shown or None, fault=_fault_of(status))
        if status == 429 or status >= 500:
            raise _Passing(failed, _seconds(headers.get("retry-after")))
        if status in (401, 403, 404):
            said = f"answers HTTP {status}: {' '.join(shown.split())[:300]}"
            msg = f"the {self.caller.noun} {self.name!r} at {self.url} {said}"
            keys = " or ".join(self.caller.key_variables)
            raise self.caller.refusal(msg, hint=f"check URL and model; the key is read from {keys}")
        return failed

    def _open_client(self) -> Any:
        import httpx2

        if self._client is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            limits = httpx2.Limits(max_connections=self.patience.concurrency)
            self._client = httpx2.AsyncClient(headers=headers, timeout=None, limits=limits)
        return self._client

    async def _post(self, client: Any, body: dict[str, Any]) -> tuple[int, Any, bytes]:
        content = bytearray()
        async with client.stream("POST", f"{self.url}/chat/completions", json=body) as response:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > LARGEST_BODY:
                    raise _TooLarge
        return response.status_code, response.headers, bytes(content)

    def _read(self, content: bytes) -> Reply:
        """The assistant's text in a 200 answer, or why there is none."""
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raw = self.clean(content.decode("utf-8", errors="backslashreplace"))[:SHOWN_BODY]
            fault = f"the reply is not UTF-8: byte {error.start} is 0x{content[error.start]:02x}"
            return Reply(error=fault, raw=raw, fault="malformed")
        raw = self.clean(text)[:SHOWN_BODY]
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            return Reply(error=f"the reply is not JSON: {' '.join(str(error).split())}", raw=raw, fault="malformed")
        try:
            choice = body["choices"][0]
            said = choice["message"]["content"]
        except (KeyError, IndexError, TypeError):
            return Reply(error="the reply is JSON, but no chat completion", raw=raw, fault="malformed")
        reply = self._usage(body)
        reason = choice.get("finish_reason")
        reply = replace(reply, finish_reason=reason if isinstance(reason, str) else None)
        if said is None and reason == "length":  # a model that thought until it was cut off
            said = ""
        if not isinstance(said, str):
            return replace(reply, error="the chat completion holds no text", raw=raw, fault="malformed")
        return replace(reply, text=said, raw=self.clean(said))

    def _usage(self, body: Mapping[str, Any]) -> Reply:
        """Token counts and model of an answer, as far as it tells them."""
        usage = _mapping(body.get("usage"))
        details = _mapping(usage.get("prompt_tokens_details"))
        model = body.get("model")
        return Reply(
            prompt_tokens=_count(usage.get("prompt_tokens")),
            cached_tokens=_count(details.get("cached_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            served_model=self.clean(model) if isinstance(model, str) else None,
        )

    def clean(self, text: str) -> str:
        """The text without the key and without lone surrogates, so that it can be stored and shown."""
        sound = text.encode("utf-8", errors="backslashreplace").decode("utf-8")
        if self._key is None or len(self._key) < SHORTEST_SECRET:
            return sound
        return sound.replace(self._key, "[key]")


class _TooLarge(Exception):
    def __str__(self) -> str:
        return f"longer than {LARGEST_BODY // 2**20} MiB"


def read_address(argument: str, *, noun: str, keys: Sequence[str], base_url: str | None = None) -> Address:
    """The address 'MODEL@URL', or MODEL at `base_url`; the URL with its /v1.

    There is no default URL: nobody sends trajectories to an address that he did not write.
    """
    model, _, rest = argument.rpartition("@http")
    url = f"http{rest}"
    if base_url is not None and not model:
        model, url = argument, base_url
    secret = "@" in url or "://" in model
    if not model or secret or not _plain(url):
        shown = "its URL holds a user or a password, or is none" if secret else f"got {argument!r}"
        msg = f"a {noun} is MODEL@URL with an http(s) URL without user, password and query; {shown}"
        raise UsageError(
            msg, hint=f"openai:qwen3-32b@http://localhost:8000/v1; the key is read from {' or '.join(keys)}"
        )
    return Address(model, url.rstrip("/").removesuffix("/chat/completions"))


def _plain(url: str) -> bool:
    """Whether a URL names a host, and neither a query nor a port that cannot be."""
    try:
        parts = urlsplit(url)
        web = parts.scheme in ("http", "https")
        return web and bool(parts.hostname) and not parts.query and not parts.fragment and parts.port != 0
    except ValueError:  # a port or an address that is none
        return False


def key_of_environment(variables: Sequence[str]) -> str | None:
    """The first key variable that is set, without surrounding blanks; UsageError for one that no header can carry."""
    for variable in variables:
        key = os.environ.get(variable, "").strip()
        if key:
            if not key.isascii() or not key.isprintable() or " " in key:
                msg = f"{variable} holds characters that no key has (blanks, line breaks or non-ASCII letters)"
                raise UsageError(msg)
            return key
    return None


def _seconds(text: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, by number or by date; None for nothing and for nonsense."""
    said = (text or "").strip()
    try:
        return max(0.0, float(said) if said.isdigit() else parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None


def _mapping(value: Any) -> dict[str, Any]:
    """The value where it is a mapping, as it should be; servers send anything."""
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    """A token count as the endpoint says, or None for what cannot be one."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and 0 <= value <= LARGEST_COUNT else None


def _fault_of(status: int) -> Fault:
    if status == 429:
        return "rate_limit"
    return "unavailable" if status >= 500 else "refused"
