"""Speeds of an accelerator from its limits: tokens generated, prompt tokens read and tokens trained per second.

Invariant: a speed is limit x share; the limits are physics (bandwidth for decoding, products for prompts and training),
the shares are stated, so every figure from here is an estimate and is called stated. Speeds measured in a store, or
given by the user, replace them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from learn.model_shape import ModelShape
from learn.spread import Spread
from sera_data.errors import UsageError

DECODE = Spread(0.4, 0.65, 0.8)
PREFILL = Spread(0.3, 0.5, 0.6)
TRAIN = Spread(0.2, 0.35, 0.5)
"""Shares of the limit that good open engines reach in practice."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device: bytes of memory, bytes per second of its memory, bf16 products per second in practice."""

    name: str
    memory: float
    bandwidth: float
    flops: float


def accelerators() -> dict[str, Accelerator]:
    """Known devices by name."""
    text = files("learn").joinpath("presets", "accelerators.yaml").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return {n: Accelerator(n, 1e9 * r["memory_gb"], r["bandwidth"], r["flops"]) for n, r in rows.items()}


def open_accelerator(name: str) -> Accelerator:
    """A device by name; UsageError lists the known ones."""
    known = accelerators()
    if name.lower() not in known:
        msg = f"no accelerator {name!r}; known: {', '.join(known)}"
        raise UsageError(msg, hint="take the nearest one with --gpu-memory and --rate collect=...,learn=...")
    return known[name.lower()]


def decode_speed(shape: ModelShape, device: Accelerator, *, sequences: float, context: float) -> Spread:
    """Generated tokens per second: each step reads the weights once and the cache of every sequence.

    sequences: in flight on the device, no more than its cache holds; context: cached tokens of each.
    """
    step = (2.0 * shape.parameters + sequences * context * shape.cache_bytes()) / device.bandwidth
    return sequences / step * DECODE


def prefill_speed(shape: ModelShape, device: Accelerator, *, context: float) -> Spread:
    """Prompt tokens per second that are read without help of a cache."""
    flops = 2.0 * shape.body + 2.0 * shape.layers * shape.heads * shape.head_size * context
    return device.flops / flops * PREFILL


def train_speed(
    shape: ModelShape, device: Accelerator, *, length: float, trained: float, recompute: bool, share: float = 1.0
) -> Spread:
    """Trained sequences' tokens per second. share: of the parameters that are trained; others need no gradient."""
    flops = shape.training_flops(length, trained=trained, recompute=recompute)
    saved = 2.0 * shape.body * (1.0 - share)  # no gradient of frozen weights
    return device.flops / (flops - saved) * TRAIN
