"""The vLLM policy: a model directory served by vLLM's asynchronous engine, token ids in and out.

Invariant: a completion's log-probabilities are those of the distribution sampled from, after temperature and the
directory's vocabulary mask; the end tokens are the renderer's; the version is that of the weights at dispatch, and
weights change only while no request runs. The same prompts, seeds and mask give another engine's log-probabilities to
within rounding, never bit for bit.

Options: see collect.vllm_options.

Run: ``policy: {model: "vllm:DIR"}`` in a collect config; see `collect.hand_over` for new weights between epochs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collect.model_argument import split_argument
from collect.model_files import loading_faults, read_mask
from collect.policy import Completion, Identity, Policy, Renderer, Request, Sampling
from collect.policy_identity import read_identity
from collect.renderer import ChatRenderer
from collect.token_engine import Limits, TokenEngine
from collect.vllm_options import VllmOptions, engine_arguments, installed_kind, read_vllm_options
from schemas.words import LogprobsMode
from sera_data.errors import SeraError, UsageError

ENGINE = "vllm"


class VllmPolicy:
    """One engine, one renderer, shared by all roles (see collect.policy.Policy).

    running: requests in flight. directory: where the weights that the engine holds came from.
    """

    trainable = True

    def __init__(
        self,
        *,
        directory: Path,
        identity: Identity,
        renderer: ChatRenderer,
        engine: TokenEngine,
        mask: list[int] | None,
    ) -> None:
        self.directory = directory
        self.identity = identity
        self.renderer: Renderer | None = renderer
        self.engine = engine
        self.running = 0
        self._renderer = renderer
        self._mask = mask
        self._stops = sorted(renderer.stop_ids)

    async def complete(self, request: Request) -> Completion:
        """Sample one completion together with all other waiting requests; PolicyError when the engine fails."""
        prompt = self._renderer.open(request.messages) if request.prompt_ids is None else request.prompt_ids
        version, mode = self.identity.version, logprobs_mode(request.sampling)
        length = min(self.engine.max_context - len(prompt), request.sampling.max_tokens)
        if length <= 0:
            return Completion("", [], [], "length", mode, version, 0)
        limits = Limits(self._stops, self._mask, length)
        self.running += 1
        try:
            got = await self.engine.generate(prompt, request.sampling, limits, group=request.group)
        finally:
            self.running -= 1
        text = self._renderer.decode(got.ids)
        return Completion(text, got.ids, got.logprobs, got.finish_reason, mode, version, got.n_cached)

    def release(self, session: str) -> None:
        """The prefix cache forgets what was not used for the longest time; nothing is held for a session."""

    async def close(self) -> None:
        """End the engine."""
        await self.engine.close()


def open_policy(argument: str, *, options: Mapping[str, Any]) -> Policy:
    """Load the model directory `argument` (or pocket, pocket:WORLD) into an engine of this process."""
    settings = read_vllm_options(VllmOptions, options)
    directory, urls = split_argument(argument)
    if urls:
        msg = f"vllm:{argument} names servers"
        raise UsageError(msg, hint="write vllm-server:DIR@URL, or leave the URL out")
    kind = installed_kind()
    from collect.vllm_engine import VllmEngine

    renderer, mask = load_frontend(directory, template=settings.template)
    try:
        engine = VllmEngine(engine_arguments(str(directory.resolve()), settings, kind=kind))
    except SeraError:
        raise
    except Exception as error:  # vLLM's own reasons are of many kinds; its log says more
        msg = f"vLLM could not serve {directory}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UsageError(
            msg, hint="its log is above; options memory, cache_gib, context and slots bound what it takes"
        ) from error
    identity = read_identity(directory, engine=ENGINE)
    return VllmPolicy(directory=directory, identity=identity, renderer=renderer, engine=engine, mask=mask)


def load_frontend(directory: Path, *, template: Mapping[str, Any]) -> tuple[ChatRenderer, list[int] | None]:
    """Renderer and vocabulary mask of a model directory."""
    if not (directory / "config.json").is_file():
        msg = f"no config.json in {directory}"
        raise UsageError(msg, hint="name a folder that save_pretrained or `sera learn` wrote, or pocket")
    with loading_faults(directory):
        renderer = ChatRenderer.load(directory, variables=template)
        vocabulary = json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    return renderer, read_mask(directory, vocabulary)


def logprobs_mode(sampling: Sampling) -> LogprobsMode:
    """Processed where the distribution sampled from is the whole one; greedy and nucleus have no ratio to train on."""
    return "processed_logprobs" if sampling.temperature > 0 and sampling.top_p >= 1 else "raw_logprobs"
