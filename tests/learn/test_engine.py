"""The engine: the same step whatever the split, the ZeRO stage and the number of ranks; bad numbers change nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from learn.attention import NAME
from learn.config import EngineConfig, OptimizerConfig
from learn.engine import Engine, NonFiniteError
from learn.network import Network
from learn.objective import Objective
from learn.packing import plan_packs
from learn.ranks import join

LENGTHS = [5, 9, 2, 14, 7, 7, 3]
CISPO = Objective("cispo", 0.0, 5.0)
TWO_RANKS = Path(__file__).with_name("two_ranks.py")


@pytest.fixture
def engine(tiny_model):
    ranks = join()

    def build(zero=0, *, tied=True, lr=1e-2):
        model = tiny_model(tied=tied)
        model.set_attn_implementation(NAME)
        return Engine(Network(model), ranks=ranks, config=EngineConfig(zero=zero), optimizer=OptimizerConfig(lr=lr))

    return build


def reference(model, datums, steps, lr):
    """Plain PyTorch: full logits of every sequence alone, clipping, AdamW."""
    adam = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.017)
    losses, norms = [], []
    n = sum(d.n_trained for d in datums)
    for _ in range(steps):
        total = torch.zeros(())
        for d in datums:
            ids = torch.as_tensor(d.token_ids, dtype=torch.int64)
            logp = model(input_ids=ids[None], use_cache=False).logits[0].log_softmax(-1)
            chosen = torch.as_tensor(np.flatnonzero(d.trained))
            current = logp[chosen - 1, ids[chosen]]
            ratio = (current.detach() - torch.as_tensor(d.logprobs)[chosen]).exp().clamp(0, 5)
            total = total - (ratio * torch.as_tensor(d.advantages)[chosen] * current).sum()
        (total / n).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        adam.step()
        adam.zero_grad()
        losses.append(total.item() / n)
    return losses, norms


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("budget", [14, 1000])
def test_every_stage_and_split_makes_the_plain_step(engine, tiny_model, make_datums, zero, budget):
    datums = make_datums(LENGTHS)
    plain = tiny_model()
    losses, norms = reference(plain, datums, 2, 1e-2)
    mine = engine(zero)
    rows = [mine.update(plan_packs(datums, budget=budget), CISPO, version=v) for v in range(2)]
    assert [r["loss"] for r in rows] == pytest.approx(losses, abs=1e-5)
    assert [r["grad_norm"] for r in rows] == pytest.approx(norms, rel=1e-4)
    weights = mine.weights()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(weights[name], parameter.detach(), atol=2e-5, rtol=1e-4, msg=name)


def test_untied_weights_under_zero_3(engine, tiny_model, make_datums):
    datums = make_datums(LENGTHS)
    plain = tiny_model(tied=False)
    losses, _ = reference(plain, datums, 2, 1e-2)
    mine = engine(3, tied=False)
    rows = [mine.update(plan_packs(datums, budget=14), CISPO, version=v) for v in range(2)]
    assert [r["loss"] for r in rows] == pytest.approx(losses, abs=1e-5)
    assert "lm_head.weight" in mine.weights()


def test_ratio_is_one_on_data_of_the_same_weights(engine, make_datums, fresh):
    mine = engine()
    datums = fresh(mine.deepspeed.module, make_datums(LENGTHS))
    row = mine.update(plan_packs(datums, budget=20), CISPO, version=0)
    assert row["ratio_mean"] == pytest.approx(1, abs=1e-6)
    assert row["ratio_max"] == pytest.approx(1, abs=1e-5)
    assert row["clip_share"] == 0
    assert row["ess"] == pytest.approx(1, abs=1e-6)
    assert row["mismatch"] < 1e-6


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_a_non_finite_gradient_stops_with_the_datum_and_changes_no_weight(engine, make_datums, zero):
    mine = engine(zero)
    before = mine.weights()
    bad = make_datums(LENGTHS)
    object.__setattr__(bad[2], "advantages", np.where(bad[2].trained, np.inf, 0).astype(np.float32))
    with pytest.raises(NonFiniteError, match="d02"):
        mine.update(plan_packs(bad, budget=14), CISPO, version=0)
    for name, weight in mine.weights().items():
        assert torch.equal(weight, before[name])


def test_the_learning_rate_of_a_braked_stage(engine, make_datums):
    mine = engine(lr=1e-2)
    before = mine.weights()
    row = mine.update(plan_packs(make_datums(LENGTHS), budget=100), CISPO, version=0, lr_scale=0.0)
    assert row["lr"] == 0
    assert all(torch.equal(w, before[n]) for n, w in mine.weights().items())


@pytest.mark.slow
def test_two_ranks_make_the_step_of_one(tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = {}
    for size in (1, 2):
        out = tmp_path / f"{size}.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(size)]
        subprocess.run([*command, str(TWO_RANKS), str(out)], check=True, env=env, timeout=300)
        found[size] = json.loads(out.read_text())
    assert found[1].keys() == found[2].keys()
    for case, row in found[1].items():
        assert row == pytest.approx(found[2][case], rel=1e-5, abs=1e-6), case
