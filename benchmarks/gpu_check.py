"""What only a GPU can show, in one script of under 6 minutes and one short table.

    attention   FlexAttention over a trie, forward and gradients, against scores with a dense mask
    packed      a small Qwen3 in fp32: rows and tree give the loss and gradient of every sequence alone
    bf16        the same model in bf16: rows against tree, and both against fp32
    head        chunked vocabulary loss: peak extra memory for 60,000 tokens x 151,936 entries
    step rows, step tree
                one training step of a randomly initialised Qwen3-4B by the DeepSpeed engine, its memory and tokens/s

Nothing but torch, transformers, deepspeed and numpy (and what these need) is imported. Without a GPU it says so and
ends with 0; `--tiny --device cpu` runs the same code at toy sizes, where memory cannot be measured. Exit code 1 when a
check fails.

Run: ``python benchmarks/gpu_check.py`` or ``python benchmarks/gpu_check.py --tiny --device cpu``
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import torch
from gpu_cases import FULL, TINY, Sizes, branches, network, small, trie
from transformers.utils.logging import disable_progress_bar

from learn.attention import Branches, attend
from learn.config import EngineConfig, OptimizerConfig
from learn.datum import Datum
from learn.engine import Engine
from learn.flex_tree import block_mask
from learn.network import Network
from learn.objective import Objective
from learn.packing import Plan, Share, micro_batch, plan_packs
from learn.ranks import join, leave
from learn.vocabulary import Vocabulary

CISPO = Objective("cispo", 0.0, 5.0)
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; ok None: reported, not judged."""

    check: str
    what: str
    value: str
    ok: bool | None = None


