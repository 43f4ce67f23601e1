"""Run under torchrun by test_engine: two updates per ZeRO stage, losses, norms and the sum of weights as JSON.

Then one update with a datum on the last rank that is not a number: what each stage says about it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from collect.thin_transformers import UNUSED, transformers
from learn.attention import NAME
from learn.config import EngineConfig, OptimizerConfig
from learn.datum import Datum
from learn.engine import Engine, NonFiniteError, StaleDataError
from learn.network import Network
from learn.objective import Objective
from learn.packing import plan_packs
from learn.ranks import join, leave


def model(seed=0):
    torch.manual_seed(seed)
    config = transformers.Qwen3Config(
        vocab_size=37,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=True,
        initializer_range=0.3,
        attn_implementation=NAME,
    )
    return transformers.Qwen3ForCausalLM(config)


def datum(index, length):
    draw = np.random.default_rng(index)
    trained = draw.random(length) < 0.5
    trained[0], trained[-1] = False, True
    return Datum(
        datum_id=f"d{index}",
        stage="execution",
        trajectory_id=f"d{index}",
        group_id="0/t0",
        depth=0,
        token_ids=draw.integers(0, 37, length).astype(np.int32),
        trained=trained,
        logprobs=np.where(trained, -2.0, 0).astype(np.float32),
        advantages=np.where(trained, draw.normal(), 0).astype(np.float32),
        versions=np.where(trained, 0, -1).astype(np.int32),
        policy_version=0,
    )


CISPO = Objective("cispo", 0.0, 5.0)
M2PO = Objective("m2po", 0.0, 5.0, m2_bound=1.0)
BRAKED = Objective("cispo", 0.0, 5.0, kl_coef=0.5)
MANY = [5, 9, 2, 14, 7]


def open_engine(ranks, zero):
    config, optimizer = EngineConfig(zero=zero), OptimizerConfig(lr=1e-2)
    return Engine(Network(model()), ranks=ranks, config=config, optimizer=optimizer)


def figures(ranks, zero, datums, budget, objective=CISPO, start=None):
    engine = open_engine(ranks, zero)
    plan = plan_packs(datums, budget=budget, world_size=ranks.size)
    rows = [engine.update(plan, objective, version=v, start=start) for v in range(2)]
    total = sum(float(w.double().abs().sum()) for w in engine.weights().values())
    return [*(r[key] for r in rows for key in ("loss", "grad_norm", "entropy", "ratio_max", "kl")), total]


def fault(ranks, zero):
    """What an update says whose only bad datum lies on the last rank, and whether any weight moved."""
    engine, datums = open_engine(ranks, zero), [datum(i, n) for i, n in enumerate(MANY)]
    before = engine.weights()
    plan = plan_packs(datums, budget=14, world_size=ranks.size)
    bad = plan.of_rank(ranks.size - 1)[0].datums[-1]
    object.__setattr__(bad, "advantages", np.where(bad.trained, np.inf, 0).astype(np.float32))
    try:
        engine.update(plan, CISPO, version=0)
    except NonFiniteError as error:
        said = str(error)
    same = all(torch.equal(weight, before[name]) for name, weight in engine.weights().items())
    return {
        "bad": bad.datum_id,
        "pack": [d.datum_id for d in plan.of_rank(ranks.size - 1)[0].datums],
        "said": said,
        "same": same,
    }


def far(ranks, zero, datums):
    """What an update on too few effective samples says, and whether any weight moved."""
    engine, plan = open_engine(ranks, zero), plan_packs(datums, budget=14, world_size=ranks.size)
    before = engine.weights()
    try:
        engine.update(plan, Objective("cispo", 0.0, 5.0, min_ess=0.999), version=0)
    except StaleDataError as error:
        said = str(error)
    return said, all(torch.equal(weight, before[name]) for name, weight in engine.weights().items())


def everything(ranks):
    """Figures and faults of all stages, as one rank sees them."""
    found, faults = {}, {}
    # the last set is one datum, so that under two ranks one of them only holds an anchor
    many, one = [datum(i, n) for i, n in enumerate(MANY)], [datum(9, 6)]
    sets = {"accumulated": (many, 14), "whole": (many, 1000), "one": (one, 14)}
    for zero in (0, 1, 2, 3):
        for name, (datums, budget) in sets.items():
            found[f"zero {zero} {name}"] = figures(ranks, zero, datums, budget)
        faults[f"zero {zero}"] = fault(ranks, zero)
    frozen = Network(model(seed=1)).requires_grad_(False).eval()
    for zero in (0, 3):
        found[f"zero {zero} m2po"] = figures(ranks, zero, many, 14, M2PO)
        found[f"zero {zero} start"] = figures(ranks, zero, many, 14, BRAKED, frozen)
        faults[f"zero {zero}"]["far"] = far(ranks, zero, many)
    return {"figures": {k: [float(x) for x in v if x == x] for k, v in found.items()}, "faults": faults}


def main():
    ranks = join()
    # every rank writes, so that the test sees that none of them hangs or thinks otherwise
    found = {**everything(ranks), "unused": [name for name in UNUSED if name in sys.modules]}
    Path(f"{sys.argv[1]}.{ranks.rank}").write_text(json.dumps(found))
    leave()


if __name__ == "__main__":
    main()
