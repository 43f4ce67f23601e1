"""The embedded policy: a model directory served in this process by the slot engine.

Invariant: weights load in an explicit dtype (fp32 on CPUs); the vocabulary mask of the directory is applied before the
softmax of every token; what is stored as identity are the hashes of the files that were loaded.

Options: device (cpu), dtype (float32 on cpu, bfloat16 on cuda), slots (64), context (the model's own), forward
(auto | qwen3 | transformers; auto takes the small hand-written pass for dense Qwen3 on CPUs), template (variables for
the chat template, for example {enable_thinking: false}).

Run: ``policy: {model: "transformers:DIR"}`` or ``policy: {model: pocket}`` in a collect config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from collect.model_argument import SHIPPED, pocket_directory
from collect.model_files import loading_faults, read_mask
from collect.policy import Completion, Identity, Policy, Renderer, Request
from collect.policy_directory import read_policy_directory
from collect.policy_identity import read_identity
from collect.qwen3 import Qwen3Decoder, supported
from collect.renderer import ChatRenderer
from collect.slots import Decoder, Row, SlotEngine
from sera_data.config import Config
from sera_data.errors import UsageError

ENGINE = "transformers"
POCKETS = SHIPPED
POCKET = POCKETS["textcraft"]


class EngineOptions(Config):
    """Options of the engine (see the module's docstring)."""

    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    slots: int = Field(default=64, ge=1, le=4096)
    context: int | None = Field(default=None, ge=2)
    forward: Literal["auto", "qwen3", "transformers"] = "auto"
    template: dict[str, Any] = Field(default_factory=dict)


class TransformersPolicy:
    """One model, one renderer, one slot engine, shared by all roles (see collect.policy.Policy)."""

    trainable = True

    def __init__(self, *, identity: Identity, renderer: ChatRenderer, engine: SlotEngine) -> None:
        self.identity = identity
        self.renderer: Renderer | None = renderer
        self._renderer = renderer
        self.engine = engine

    async def complete(self, request: Request) -> Completion:
        """Sample one completion together with all other waiting requests."""
        prompt = request.prompt_ids
        if prompt is None:
            prompt = self._renderer.open(request.messages)
        got = await self.engine.generate(request.session, prompt, request.sampling)
        return Completion(
            text=self._renderer.decode(got.ids),
            completion_ids=got.ids,
            logprobs=got.logprobs,
            finish_reason=got.finish_reason,
            logprobs_mode=got.logprobs_mode,
            policy_version=self.identity.version,
            n_cached=got.n_cached,
        )

    def release(self, session: str) -> None:
        """The session will not be continued; its slot may go."""
        self.engine.release(session)

    async def close(self) -> None:
        """Stop the engine."""
        await self.engine.close()


def open_policy(argument: str, *, options: Mapping[str, Any]) -> Policy:
    """Load the model directory `argument`; a policy directory brings its hashes, name and version."""
    directory = Path(argument)
    if not (directory / "config.json").is_file():
        msg = f"no config.json in {argument or 'an empty path'}"
        raise UsageError(msg, hint="transformers:DIR names a folder that save_pretrained or `sera learn` wrote")
    settings = read_options(options)
    with loading_faults(directory):
        renderer = ChatRenderer.load(directory, variables=settings.template)
        decoder = load_decoder(directory, settings)
        decoder.forward([Row(0, 0, [0])])  # tensors of other shapes show here and not amid a phase
    engine = SlotEngine(
        decoder, slots=settings.slots, stop_ids=renderer.stop_ids, allowed=read_mask(directory, decoder.vocab_size)
    )
    return TransformersPolicy(identity=read_identity(directory, engine=ENGINE), renderer=renderer, engine=engine)


def open_pocket(argument: str, *, options: Mapping[str, Any]) -> Policy:
    """The policy shipped with the package for a world: `pocket` (TextCraft) or `pocket:textworld`."""
    directory = pocket_directory(argument)
    read_policy_directory(directory)
    return open_policy(str(directory), options=options)


def read_options(options: Mapping[str, Any]) -> EngineOptions:
    """Validated options; raises UsageError that names the key, what was got and what is allowed."""
    try:
        settings = EngineOptions.model_validate(dict(options))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        msg = f"policy option {key!r}: {fault['msg']}, got {fault.get('input')!r}"
        raise UsageError(msg, hint=f"allowed: {', '.join(sorted(EngineOptions.model_fields))}") from None
    _require_device(settings.device)
    return settings


def _require_device(name: str) -> None:
    """Refuse a device that is no device, or that this machine lacks, before a model is loaded."""
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        msg = f"policy option 'device': {name!r} is not usable here: {' '.join(str(error).split())[:200]}"
        raise UsageError(msg, hint="cpu is always there; cuda wants a GPU and a torch built for it") from None


def load_decoder(directory: Path, settings: EngineOptions) -> Decoder:
    """The hand-written pass where it serves the model, transformers' own elsewhere."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    dtype = settings.dtype or ("float32" if settings.device == "cpu" else "bfloat16")
    small = settings.device == "cpu" and dtype == "float32" and (directory / "model.safetensors").is_file()
    if settings.forward == "qwen3" or (settings.forward == "auto" and small and supported(config)):
        return Qwen3Decoder.load(directory, slots=settings.slots, max_context=settings.context)
    from collect.causal_lm import CausalDecoder

    return CausalDecoder.load(
        directory, slots=settings.slots, max_context=settings.context, device=settings.device, dtype=dtype
    )