def gradient(model: Network, plan: Plan, device: torch.device) -> tuple[float, torch.Tensor]:
    """(loss, all gradients in one fp64 vector on the CPU)."""
    model.zero_grad()
    total = 0.0
    for pack in plan.packs:
        batch = micro_batch(pack, device)
        logprobs, _ = model(batch)
        loss = CISPO.total(logprobs, batch.tokens) / plan.n_trained
        loss.backward()
        total += loss.item()
    parts = [p.grad.detach().double().flatten().cpu() for p in model.parameters() if p.grad is not None]
    return total, torch.cat(parts)


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Norm of the difference / norm of `other`."""
    return float((one - other).norm() / other.norm())


def check_attention(sizes: Sizes, device: torch.device) -> list[Figure]:
    """The path that training takes on this device against a dense mask in fp64."""
    layout = trie(sizes.trie)
    length = len(layout.ends)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(1, heads, length, 64, generator=generator) for heads in (8, 2, 2)]
    upstream = torch.randn(1, length, 8, 64, generator=generator)
    row = torch.arange(length)
    visible = (row[None] <= row[:, None]) & (row[:, None] < torch.as_tensor(layout.ends)[None])
    exact = [t.double().requires_grad_() for t in drawn]
    keys, values = (t.repeat_interleave(4, dim=1) for t in exact[1:])
    scores = (exact[0] @ keys.transpose(2, 3) / 8).masked_fill(~visible, float("-inf"))
    expected = (scores.softmax(-1) @ values).transpose(1, 2)
    wanted = torch.autograd.grad(expected, exact, upstream.double())
    mask = block_mask(layout.ends, device) if device.type == "cuda" else None
    figures = []
    for dtype, limit in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        mine = [t.to(device, dtype).requires_grad_() for t in drawn]
        found, _ = attend(torch.nn.Module(), *mine, None, segments=Branches(layout.nodes, mask))
        grads = torch.autograd.grad(found, mine, upstream.to(device, dtype))
        pairs = [(found, expected), *zip(grads, wanted, strict=True)]
        worst = max(distance(a.detach().cpu().double(), b.detach()) for a, b in pairs)
        figures.append(
            Figure("attention", f"{length} tokens, {dtype}: worst relative error", f"{worst:.1e}", worst < limit)
        )
    return figures


def plans(datums: list[Datum], budget: int) -> dict[str, Plan]:
    """Alone: one sequence a micro-batch; rows; tree."""
    longest = max(map(len, datums))
    shares: dict[str, tuple[int, Share]] = {"alone": (longest, "off"), "rows": (budget, "off"), "tree": (budget, "on")}
    return {name: plan_packs(datums, budget=size, share=share) for name, (size, share) in shares.items()}


def check_packed(sizes: Sizes, device: torch.device) -> list[Figure]:
    """fp32: both layouts against every sequence alone."""
    model = network(small(sizes), device, torch.float32)
    datums = branches(TINY, families=2, vocabulary=1000)
    found = {name: gradient(model, plan, device) for name, plan in plans(datums, 512).items()}
    loss, alone = found["alone"]
    figures = []
    for name in ("rows", "tree"):
        off, apart = abs(found[name][0] - loss), distance(found[name][1], alone)
        value = f"loss {off:.1e}, gradient {apart:.1e}"
        figures.append(Figure("packed", f"fp32, {name} against alone", value, off < 1e-5 and apart < 1e-5))
    return figures


def check_bf16(sizes: Sizes, device: torch.device) -> list[Figure]:
    """bf16: the layouts against each other, and how far both are from fp32."""
    datums = branches(TINY, families=2, vocabulary=1000)
    made = plans(datums, 512)
    _, exact = gradient(network(small(sizes), device, torch.float32), made["alone"], device)
    model = network(small(sizes), device, torch.bfloat16)
    rows, tree = (gradient(model, made[name], device)[1] for name in ("rows", "tree"))
    off = {name: distance(found, exact) for name, found in (("rows", rows), ("tree", tree))}
    text = f"rows {off['rows']:.1e}, tree {off['tree']:.1e}"
    close = off["tree"] < max(1.5 * off["rows"], 1e-2)
    return [Figure("bf16", "gradient, relative error to fp32", text, close)]


def check_head(sizes: Sizes, device: torch.device) -> list[Figure]:
    """Peak memory of the output layer beyond its inputs and the gradient of its weight, forward and backward."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    generator = torch.Generator(device).manual_seed(0)
    shape = (sizes.head_rows, sizes.head_hidden)
    hidden = torch.randn(shape, generator=generator, device=device, dtype=dtype).requires_grad_()
    weight = torch.randn(sizes.vocabulary, sizes.head_hidden, generator=generator, device=device, dtype=dtype)
    layer = Vocabulary(torch.nn.Parameter(weight / math.sqrt(sizes.head_hidden)))
    targets = torch.randint(0, sizes.vocabulary, (sizes.head_rows,), generator=generator, device=device)
    layer.weight.grad = torch.zeros_like(layer.weight)
    before = memory(device, reset=True)
    started = time.perf_counter()
    logprobs, _ = layer(hidden, targets)
    logprobs.sum().backward()
    finish(device)
    seconds = time.perf_counter() - started
    some = slice(0, 50)
    plain = (hidden[some].float() @ layer.weight.float().T).log_softmax(1).gather(1, targets[some, None])[:, 0]
    off = float((plain - logprobs[some]).detach().abs().max())
    size = f"{sizes.head_rows:,} x {sizes.vocabulary:,}"
    figures = [Figure("head", f"{size}: largest error of a log-probability", f"{off:.1e}", off < 2e-3)]
    figures.append(Figure("head", "forward and backward", f"{sizes.head_rows / seconds:,.0f} tokens/s"))
    if device.type == "cuda":
        # what autograd adds to the weight's gradient is a tensor of its size that any loss has
        extra = memory(device) - before - layer.weight.numel() * layer.weight.element_size()
        figures.append(
            Figure("head", "peak memory beyond inputs and weight gradient", f"{extra / GIB:.2f} GiB", extra < 2 * GIB)
        )
    return figures


