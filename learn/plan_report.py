"""A plan as plain JSON and as tables.

Invariant: nothing is computed here but sums and units; GB are 10^9 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.box import SIMPLE

from learn.plan_cost import Cost
from learn.plan_memory import STAGES, Machine, Memory, Serving, training_memory
from learn.planning import Epoch, Terms, summed
from learn.spread import Spread, total

GB = 1e9
PARTS = {
    "states": "states",
    "activations": "activ",
    "working": "work",
    "buckets": "bucket",
    "context": "cuda",
    "fragments": "spare",
    "start": "start",
}
"""Parts of the memory, with headings that fit a terminal of 80 columns."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Everything that a plan says."""

    terms: Terms
    epochs: Sequence[Epoch]
    memory: Sequence[Memory]
    most_tokens: dict[int, int]
    serving: Serving
    cost: Cost
    sources: dict[str, str]
    notes: Sequence[str]


def memory_by_stage(terms: Terms) -> tuple[list[Memory], dict[int, int]]:
    """Memory in each ZeRO stage, and the largest micro-batch that fits there, 0 when none does."""
    shape, machine, how = terms.shape, terms.machine, terms.training
    found = [training_memory(shape, machine, how, stage) for stage in STAGES]
    return found, {stage: _most_tokens(terms, stage) for stage in STAGES}


