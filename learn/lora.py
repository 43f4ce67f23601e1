"""LoRA: low-rank adapters beside frozen weights, trained in their place.

Invariant: W + alpha / r * B A, with A [r, in] drawn from `lora.seed` and B [out, r] zero, so that version 0 is the same
with adapters and without. Exports are of two kinds, both ordinary: the merged weights, under the names of the model
without adapters, which is the policy directory that collectors load; and the adapter alone in the layout of peft.

Run: ``sera learn ... --set lora.r=16 --set lora.alpha=32``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from learn.config import LoraConfig
from learn.state_file import write_faults
from sera_data.disk import sync_directory, sync_files
from sera_data.errors import ConfigError

BASE, A, B = ".base_layer.", ".lora_A.default.weight", ".lora_B.default.weight"
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def insert_adapters(model: nn.Module, config: LoraConfig) -> None:
    """Put adapters at the target layers of a Hugging Face model and freeze everything else.

    Raises ConfigError for a target that is no linear layer of the model.
    """
    from peft import LoraConfig as PeftConfig
    from peft import inject_adapter_in_model

    linear = {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    unknown = [target for target in config.targets if target not in linear - {"lm_head"}]
    if unknown:
        msg = f"lora.targets names {unknown[0]!r}, which is no linear layer inside the model"
        raise ConfigError(msg, hint=f"allowed: {', '.join(sorted(linear - {'lm_head'}))}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)  # the same on every rank
        settings = PeftConfig(r=config.r, lora_alpha=config.alpha, target_modules=list(config.targets))
        inject_adapter_in_model(settings, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_" in name)


def merged(weights: Mapping[str, torch.Tensor], scale: float) -> dict[str, torch.Tensor]:
    """The weights with their adapters added, under the names of the model without adapters; dtypes are kept."""
    found = {}
    for name, weight in weights.items():
        if ".lora_" in name:
            continue
        plain = name.replace(BASE, ".")
        stem = plain.removesuffix(".weight")
        if f"{stem}{A}" in weights and BASE in name and name.endswith(".weight"):
            delta = weights[f"{stem}{B}"].float() @ weights[f"{stem}{A}"].float()
            weight = (weight.float() + scale * delta).to(weight.dtype)
        found[plain] = weight
    return found


def adapter_of(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The adapter's tensors under peft's names."""
    found = {name.replace(".default.weight", ".weight"): t for name, t in weights.items() if name.endswith((A, B))}
    return {f"base_model.model.{name}": weight for name, weight in found.items()}


def write_adapter(target: Path, weights: Mapping[str, torch.Tensor], config: LoraConfig, *, base: str) -> Path:
    """Write an adapter directory for peft or vLLM aside and rename it; one that is there is left.

    base: path of the policy directory that the adapter belongs to.
    """
    if target.exists():
        return target
    staging = target.with_name(f".tmp-{target.name}")
    with write_faults(target, aside=staging):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        save_file(adapter_of(weights), staging / WEIGHTS, metadata={"format": "pt"})
        (staging / CONFIG).write_text(json.dumps(_settings(config, base), indent=2) + "\n", encoding="utf-8")
        sync_files(staging)
        staging.rename(target)
        sync_directory(target.parent)
    return target


def _settings(config: LoraConfig, base: str) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": config.r,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(config.targets),
        "bias": "none",
        "inference_mode": True,
    }
