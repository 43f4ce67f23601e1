"""Run under torchrun by test_checkpoint: two updates, a checkpoint, two more; or the last two from the checkpoint."""

import json
import sys
from pathlib import Path

from learn.checkpoint import State, convert, latest, load, needs_conversion, save
from learn.config import EngineConfig, OptimizerConfig
from learn.engine import Engine
from learn.network import Network
from learn.objective import Objective
from learn.packing import plan_packs
from learn.ranks import join, leave
from tests.learn.two_ranks import datum, model


def main():
    root, zero, mode = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    ranks = join()
    found = latest(root / "checkpoints")
    universal = found is not None and needs_conversion(found.state, ranks.size)
    if universal:
        convert(found, ranks)
    config = EngineConfig(zero=zero)
    engine = Engine(
        Network(model()), ranks=ranks, config=config, optimizer=OptimizerConfig(lr=1e-2), universal=universal
    )
    datums = [datum(i, n) for i, n in enumerate([5, 9, 2, 14, 7])]

    def update(version):
        plan = plan_packs(datums, budget=14, world_size=ranks.size)
        row = engine.update(plan, Objective("cispo", 0.0, 5.0), version=version)
        return [row["loss"], row["grad_norm"]]

    if mode == "save":
        update(0), update(1)
        state = State("r", 0, 2, 2, False, "p", "t", "s", world_size=ranks.size, zero=zero)
        save(root / "checkpoints", engine, state, keep=1)
    else:
        load(found, engine)
    rows = update(2) + update(3)
    if ranks.first:
        (root / f"{mode}.json").write_text(json.dumps(rows))
    leave()


if __name__ == "__main__":
    main()