def _most_tokens(terms: Terms, stage: int) -> int:
    def fits(tokens: int) -> bool:
        how = replace(terms.training, tokens=tokens)
        return training_memory(terms.shape, terms.machine, how, stage).total <= terms.machine.memory

    low, high = 0, 2**22
    while high - low > 256:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def body(outlook: Outlook) -> dict[str, Any]:
    """The plan as plain JSON values: bytes, seconds, counts."""
    terms, epochs, cost = outlook.terms, outlook.epochs, outlook.cost
    return {
        "model": {"name": terms.shape.name, "parameters": terms.shape.parameters},
        "machine": _machine(terms.machine),
        "memory": {
            "tokens_per_micro_batch": terms.training.tokens,
            "stages": [
                {
                    "zero": memory.stage,
                    "parts": {name: round(value) for name, value in memory.parts.items()},
                    "total": round(memory.total),
                    "host": round(memory.host),
                    "fits": memory.total <= terms.machine.memory,
                    "most_tokens_per_micro_batch": outlook.most_tokens[memory.stage],
                }
                for memory in outlook.memory
            ],
            "serving": {
                "weights": round(outlook.serving.weights),
                "cache_tokens": round(outlook.serving.cache_tokens),
                "sequences": round(outlook.serving.sequences, 1),
            },
        },
        "epochs": [_epoch(epoch) for epoch in epochs],
        "total": _totals(epochs),
        "cost": {
            "currency": cost.currency,
            "tokens": {role: amount.body() for role, amount in cost.tokens.items()},
            "without_price": list(cost.unpriced),
            "gpu_hours": None if cost.hours is None else cost.hours.body(),
            "gpus": None if cost.gpus is None else cost.gpus.body(),
            "total": None if cost.total is None else cost.total.body(),
        },
        "sources": outlook.sources,
        "notes": list(outlook.notes),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {"nodes": machine.nodes, "gpus_per_node": machine.gpus, "memory": round(machine.memory)}


def _epoch(epoch: Epoch) -> dict[str, Any]:
    return {
        "epoch": epoch.index,
        "version": epoch.version,
        "updates": epoch.updates,
        "groups": dict(epoch.groups),
        "trees": epoch.trees,
        "agents": epoch.agents.body(),
        "roles": {
            role: {name: getattr(calls, name).body() for name in ("calls", "read", "fresh", "written", "stored")}
            for role, calls in epoch.roles.items()
        },
        "learn": {s: {"tokens": f.tokens.body(), "trained": f.trained.body()} for s, f in epoch.fodder.items()},
        "store_bytes": epoch.store_bytes.body(0),
        "collect_s": None if epoch.collect_s is None else epoch.collect_s.body(),
        "learn_s": None if epoch.learn_s is None else epoch.learn_s.body(),
    }


def _totals(epochs: Sequence[Epoch]) -> dict[str, Any]:
    collect, learn = summed([e.collect_s for e in epochs]), summed([e.learn_s for e in epochs])
    both = summed([collect, learn])
    return {
        "epochs": len(epochs),
        "updates": sum(e.updates for e in epochs),
        "trees": sum(e.trees for e in epochs),
        "calls": total([e.calls for e in epochs]).body(0),
        "tokens_read": total([e.read for e in epochs]).body(0),
        "tokens_written": total([e.written for e in epochs]).body(0),
        "tokens_learned": total([e.learned for e in epochs]).body(0),
        "store_bytes": total([e.store_bytes for e in epochs]).body(0),
        "collect_s": None if collect is None else collect.body(),
        "learn_s": None if learn is None else learn.body(),
        "seconds": None if both is None else both.body(),
    }


def print_plan(outlook: Outlook) -> None:
    """The plan as tables on stdout."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_memory_table(outlook))
    for line in _memory_lines(outlook):
        console.print(line, soft_wrap=True)
    for alike in _alike(outlook.epochs):
        console.print(_epoch_table(alike))
    if len(outlook.epochs) > 1:
        console.print(_quantities(outlook.epochs, f"all {len(outlook.epochs)} epochs"))
    console.print(_role_table(outlook))
    for line in _end_lines(outlook):
        console.print(line, soft_wrap=True, markup=False)


def _memory_table(outlook: Outlook) -> Any:
    from rich.table import Table

    terms = outlook.terms
    machine = terms.machine
    count = f"{machine.nodes} x {machine.gpus} GPUs of {machine.memory / GB:.4g} GB"
    title = f"{terms.shape.name}, {terms.shape.parameters / 1e9:.3f} B parameters, {count}: GB on each while training"
    # frozen start weights are there with a KL brake alone
    names = [name for name in PARTS if name != "start" or any(name in memory.parts for memory in outlook.memory)]
    heads = [PARTS[name] for name in names]
    table = Table("ZeRO", *heads, "total", "fits", "host", title=title, title_justify="left", box=SIMPLE)
    for memory in outlook.memory:
        parts = [_gb(memory.parts.get(name, 0.0)) for name in names]
        fits = "yes" if memory.total <= machine.memory else "no"
        table.add_row(str(memory.stage), *parts, _gb(memory.total), fits, _gb(memory.host))
    return table


def _memory_lines(outlook: Outlook) -> list[str]:
    how, serving = outlook.terms.training, outlook.serving
    most = ", ".join(f"ZeRO-{s} {n:,}" if n else f"ZeRO-{s} none" for s, n in outlook.most_tokens.items())
    kind = "full weights" if how.rank is None else f"adapters of rank {how.rank}"
    recompute = "activations recomputed" if how.recompute else "activations kept"
    room = f"{serving.cache_tokens:,.0f} tokens ({serving.sequences:,.0f} sequences at the context limit)"
    return [
        f"{kind}, {how.tokens:,} tokens per micro-batch, {recompute}, offload {how.offload}",
        f"largest micro-batch that fits: {most}",
        f"serving on one GPU: weights {_gb(serving.weights)} GB, cache for {room}",
    ]


def _epoch_table(alike: Sequence[Epoch]) -> Any:
    """One of several epochs that are planned alike."""
    epoch = alike[0]
    groups = ", ".join(f"{stage} {n}" for stage, n in epoch.groups.items())
    name = f"epoch {epoch.index}" if len(alike) == 1 else f"each of {len(alike)} epochs, first {epoch.index}"
    title = f"{name}: {epoch.trees} trees in groups {groups}; {epoch.updates} updates"
    return _quantities(alike[:1], title)


def _quantities(epochs: Sequence[Epoch], title: str) -> Any:
    """Agents, calls, tokens, bytes and time of some epochs together."""
    from rich.table import Table

    table = Table("", "low", "expected", "high", title=title, title_justify="left", box=SIMPLE)
    counts = {
        "agents": [e.agents for e in epochs],
        "model calls": [e.calls for e in epochs],
        "prompt tokens read": [e.read for e in epochs],
        "tokens written": [e.written for e in epochs],
        "tokens learned from": [e.learned for e in epochs],
    }
    for what, parts in counts.items():
        table.add_row(what, *_three(total(parts), _short))
    table.add_row("store", *_three(total([e.store_bytes for e in epochs]), _bytes))
    for what, times in (("collect time", [e.collect_s for e in epochs]), ("learn time", [e.learn_s for e in epochs])):
        seconds = summed(times)
        table.add_row(what, *(("-", "-", "-") if seconds is None else _three(seconds, _clock)))
    return table


def _three(spread: Spread, show: Callable[[float], str]) -> tuple[str, str, str]:
    return show(spread.low), show(spread.expected), show(spread.high)


def _alike(epochs: Sequence[Epoch]) -> list[list[Epoch]]:
    """Epochs with the same groups and updates together."""
    kinds: dict[str, list[Epoch]] = {}
    for epoch in epochs:
        kinds.setdefault(f"{epoch.groups} {epoch.updates}", []).append(epoch)
    return list(kinds.values())


def _role_table(outlook: Outlook) -> Any:
    """Expected calls and tokens of all epochs by role, with their price where there is one."""
    from rich.table import Table

    cost = outlook.cost
    table = Table("role", "calls", "read", "written", "price", title="all epochs, expected", box=SIMPLE)
    for role in dict.fromkeys(role for epoch in outlook.epochs for role in epoch.roles):
        used = [epoch.roles[role] for epoch in outlook.epochs if role in epoch.roles]
        amounts = [total([getattr(calls, name) for calls in used]) for name in ("calls", "read", "written")]
        price = cost.tokens.get(role)
        paid = "-" if price is None else f"{_amount(price)} {cost.currency}"
        table.add_row(role, *(_short(amount.expected) for amount in amounts), paid)
    return table


def _end_lines(outlook: Outlook) -> list[str]:
    epochs, cost = outlook.epochs, outlook.cost
    whole = summed([e.collect_s for e in epochs] + [e.learn_s for e in epochs])
    lines = []
    if whole is None:
        lines.append("time: no speed known; give --accelerator, --from STORE or --rate collect=...,learn=...")
    else:
        hours = "" if cost.hours is None else f" = {_amount(cost.hours)} GPU hours"
        lines.append(f"time: {_time(whole)}{hours}")
    if cost.total is not None:
        lines.append(f"cost: {_amount(cost.total)} {cost.currency}")
    lines += [f"{what}: {source}" for what, source in outlook.sources.items()]
    return [*lines, *(f"note: {note}" for note in outlook.notes)]


def _gb(value: float) -> str:
    return f"{value / GB:.2f}" if value < 100 * GB else f"{value / GB:.0f}"


def _short(value: float) -> str:
    for size, word in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{word}"
    return f"{value:.3g}"


def _with_range(spread: Spread, show: Callable[[float], str]) -> str:
    if spread.low == spread.high:
        return show(spread.expected)
    return f"{show(spread.expected)} ({show(spread.low)} to {show(spread.high)})"


def _bytes(value: float) -> str:
    return f"{_short(value)}B"


def _amount(spread: Spread) -> str:
    return _with_range(spread, lambda value: f"{value:,.2f}" if value < 100 else f"{value:,.0f}")


def _clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _time(spread: Spread | None) -> str:
    return "-" if spread is None else _with_range(spread, _clock)
