"""Run under torchrun by test_engine: two updates per ZeRO stage, losses, norms and the sum of weights as JSON."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from learn.attention import NAME
from learn.config import EngineConfig, OptimizerConfig
from learn.datum import Datum
from learn.engine import Engine
from learn.network import Network
from learn.objective import Objective
from learn.packing import plan_packs
from learn.ranks import join, leave


def model():
    torch.manual_seed(0)
    config = Qwen3Config(
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
    return Qwen3ForCausalLM(config)


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


def main():
    ranks = join()
    found = {}
    # the second set is one datum, so that under two ranks one of them only holds an anchor
    sets = {"many": [datum(i, n) for i, n in enumerate([5, 9, 2, 14, 7])], "one": [datum(9, 6)]}
    for zero in (0, 1, 2, 3):
        for name, datums in sets.items():
            engine = Engine(
                Network(model()), ranks=ranks, config=EngineConfig(zero=zero), optimizer=OptimizerConfig(lr=1e-2)
            )
            plan = plan_packs(datums, budget=14, world_size=ranks.size)
            rows = [engine.update(plan, Objective("cispo", 0.0, 5.0), version=v) for v in range(2)]
            total = sum(float(w.double().abs().sum()) for w in engine.weights().values())
            figures = [r[key] for r in rows for key in ("loss", "grad_norm", "entropy", "ratio_max", "kl")]
            found[f"zero {zero} {name}"] = [*figures, total]
    if ranks.first:
        Path(sys.argv[1]).write_text(json.dumps({k: [float(x) for x in v if x == x] for k, v in found.items()}))
    leave()


if __name__ == "__main__":
    main()
