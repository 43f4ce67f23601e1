"""The vLLM policy over HTTP: token ids to and from one or several servers of vLLM.

Invariant: what a completion holds is the same as in process: ids as sampled, processed log-probabilities, the
directory's mask and end tokens. A server that cannot give that (raw log-probabilities, no token ids, another model's
vocabulary) is refused when the policy is opened. All requests of a task go to one server.

The servers hold the directory's weights; this process reads only its tokenizer, template, mask and hashes. Options: see
collect.vllm_options. A key comes from SERA_POLICY_KEY or VLLM_API_KEY.

Run: ``python -m vllm.entrypoints.openai.api_server --model DIR --logprobs-mode processed_logprobs
--enable-prompt-tokens-details --port 8000``, then ``policy: {model: "vllm-server:DIR@http://host:8000"}``.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from collect.model_argument import split_argument
from collect.policy import Policy, PolicyMalformed, PolicyTimeout, PolicyUnavailable, Sampling
from collect.policy_identity import read_identity
from collect.replicas import Replicas
from collect.token_engine import Answer, Limits
from collect.vllm_options import ServerOptions, read_vllm_options
from collect.vllm_policy import VllmPolicy, load_frontend
from schemas.words import FinishReason
from sera_data.errors import UsageError

ENGINE = "vllm-server"
KEYS = ("SERA_POLICY_KEY", "VLLM_API_KEY")
FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort"}
START = "python -m vllm.entrypoints.openai.api_server --model DIR --logprobs-mode processed_logprobs"
OPENING_S = 30.0


class VllmServers:
    """Servers of one model (see collect.token_engine.TokenEngine)."""

    def __init__(self, urls: Sequence[str], *, options: ServerOptions, model: str, max_context: int) -> None:
        self.max_context = max_context
        self.replicas = Replicas(urls)
        self._options = options
        self._model = model
        self._places = {url: asyncio.Semaphore(options.in_flight) for url in urls}
        self._client: Any = None

    async def generate(self, prompt: Sequence[int], sampling: Sampling, limits: Limits, *, group: str) -> Answer:
        """Ask the group's server; PolicyUnavailable when it is down, and then its groups go to others."""
        url = self.replicas.of(group)
        body = completion_body(self._model, prompt, sampling, limits)
        async with self._places[url]:
            reply = await self._post(url, "/v1/completions", body)
        return read_answer(reply, prompt)

    async def score(self, prompt: Sequence[int]) -> list[float]:
        """Log-probability of every token of `prompt` after the first, from the first server."""
        body = {"model": self._model, "prompt": list(prompt), "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        reply = await self._post(self.replicas.names[0], "/v1/completions", body)
        try:
            steps = reply["choices"][0]["prompt_logprobs"][1:]
            return [float(step[str(token)]["logprob"]) for token, step in zip(prompt[1:], steps, strict=True)]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            msg = f"no prompt log-probabilities in the server's reply ({type(error).__name__}: {error})"
            raise PolicyMalformed(msg, lasting=True) from None

    async def take_weights(self, directory: Path) -> float:
        """New weights on every server, from a path that they see too; they run with VLLM_SERVER_DEV_MODE=1."""
        gaps = []
        call = {"method": "take_weights", "kwargs": {"directory": str(directory.resolve())}}
        for url in self.replicas.names:
            reply = await self._post(url, "/collective_rpc", call)
            emptied = await self._post(url, "/reset_prefix_cache", None)
            try:
                gaps += [float(gap) for gap in reply["results"]]
                done = emptied["success"] is True
            except (KeyError, TypeError, ValueError) as error:
                msg = f"{url} did not say what came of the new weights ({type(error).__name__}: {error})"
                raise PolicyMalformed(msg, lasting=True) from None
            if not done:
                msg = f"{url} did not empty its prefix cache: requests of others still run there"
                raise PolicyUnavailable(msg, lasting=True)
        return max(gaps)

    async def close(self) -> None:
        """Close the connections; requests that still run end with them."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _post(self, url: str, path: str, body: Any) -> Any:
        import httpx2

        if self._client is None:
            limits = httpx2.Limits(max_connections=None)
            self._client = httpx2.AsyncClient(headers=_headers(), timeout=None, limits=limits)
        try:
            async with asyncio.timeout(self._options.timeout_s):
                reply = await self._client.post(url + path, json=body)
        except TimeoutError:
            msg = f"{url} did not answer within {self._options.timeout_s:g} s"
            raise PolicyTimeout(msg) from None
        except httpx2.TransportError as error:
            self.replicas.failed(url)
            msg = f"{url}: {type(error).__name__}: {error}"
            raise PolicyUnavailable(msg) from error
        if reply.status_code >= 500:
            self.replicas.failed(url)
            msg = f"{url}{path} answered {reply.status_code}: {_shown(reply)}"
            raise PolicyUnavailable(msg)
        if reply.status_code >= 400:
            msg = f"{url}{path} answered {reply.status_code}: {_shown(reply)}"
            raise PolicyMalformed(msg, lasting=True)
        return reply.json() if reply.content else {}


def completion_body(model: str, prompt: Sequence[int], sampling: Sampling, limits: Limits) -> dict[str, Any]:
    """The request for one completion. Everything that a server could have a default for is said."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": limits.length,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": sampling.seed,
        "logprobs": 0,
        "return_token_ids": True,
        "stop_token_ids": list(limits.stop_ids),
        "ignore_eos": True,
        "add_special_tokens": False,
        "skip_special_tokens": False,
        "stream": False,
    }
    if limits.allowed is not None:
        body["allowed_token_ids"] = list(limits.allowed)
    return body


