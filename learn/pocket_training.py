"""Training of the pocket policy's weights: next-token likelihood on scripted chats.

Invariant: fp32, plain torch AdamW on one cosine; assistant tokens weigh 1, all others `prompt_weight`; the order of
batches depends only on the seed, and a checkpoint continues exactly where it stopped, on any number of processes.

Run: ``sera pocket build --out DIR``.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from learn.pocket_data import PROMPT, SILENT, SPOKEN, Sequences
from learn.pocket_ranks import Ranks, together

PAD_ID = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the Qwen3 model; the default has about 0.9 million parameters."""

    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    mlp: int = 384
    context: int = 1024


@dataclass(frozen=True, slots=True)
class Course:
    """How it is trained. minutes: wall time after which the cosine has ended, whatever data are left; None = all."""

    epochs: int = 1
    batch_tokens: int = 2048
    peak: float = 2e-3
    floor: float = 2e-5
    warmup: int = 100
    decay: float = 0.05
    prompt_weight: float = 0.1
    minutes: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands: done is the share of the course, loss the mean over assistant tokens since the last."""

    step: int
    steps: int
    tokens: int
    done: float
    loss: float
    tokens_per_second: float


def new_model(vocab_size: int, shape: Shape, *, end_id: int, seed: int) -> Any:
    """A randomly initialised Qwen3ForCausalLM with tied embeddings."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.mlp,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=PAD_ID,
        use_cache=False,
        initializer_range=0.02,
    )
    return Qwen3ForCausalLM(config)


def train(
    model: Any,
    data: Sequence[Sequences],
    course: Course,
    *,
    checkpoint: Path,
    report: Callable[[Progress], None],
    save_every: int = 200,
    processes: int = 1,
) -> None:
    """Train in place; `checkpoint` is written every `save_every` steps and read when it is there.

    processes: how many share every batch; the sums are those of one, up to rounding.
    """
    copy = b"" if processes == 1 else pickle.dumps(model)  # as bytes: a tensor handed over would be shared memory
    with together(processes, partial(_follow, copy, data, course, checkpoint)) as ranks:
        _train(model, data, course, checkpoint, report, save_every, ranks)


def _follow(copy: bytes, data: Sequence[Sequences], course: Course, checkpoint: Path, ranks: Ranks) -> None:
    _train(pickle.loads(copy), data, course, checkpoint, lambda progress: None, 1, ranks)


def _train(
    model: Any,
    data: Sequence[Sequences],
    course: Course,
    checkpoint: Path,
    report: Callable[[Progress], None],
    save_every: int,
    ranks: Ranks,
) -> None:
    optimizer = torch.optim.AdamW(_groups(model, course.decay), lr=course.peak, betas=(0.9, 0.98), eps=1e-8, fused=True)
    batches = plan_batches(data, course)
    step, tokens, spent = _resume(checkpoint, model, optimizer)
    begun, total, count, seen = time.monotonic() - spent, 0.0, 0.0, 0
    lap = time.monotonic()
    model.train()
    while step < len(batches):
        done = step / len(batches)
        if course.minutes is not None:
            done = ranks.agreed(max(done, (time.monotonic() - begun) / (60 * course.minutes)))
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(course, step, done)
        own, spoken = _gradients(model, data, batches[step], course, ranks)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        total, count = total + own, count + spoken
        seen += sum(length for _, _, length in batches[step - 1])
        if step % 20 == 0 or step == len(batches):
            now = time.monotonic()
            tokens += seen
            report(Progress(step, len(batches), tokens, done, total / max(count, 1), seen / (now - lap)))
            total, count, seen, lap = 0.0, 0.0, 0, now
        if step % save_every == 0 and ranks.first:
            _save(checkpoint, model, optimizer, step, tokens, time.monotonic() - begun)
    model.eval()


def _gradients(
    model: Any, data: Sequence[Sequences], batch: Sequence[tuple[int, int, int]], course: Course, ranks: Ranks
) -> tuple[float, float]:
    """Leave the gradients of a whole batch in the model; the sum and number of the assistant tokens' own losses."""
    rows, own, spoken = ranks.rows(batch), 0.0, 0.0
    if rows:
        whole = weight_of(data, batch, prompt_weight=course.prompt_weight)
        ids, said, real = collate(data, rows)
        loss, own, spoken = loss_of(model, ids, said, real, prompt_weight=course.prompt_weight, whole=whole)
        loss.backward()
    own, spoken = ranks.add(model.parameters(), [own, spoken])
    return own, spoken


