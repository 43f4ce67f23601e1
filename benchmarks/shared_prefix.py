"""Shared prefixes on a sealed epoch: tokens computed / tokens of the naive layout, and the step time of both, by stage.

Each stage's batches are those of `sera learn` (its feed, its groups per update). Every update is planned twice, with
`engine.share_prefixes` off and on; the first ones of each stage are also stepped both ways on the given policy, in
turn, forward and backward, in CPU seconds of one thread. Loss and gradient norm must agree to 1e-5 and 1e-4, else no
time is reported and the exit code is 1. What `auto` chooses is shown by the last column. `--synthetic K` adds made-up
batches of K sequences that share a growing part of their length, which shows where sharing begins to pay.

Run: ``python benchmarks/shared_prefix.py [STORE] [--policy pocket] [--epoch 0] [--budget 2048] [--synthetic 8]``
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import sera_data
from collect.policy_directory import read_policy_directory
from learn.config import LearnConfig
from learn.datum import Datum
from learn.epochs import choose_epoch
from learn.feed import Feed
from learn.learn_cli import policy_directory
from learn.method import open_method
from learn.network import Network, load_network
from learn.objective import Objective
from learn.packing import Plan, micro_batch, plan_packs
from schemas.words import Stage

EXAMPLE = Path(__file__).parents[1] / "examples" / "store"
CISPO = Objective("cispo", 0.0, 5.0)
ROUNDS = 3
NEWEST = 10**6
"""A policy version that no stored turn can be newer than."""


def meals(
    store: Path, epoch: int | None, method: str, groups: int, tokenizer: str | None
) -> dict[str, list[list[Datum]]]:
    """Batches of datums by stage, about `groups` groups an update, until the stage has none left."""
    opened, rules = sera_data.open(store), open_method(method)
    chosen = choose_epoch(opened, epoch)
    found: dict[str, list[list[Datum]]] = {}
    with opened.connect(view="sealed", epochs=[chosen]) as connection:

        def feed(stage: Stage, updates: int) -> Feed:
            body = {"method": method, "schedule": f"{stage}:1", "updates_per_collect": updates}
            config = LearnConfig.model_validate({**body, "loss": {"stale": {"beyond": "allow"}}})
            return Feed(connection, config=config, method=rules, epoch=chosen, start=NEWEST, tokenizer_sha256=tokenizer)

        for stage in rules.stages:
            updates = max(1, round(len(feed(stage, 1).order[stage]) / groups))
            source, used = feed(stage, updates), 0
            batches = []
            for done in range(updates):
                meal = source.next(version=NEWEST, done=done, consumed={stage: used})
                used += len(meal.groups)
                batches.append(meal.datums)
            found[stage] = [batch for batch in batches if batch]
    return found


def step(network: Network, plan: Plan) -> tuple[float, float, float]:
    """(loss, gradient norm, CPU seconds) of one forward and backward over a plan."""
    network.zero_grad()
    started, total = time.process_time(), 0.0
    for pack in plan.packs:
        batch = micro_batch(pack)
        logprobs, _ = network(batch)
        loss = CISPO.total(logprobs, batch.tokens) / plan.n_trained
        loss.backward()
        total += loss.item()
    seconds = time.process_time() - started
    norm = float(torch.nn.utils.get_total_norm([p.grad for p in network.parameters() if p.grad is not None]))
    return total, norm, seconds


def both(network: Network, datums: list[Datum], budget: int) -> tuple[float, float]:
    """CPU seconds of the rows and of the tree, medians of rounds in turn; exits when their numbers differ."""
    plans = {share: plan_packs(datums, budget=budget, share=share) for share in ("off", "on")}
    first = {share: step(network, plan) for share, plan in plans.items()}
    (loss, norm, _), (other, other_norm, _) = first["off"], first["on"]
    if abs(loss - other) > 1e-5 * max(1, abs(loss)) or abs(norm - other_norm) > 1e-4 * norm:
        sys.exit(f"the layouts differ: loss {loss} and {other}, gradient norm {norm} and {other_norm}")
    seconds: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(ROUNDS):
        for share, plan in plans.items():
            seconds[share].append(step(network, plan)[2])
    return statistics.median(seconds["off"]), statistics.median(seconds["on"])


def real(args: argparse.Namespace, network: Network, table: Table) -> None:
    """One row per stage of the epoch."""
    tokenizer = read_policy_directory(policy_directory(args.policy)).tokenizer_sha256
    for stage, batches in meals(args.store, args.epoch, args.method, args.groups, tokenizer).items():
        if not batches:
            table.add_row(stage, "0", "", "", "", "", "", "no group can train")
            continue
        plans = {s: [plan_packs(d, budget=args.budget, share=s) for d in batches] for s in ("on", "auto")}
        naive = sum(len(datum) for batch in batches for datum in batch)
        computed = sum(plan.n_computed for plan in plans["on"])
        chosen = sum(plan.n_computed for plan in plans["auto"])
        times = [both(network, batch, args.budget) for batch in batches[: args.steps]]
        off, on = (sum(t[i] for t in times) for i in (0, 1))
        n = str(sum(map(len, batches)))
        numbers = (
            f"{naive:,}",
            f"{computed:,}",
            f"{computed / naive:.3f}",
            f"{off:.2f}",
            f"{on:.2f}",
            f"{on / off:.2f}",
        )
        table.add_row(stage, n, *numbers, f"{chosen / naive:.3f}")


def made_up(args: argparse.Namespace, network: Network, table: Table) -> None:
    """K sequences of 256 tokens, of which a growing share is common; half of each sequence's own tokens is trained."""
    vocabulary = network.model.config.vocab_size if network.model.lm_head.allowed is None else None
    tokens = np.arange(vocabulary) if vocabulary else np.flatnonzero(network.model.lm_head.allowed.numpy())
    draw = np.random.default_rng(0)
    for percent in (0, 5, 10, 20, 40, 80):
        common = draw.choice(tokens, 256 * percent // 100)
        own = [draw.choice(tokens, 256 - len(common)) for _ in range(args.synthetic)]
        datums = [made(f"d{i}", np.concatenate([common, rest])) for i, rest in enumerate(own)]
        plans = {s: plan_packs(datums, budget=args.budget, share=s) for s in ("on", "auto")}
        naive = sum(map(len, datums))
        off, on = both(network, datums, args.budget)
        ratios = (f"{plans['on'].n_computed / naive:.3f}", f"{off:.2f}", f"{on:.2f}", f"{on / off:.2f}")
        sizes = (str(args.synthetic), f"{naive:,}", f"{plans['on'].n_computed:,}")
        table.add_row(f"{percent} % common", *sizes, *ratios, f"{plans['auto'].n_computed / naive:.3f}")


def made(name: str, ids: np.ndarray) -> Datum:
    """A datum whose second half is trained."""
    trained = np.arange(len(ids)) >= len(ids) // 2
    zeros = np.zeros(len(ids), np.float32)
    datum = Datum(
        datum_id=name,
        stage="execution",
        trajectory_id=name,
        group_id="0/t",
        depth=0,
        token_ids=ids.astype(np.int32),
        trained=trained,
        logprobs=np.where(trained, -1, 0).astype(np.float32),
        advantages=zeros,
        versions=np.where(trained, 0, -1).astype(np.int32),
        policy_version=0,
    )
    return replace(datum, advantages=np.where(trained, 1, 0).astype(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path, nargs="?", default=EXAMPLE)
    parser.add_argument("--policy", default="pocket")
    parser.add_argument("--method", default="sera")
    parser.add_argument("--epoch", type=int)
    parser.add_argument("--groups", type=int, default=8, help="groups of an update")
    parser.add_argument("--budget", type=int, default=2048, help="tokens of a micro-batch")
    parser.add_argument("--steps", type=int, default=1, help="updates of each stage that are timed")
    parser.add_argument("--synthetic", type=int, default=0, metavar="K", help="also K made-up sequences")
    args = parser.parse_args()
    torch.set_num_threads(1)
    network = load_network(policy_directory(args.policy), dtype=torch.float32)
    names = ("stage", "sequences", "tokens", "computed", "share", "rows: CPU s", "tree: CPU s", "time ratio", "auto")
    title = f"{args.store}: {args.groups} groups an update, micro-batches of {args.budget} tokens"
    table = Table(*names, title=title)
    real(args, network, table)
    if args.synthetic:
        made_up(args, network, table)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
