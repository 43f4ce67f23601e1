"""Run by test_checkpoint, under torchrun too: two updates, a checkpoint, two more; or the last two from the checkpoint.

Arguments: directory, then parts, each "NAME save|load CASE,CASE": a case is such as "2 lora", the ZeRO stage and
whether adapters or all weights are trained. What loads starts from other weights, so all of them must come from the
disk; only the frozen ones under adapters come from their policy when the shards were converted, as `learn.resume` does
it. Every part writes what it found as NAME-save-RANKS.json or NAME-load-RANKS.json.
"""

import json
import sys
from pathlib import Path

from learn.checkpoint import State, convert, latest, load, needs_conversion, save
from learn.config import EngineConfig, LoraConfig, OptimizerConfig
from learn.engine import Engine
from learn.lora import insert_adapters
from learn.network import Network
from learn.packing import plan_packs
from learn.ranks import join, leave
from tests.learn.two_ranks import CISPO, MANY, datum, model


def open_engine(ranks, case, *, seed, universal=False):
    zero, kind = case.split()
    start, lora = model(seed), LoraConfig(r=2, alpha=4) if kind == "lora" else None
    if lora is not None:
        insert_adapters(start, lora)
    config, optimizer = EngineConfig(zero=int(zero)), OptimizerConfig(lr=1e-2)
    return Engine(Network(start), ranks=ranks, config=config, optimizer=optimizer, universal=universal, lora=lora)


def update(engine, ranks, version):
    datums = [datum(i, n) for i, n in enumerate(MANY)]
    row = engine.update(plan_packs(datums, budget=14, world_size=ranks.size), CISPO, version=version)
    return [row["loss"], row["grad_norm"]]


def run(root, mode, case, ranks):
    """Losses and norms of the third and fourth update, and the sum of weights after them."""
    place = root / case.replace(" ", "-")
    if mode == "save":
        engine = open_engine(ranks, case, seed=0)
        for version in (0, 1):
            update(engine, ranks, version)
        state = State("r", 0, 2, 2, False, "p", "t", "s", world_size=ranks.size, zero=engine.zero)
        save(place, engine, state, keep=1)
    else:
        found = latest(place)
        universal = needs_conversion(found.state, ranks.size)
        if universal:
            convert(found, ranks)
        seed = 0 if universal and case.endswith("lora") else 1
        engine = open_engine(ranks, case, seed=seed, universal=universal)
        load(found, engine)
    rows = [*update(engine, ranks, 2), *update(engine, ranks, 3)]
    return [*rows, sum(float(w.double().abs().sum()) for w in engine.weights().values())]


def part(root, text, ranks):
    """Do one part; returns its figures by case."""
    name, mode, cases = text.split(" ", 2)
    found = {case: run(root / name, mode, case, ranks) for case in cases.split(",")}
    if ranks.first:
        (root / f"{name}-{mode}-{ranks.size}.json").write_text(json.dumps(found))
    return found


def main():
    ranks = join()
    for text in sys.argv[2:]:
        part(Path(sys.argv[1]), text, ranks)
    leave()


if __name__ == "__main__":
    main()