def read_answer(reply: Any, prompt: Sequence[int]) -> Answer:
    """The completion in a server's reply; PolicyMalformed when ids or log-probabilities are not what was asked for."""
    try:
        choice = reply["choices"][0]
        ids = [int(token) for token in choice["token_ids"]]
        logprobs = [float(value) for value in choice["logprobs"]["token_logprobs"]]
        seen = choice.get("prompt_token_ids")
        finish = FINISH[choice["finish_reason"]]
        details = (reply.get("usage") or {}).get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        msg = f"the server's reply is no completion with token ids ({type(error).__name__}: {error})"
        raise PolicyMalformed(msg, lasting=True) from None
    if len(ids) != len(logprobs) or not all(map(math.isfinite, logprobs)):
        msg = f"the server's reply has {len(ids)} token ids and {len(logprobs)} log-probabilities, or not finite ones"
        raise PolicyMalformed(msg, lasting=True)
    if seen is not None and list(seen) != list(prompt):
        msg = f"the server read another prompt than was sent: {len(seen)} tokens instead of {len(prompt)}"
        raise PolicyMalformed(msg, lasting=True)
    return Answer(ids, logprobs, finish, None if cached is None else int(cached))


def open_policy(argument: str, *, options: Mapping[str, Any]) -> Policy:
    """`vllm-server:DIR@URL,URL,...`; every server is asked once what it is and what it returns."""
    settings = read_vllm_options(ServerOptions, options)
    directory, urls = split_argument(argument)
    if not urls:
        msg = f"vllm-server:{argument} names no server"
        raise UsageError(msg, hint="write vllm-server:DIR@http://host:8000, more URLs after commas")
    renderer, mask = load_frontend(directory, template=settings.template)
    token = min(renderer.stop_ids)
    models = [_probe(url, token, settings.model) for url in urls]
    if len({name for name, _ in models}) > 1:
        msg = f"the servers serve different models: {', '.join(sorted({name for name, _ in models}))}"
        raise UsageError(msg, hint="start all of them with one --served-model-name")
    engine = VllmServers(urls, options=settings, model=models[0][0], max_context=min(room for _, room in models))
    identity = read_identity(directory, engine=ENGINE)
    return VllmPolicy(directory=directory, identity=identity, renderer=renderer, engine=engine, mask=mask)


def _probe(url: str, token: int, wanted: str | None) -> tuple[str, int]:
    """Served name and longest context of a server; UsageError when it cannot serve a trainable policy.

    A completion from which only one token may come has processed log-probability 0 and a raw one below.
    """
    import httpx2

    try:
        with httpx2.Client(headers=_headers(), timeout=OPENING_S) as client:
            listed = client.get(f"{url}/v1/models")
            models = {m["id"]: m for m in listed.raise_for_status().json()["data"]}
            name = wanted or next(iter(models))
            if name not in models:
                msg = f"{url} does not serve {name!r}; it serves {', '.join(models)}"
                raise UsageError(msg, hint="set the option model to one of them")
            body = completion_body(name, [token], Sampling(1.0, 1, 0), Limits([token], [token], 1))
            reply = client.post(f"{url}/v1/completions", json=body)
            if reply.status_code != 200:
                msg = f"{url} refuses token ids: {reply.status_code}: {_shown(reply)}"
                raise UsageError(msg, hint=START)
            answer = read_answer(reply.json(), [token])
            context = int(models[name]["max_model_len"])
    except (httpx2.HTTPError, KeyError, ValueError, StopIteration) as error:
        msg = f"no server of vLLM at {url}: {type(error).__name__}: {error}"
        raise UsageError(msg, hint=START) from None
    except PolicyMalformed as error:
        msg = f"{url}: {error}"
        raise UsageError(msg, hint=START) from None
    if answer.logprobs[0] < -1e-4:
        msg = f"{url} returns raw log-probabilities, before mask and temperature; no ratio could be trained on them"
        raise UsageError(msg, hint=START)
    return name, context


def _headers() -> dict[str, str]:
    key = next((os.environ[name] for name in KEYS if os.environ.get(name)), None)
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _shown(reply: Any) -> str:
    return " ".join(reply.text.split())[:300]
