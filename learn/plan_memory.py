"""Memory of one GPU while it trains: states by ZeRO stage, activations, the chunked output layer, and the rest.

Invariant: arithmetic only, so that it runs where no GPU and no torch is. States of mixed precision are the figures of
DeepSpeed's own estimators (a test compares them); where those have none (stages 0 and 1, adapters, fp32 on a CPU) the
same counting is used. Activations are counted tensor by tensor as backward finds them in a Qwen3 layer.

Bytes per parameter: bf16 weight 2, bf16 gradient 2, fp32 master 4, fp32 gradient 4, fp32 moments 8; in fp32 weight 4,
gradient 4, moments 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from learn.model_shape import LINEAR, ModelShape
from learn.tiles import held_elements

Offload = Literal["none", "optimizer", "parameters"]
Precision = Literal["mixed", "fp32"]
STAGES = (0, 1, 2, 3)
BUCKET = 500_000_000
"""Elements of DeepSpeed's reduction bucket, its default."""

CONTEXT, COMMUNICATOR, FRAGMENTS = 0.8e9, 0.6e9, 0.05
"""Bytes of a CUDA context and of NCCL's buffers, and the share that the allocator leaves unused: stated figures."""

TILE, KEEP = 2**24, 2**27
"""Elements of a tile of the output layer, and of the exponentials that it keeps for backward (learn.vocabulary)."""

SERVED, ENGINE = 0.9, 2e9
"""Share of the memory that a serving engine takes, and what it needs beside weights and cache."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a phase runs: nodes, GPUs of each, bytes of memory of one GPU."""

    nodes: int = 1
    gpus: int = 1
    memory: float = 24e9

    @property
    def world(self) -> int:
        """All GPUs."""
        return self.nodes * self.gpus


@dataclass(frozen=True, slots=True)
class Training:
    """How a model is trained. tokens: of a micro-batch; trained: positions of it that are projected; chunk: rows of a
    tile of the output layer; rank: of the adapters, None for full weights; start_kept: the frozen start weights lie
    beside them, whole on every GPU (`learn.reference`)."""

    tokens: int = 32768
    trained: float = 0.4
    chunk: int = 2048
    recompute: bool = False
    offload: Offload = "none"
    rank: int | None = None
    targets: tuple[str, ...] = LINEAR
    precision: Precision = "mixed"
    start_kept: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one GPU by part, and of one node's host for what is offloaded."""

    stage: int
    parts: dict[str, float] = field(default_factory=dict)
    host: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all parts."""
        return sum(self.parts.values())


def training_memory(shape: ModelShape, machine: Machine, how: Training, stage: int) -> Memory:
    """Peak memory of one GPU in a ZeRO stage.

    The output layer is done before the last layer's backward begins, so the larger of the two counts: `activations`
    are what is kept, `working` is the larger.
    """
    states, host = _states(shape, machine, how, stage)
    trained = _trainable(shape, how)
    parts = {
        "states": states,
        "activations": kept_bytes(shape, how),
        "working": max(output_bytes(shape, how), backward_bytes(shape, how)),
        "buckets": 2.0 * min(BUCKET, trained) if stage and how.precision == "mixed" else 0.0,
    }
    if how.start_kept:
        parts["start"] = _element(how.precision) * shape.parameters
    if how.precision == "mixed":
        parts["context"] = CONTEXT + (COMMUNICATOR if machine.world > 1 else 0.0)
        parts["fragments"] = FRAGMENTS * sum(parts.values())
    return Memory(stage, parts, host)


def _trainable(shape: ModelShape, how: Training) -> int:
    return shape.parameters if how.rank is None else shape.adapters(how.rank, how.targets)


def _states(shape: ModelShape, machine: Machine, how: Training, stage: int) -> tuple[float, float]:
    """Bytes on one GPU and on one host."""
    trained = _trainable(shape, how)
    if how.precision == "fp32":
        frozen = 0 if how.rank is None else 4.0 * shape.parameters
        return frozen + fp32_states(trained, world=machine.world, stage=stage), 0.0
    gathered = shape.largest_layer if stage == 3 else 0
    device, host = mixed_states(trained, gathered, machine=machine, stage=stage, offload=how.offload)
    if how.rank is None:
        return device, host
    frozen = 2.0 * shape.parameters  # bf16 weights without gradient or master
    if stage < 3:
        return device + frozen, host
    if how.offload == "parameters":
        return device, host + 1.5 * frozen / machine.nodes
    return device + frozen / machine.world, host


def mixed_states(trained: int, gathered: int, *, machine: Machine, stage: int, offload: Offload) -> tuple[float, float]:
    """(bytes on one GPU, bytes on one host) of bf16 weights, gradients, fp32 masters, fp32 gradients and moments.

    Stages 2 and 3 as `deepspeed.runtime.zero` estimates them (buffer factor 1.5, zero_init); stage 1 keeps whole bf16
    gradients on each GPU, stage 0 keeps everything. `gathered`: parameters of the largest part, for stage 3.
    """
    world, nodes = machine.world, machine.nodes
    if stage == 0:
        return 20.0 * trained, 0.0
    if stage < 3:
        kept = 4.0 if stage == 1 else 2.0
        if offload == "none":
            return kept * trained + (20.0 - kept) * trained / world, 1.5 * 4.0 * trained * machine.gpus
        return kept * trained, 1.5 * trained * max(4 * world, 16)
    largest = 4.0 * gathered
    if offload == "none":
        return largest + 18.0 * trained / world, 1.5 * 4.0 * gathered * machine.gpus
    if offload == "optimizer":
        return largest + 2.0 * trained / world, 1.5 * 16.0 * trained / nodes
    return largest, 1.5 * 18.0 * trained / nodes


def fp32_states(trained: int, *, world: int, stage: int) -> float:
    """Bytes of one rank in fp32: weight 4, gradient 4, moments 8; from stage 1 on a flat copy that the ranks share."""
    if stage == 0:
        return 16.0 * trained
    kept = {1: 8.0, 2: 4.0, 3: 0.0}[stage]
    return kept * trained + (20.0 - kept) * trained / world


def layer_bytes(shape: ModelShape, precision: Precision, *, predicting: float = 1.0) -> float:
    """Bytes per token that a layer keeps for backward: inputs of norms, projections, attention and MLP.

    Elements (`learn.activations` and `learn.heads` keep less than autograd would): two norms (input, result) 4 h; head
    norms (input) q + k; attention (q, k, v, out) 2 q + 2 k; MLP (gate, up, their product) 3 m. h hidden, q queries, k
    keys, m MLP. In bf16 grouped keys and values are repeated for the kernel and the output is joined: 5 q.
    predicting: share of the positions that the last layer takes to its end (`learn.last_layer`): second norm, MLP and
    the chosen rows of the output are kept for them only.
    """
    hidden, mlp = shape.hidden, shape.mlp
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    norms = queries + keys if shape.head_norms else 0
    attention = 2 * queries + 2 * keys if precision == "fp32" else 5 * queries
    chosen = predicting * queries if predicting < 1 else 0
    return _element(precision) * (2 * hidden + norms + attention + chosen + predicting * (2 * hidden + 3 * mlp))


def kept_bytes(shape: ModelShape, how: Training) -> float:
    """Bytes that are there from forward to the start of backward: all layers or their inputs, and the final norm's."""
    element = _element(how.precision)
    final = how.trained * 2 * shape.hidden * element
    if how.recompute:
        return how.tokens * (shape.layers * shape.hidden * element + final)
    last = layer_bytes(shape, how.precision, predicting=how.trained)
    return how.tokens * ((shape.layers - 1) * layer_bytes(shape, how.precision) + last + final)