def learning_rate(course: Course, step: int, done: float) -> float:
    """Linear warm-up in steps, then a cosine in the share of the course that is done."""
    cosine = course.floor + 0.5 * (course.peak - course.floor) * (1 + math.cos(math.pi * min(1.0, done)))
    return cosine * min(1.0, (step + 1) / course.warmup)


def plan_batches(data: Sequence[Sequences], course: Course) -> list[list[tuple[int, int, int]]]:
    """Batches of (block, sequence, length) of similar length, shuffled, all epochs one after another."""
    everything = [
        (b, i, n) for b, block in enumerate(data) for i, n in enumerate(np.diff(block.ends, prepend=0).tolist())
    ]
    rng = np.random.default_rng(course.seed)
    batches: list[list[tuple[int, int, int]]] = []
    for _ in range(course.epochs):
        order = [everything[i] for i in rng.permutation(len(everything))]
        window = 4000
        grouped = [
            batch
            for at in range(0, len(order), window)
            for batch in _fill(sorted(order[at : at + window], key=lambda s: s[2]), course.batch_tokens)
        ]
        batches += [grouped[i] for i in rng.permutation(len(grouped))]
    return batches


def _fill(ordered: Sequence[tuple[int, int, int]], limit: int) -> Iterator[list[tuple[int, int, int]]]:
    batch: list[tuple[int, int, int]] = []
    for entry in ordered:
        if batch and (len(batch) + 1) * entry[2] > limit:
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


def collate(data: Sequence[Sequences], batch: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, which positions are spoken, which are targets at all; padded on the right, where causality hides it."""
    width = max(length for _, _, length in batch)
    ids = torch.full((len(batch), width), PAD_ID)
    spoken = torch.zeros(len(batch), width, dtype=torch.bool)
    real = torch.zeros(len(batch), width, dtype=torch.bool)
    for row, (block, index, length) in enumerate(batch):
        span = data[block].span(index)
        ids[row, :length] = torch.from_numpy(data[block].ids[span].astype(np.int64))
        parts = torch.from_numpy(data[block].parts[span])
        spoken[row, :length] = parts == SPOKEN
        real[row, :length] = parts != SILENT
    return ids, spoken, real


def weight_of(data: Sequence[Sequences], batch: Sequence[tuple[int, int, int]], *, prompt_weight: float) -> float:
    """Sum of the weights of a batch's targets; the first token of a sequence is none."""
    total = 0.0
    for block, index, _ in batch:
        parts = data[block].parts[data[block].span(index)][1:]
        total += float((parts == SPOKEN).sum()) + prompt_weight * float((parts == PROMPT).sum())
    return total


def loss_of(
    model: Any, ids: Tensor, spoken: Tensor, real: Tensor, *, prompt_weight: float, whole: float | None = None
) -> tuple[Tensor, float, float]:
    """Weighted mean loss, and the sum and number of the assistant tokens' own losses.

    whole: sum of the weights that the mean is over, where these rows are a part of a batch; None = of these rows.
    """
    targets, own = ids[:, 1:], spoken[:, 1:].float()
    weights = own + prompt_weight * (real[:, 1:].float() - own)
    asked = weights > 0  # most of a lesson's tokens are context; what nobody asks for is not predicted
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][asked]
    losses = torch.nn.functional.cross_entropy(model.lm_head(hidden).float(), targets[asked], reduction="none")
    own, weights = own[asked], weights[asked]
    loss = (losses * weights).sum() / (weights.sum() if whole is None else whole)
    return loss, float((losses.detach() * own).sum()), float(own.sum())


def _groups(model: Any, decay: float) -> list[dict[str, Any]]:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


def _save(path: Path, model: Any, optimizer: Any, step: int, tokens: int, spent: float) -> None:
    temporary = path.with_suffix(".tmp")
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "tokens": tokens,
            "spent": spent,
        },
        temporary,
    )
    temporary.replace(path)


def _resume(path: Path, model: Any, optimizer: Any) -> tuple[int, int, float]:
    if not path.is_file():
        return 0, 0, 0.0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["tokens"], state["spent"]