def check_step(sizes: Sizes, device: torch.device, share: Share) -> list[Figure]:
    """One warm-up and two timed updates of the engine, as `sera learn` makes them."""
    name = f"step {'tree' if share == 'on' else 'rows'}"
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if free < 100 * GIB:
            text = f"needs 100 GiB of free GPU memory, found {free / GIB:.0f}"
            return [Figure(name, "Qwen3-4B, full fine-tune", f"not run: {text}")]
    ranks = join()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = network(sizes.step, device, dtype, recompute=True)
    count = sum(p.numel() for p in model.parameters())
    config = EngineConfig(tokens_per_micro_batch=sizes.budget, zero=1 if device.type == "cuda" else 0)
    engine = Engine(model, ranks=ranks, config=config, optimizer=OptimizerConfig(lr=1e-6))
    datums = branches(sizes, families=sizes.families, vocabulary=sizes.step["vocab_size"])
    plan = plan_packs(datums, budget=sizes.budget, share=share)
    memory(device, reset=True)
    rows, seconds = [], []
    for version in range(3):
        started = time.perf_counter()
        rows.append(engine.update(plan, CISPO, version=version))
        finish(device)
        seconds.append(time.perf_counter() - started)
    taken = min(seconds[1:])
    tokens = sum(map(len, datums))
    finite = all(math.isfinite(row["loss"]) and math.isfinite(row["grad_norm"]) for row in rows)
    figures = [
        Figure(
            name,
            f"{count / 1e9:.2f} B weights, loss and norm of 3 updates are finite",
            f"{rows[-1]['loss']:+.4f}",
            finite,
        ),
        Figure(
            name, f"{tokens:,} tokens of sequences, {plan.n_computed:,} computed", f"{tokens / taken:,.0f} tokens/s"
        ),
        Figure(name, "seconds of the first update and of a later one", f"{seconds[0]:.2f}, {taken:.2f}"),
    ]
    if device.type == "cuda":
        figures.append(Figure(name, "peak memory", f"{memory(device) / GIB:.1f} GiB"))
    leave()
    return figures


def memory(device: torch.device, *, reset: bool = False) -> int:
    """Peak allocated bytes since the last reset; 0 on CPU. With `reset`, what is allocated now."""
    if device.type != "cuda":
        return 0
    finish(device)
    if reset:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.max_memory_allocated(device)


def finish(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


CHECKS: dict[str, Callable[[Sizes, torch.device], list[Figure]]] = {
    "attention": check_attention,
    "packed": check_packed,
    "bf16": check_bf16,
    "head": check_head,
    "step rows": lambda sizes, device: check_step(sizes, device, "off"),
    "step tree": lambda sizes, device: check_step(sizes, device, "on"),
}


def run_check(name: str, sizes: Sizes, device: torch.device) -> list[Figure]:
    """The figures of a check; memory that it held is free afterwards."""
    try:
        return CHECKS[name](sizes, device)
    finally:
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen checks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, for a machine without a GPU")
    parser.add_argument("--only", choices=list(CHECKS), action="append", help="a check to run; may be repeated")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    args = parser.parse_args(arguments)
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU here: nothing was checked; --tiny --device cpu runs the same code at toy sizes")
        return 0
    disable_progress_bar()
    figures: list[Figure] = []
    started = time.perf_counter()
    for name in args.only or CHECKS:
        begun = time.perf_counter()
        figures += run_check(name, TINY if args.tiny else FULL, device)
        figures.append(Figure(name, "seconds of this check", f"{time.perf_counter() - begun:.0f}"))
    total = time.perf_counter() - started
    place = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    failed = any(figure.ok is False for figure in figures)
    if args.as_json:
        rows = [{"check": f.check, "what": f.what, "value": f.value, "ok": f.ok} for f in figures]
        print(json.dumps({"device": place, "torch": torch.__version__, "seconds": round(total, 1), "figures": rows}))
        return int(failed)
    for figure in figures:
        word = {True: "ok", False: "FAILED", None: ""}[figure.ok]
        print(f"{figure.check:<10} {figure.what:<62} {figure.value:<32} {word}".rstrip())
    print(f"{place}, torch {torch.__version__}, {total:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