def backward_bytes(shape: ModelShape, how: Training) -> float:
    """Bytes that backward adds to what is kept: the layer itself where it is recomputed, and the gradients in it.

    The most are there amid an MLP: gradients of product and gate and one factor of them, 3 m, where the kept product
    is gone; the residual's gradient, h. Either in the last layer, for the positions that predict, or in the layer
    before it, when the last one's share is free again. A recomputed layer's input is among the kept ones.
    """
    element = _element(how.precision)
    flowing = element * (2 * shape.mlp + shape.hidden)
    last = layer_bytes(shape, how.precision, predicting=how.trained)
    if how.recompute:
        inputs = element * shape.hidden
        again, thin = layer_bytes(shape, how.precision) - inputs, last - inputs
        return how.tokens * max(thin + how.trained * flowing, again + flowing - inputs)
    return how.tokens * max(how.trained * flowing, flowing - last)


def _element(precision: Precision) -> float:
    return 4.0 if precision == "fp32" else 2.0


def output_bytes(shape: ModelShape, how: Training) -> float:
    """Bytes of the chunked output layer beyond weights: tiles of logits, hidden states of trained positions, sums."""
    rows = max(1, round(how.tokens * how.trained))
    height = min(rows, how.chunk)
    width = min(shape.vocabulary, max(1, TILE // height))
    tiles = 4 * held_elements(rows, shape.vocabulary, chunk=how.chunk, tile=TILE, keep=KEEP)
    element = 2 if how.precision == "mixed" else 4
    results = rows * shape.hidden * element + 4 * 4 * rows
    if element == 4:
        return float(tiles + results)
    sums = 4 * (rows + width) * shape.hidden
    copies = element * height * width + 4 * 2 * (height + width) * shape.hidden
    return float(tiles + results + sums + copies)


@dataclass(frozen=True, slots=True)
class Serving:
    """One GPU that serves: bytes of weights, tokens that its cache holds, sequences of a given length at once."""

    weights: float
    cache_tokens: float
    sequences: float


def serving_memory(shape: ModelShape, memory: float, *, context: float) -> Serving:
    """What one GPU holds when it serves bf16 weights; 0 tokens when the weights alone do not fit."""
    weights = 2.0 * shape.parameters
    room = max(0.0, SERVED * memory - ENGINE - weights)
    tokens = room / shape.cache_bytes()
    return Serving(weights, tokens, tokens / context)


def train_part(shape: ModelShape, how: Training) -> float:
    """Share of the parameters that is trained."""
    return _trainable(shape, how) / shape.parameters
