"""The engine: the same step whatever the split, the ZeRO stage and the number of ranks; bad numbers change nothing."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from learn.attention import NAME
from learn.config import EngineConfig, OptimizerConfig
from learn.engine import Engine, NonFiniteError, open_engine, zero_stage
from learn.network import Network
from learn.objective import Objective
from learn.packing import plan_packs
from learn.ranks import join
from sera_data.errors import ConfigError
from tests.learn.puppet import make_policy
from tests.learn.two_ranks import everything

LENGTHS = [5, 9, 2, 14, 7, 7, 3]
CISPO = Objective("cispo", 0.0, 5.0)
TWO_RANKS = Path(__file__).with_name("two_ranks.py")


@pytest.fixture
def engine(tiny_model):
    ranks = join()

    def build(zero=0, *, tied=True, lr=1e-2, **settings):
        model = tiny_model(tied=tied)
        model.set_attn_implementation(NAME)
        config = EngineConfig(zero=zero, **settings)
        model.to(torch.bfloat16 if config.dtype == "bfloat16" else torch.float32)
        return Engine(Network(model), ranks=ranks, config=config, optimizer=OptimizerConfig(lr=lr))

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


SETTINGS = [
    *({"zero": zero, "dtype": dtype} for zero in (0, 1, 2, 3) for dtype in ("float32", "bfloat16")),
    {"zero": 1, "offload": "optimizer"},
    {"zero": 2, "offload": "optimizer", "dtype": "bfloat16"},
    {"zero": 3, "offload": "parameters"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: " ".join(map(str, s.values())))
def test_a_non_finite_gradient_stops_with_the_datum_and_changes_nothing(engine, make_datums, settings):
    """Neither weights nor masters nor moments: the update after it is that of an engine that never saw it."""
    struck, spared = engine(**settings), engine(**settings)
    good, bad = make_datums(LENGTHS), make_datums(LENGTHS)
    object.__setattr__(bad[2], "advantages", np.where(bad[2].trained, np.inf, 0).astype(np.float32))
    for mine in (struck, spared):
        mine.update(plan_packs(good, budget=14), CISPO, version=0)
    before = struck.weights()
    with pytest.raises(NonFiniteError, match=r"datums of the update: (d\d\d, )*d02"):
        struck.update(plan_packs(bad, budget=14), CISPO, version=1)
    assert all(torch.equal(weight, before[name]) for name, weight in struck.weights().items())
    rows = [mine.update(plan_packs(good, budget=14), CISPO, version=1) for mine in (struck, spared)]
    assert rows[0]["grad_norm"] == rows[1]["grad_norm"]
    there = spared.weights()
    assert all(torch.equal(weight, there[name]) for name, weight in struck.weights().items())
    assert any(not torch.equal(weight, before[name]) for name, weight in there.items())


@pytest.mark.parametrize(("zero", "offload"), [(1, "optimizer"), (2, "optimizer"), (3, "optimizer"), (3, "parameters")])
def test_offload_makes_the_plain_step(engine, tiny_model, make_datums, zero, offload):
    datums, plain, mine = make_datums(LENGTHS), tiny_model(), engine(zero=zero, offload=offload)
    losses, norms = reference(plain, datums, 2, 1e-2)
    rows = [mine.update(plan_packs(datums, budget=14), CISPO, version=v) for v in range(2)]
    assert [r["loss"] for r in rows] == pytest.approx(losses, abs=1e-5)
    assert [r["grad_norm"] for r in rows] == pytest.approx(norms, rel=1e-4)


def test_offload_that_a_stage_cannot_do_is_refused(engine):
    with pytest.raises(ConfigError, match=r"needs ZeRO stage 3 or more, engine\.zero is 2"):
        engine(zero=2, offload="parameters")
    cpu = torch.device("cpu")
    assert [zero_stage(EngineConfig(offload=o), cpu) for o in ("none", "optimizer", "parameters")] == [0, 1, 3]


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_half_precision_learns_what_its_own_weights_cannot_hold(engine, make_datums, zero):
    """Steps far below the spacing of bf16 add up in the fp32 masters until the weights move."""
    mine, datums = engine(zero=zero, dtype="bfloat16", lr=1e-5), make_datums(LENGTHS)
    before = mine.weights()
    assert {w.dtype for w in before.values()} == {torch.bfloat16}
    moved = []
    for version in range(4):
        row = mine.update(plan_packs(datums, budget=14), CISPO, version=version)
        assert np.isfinite([row["loss"], row["grad_norm"], row["entropy"]]).all()
        moved.append(sum(int((w != before[n]).sum()) for n, w in mine.weights().items()))
    total = sum(w.numel() for w in before.values())
    assert moved[0] < 0.2 * total  # most single steps vanish in bf16
    assert moved[3] > 1.5 * moved[0]  # but not in the masters


@pytest.mark.parametrize("zero", [0, 3])
def test_recomputed_activations_make_the_same_step(tmp_path, make_datums, zero):
    policy, rows, weights = make_policy(tmp_path), [], []
    for recompute in (False, True):
        config = EngineConfig(zero=zero, recompute=recompute)
        mine = open_engine(policy.path, ranks=join(), config=config, optimizer=OptimizerConfig(lr=1e-2))
        assert mine.deepspeed.module.model.is_gradient_checkpointing == recompute
        rows.append([mine.update(plan_packs(make_datums(LENGTHS), budget=14), CISPO, version=v) for v in range(2)])
        weights.append(mine.weights())
    for name in ("loss", "grad_norm"):
        assert [r[name] for r in rows[0]] == [r[name] for r in rows[1]]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_the_learning_rate_of_a_braked_stage(engine, make_datums):
    mine = engine(lr=1e-2)
    before = mine.weights()
    row = mine.update(plan_packs(make_datums(LENGTHS), budget=100), CISPO, version=0, lr_scale=0.0)
    assert row["lr"] == 0
    assert all(torch.equal(w, before[n]) for n, w in mine.weights().items())


@pytest.fixture(scope="module")
def by_ranks(tmp_path_factory):
    """What two_ranks.py says, by number of processes, a row per rank; two of them run under torchrun."""
    out = tmp_path_factory.mktemp("ranks") / "found.json"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    subprocess.run([*command, str(TWO_RANKS), str(out)], check=True, env=env)
    found = {1: [everything(join())], 2: [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(2)]}
    return found


@pytest.mark.slow
def test_the_token_mean_is_global_for_any_split_into_ranks_and_micro_batches(by_ranks):
    """1 rank = 2 ranks = 2 ranks with accumulation, and with a rank that has nothing but an anchor."""
    one, two = by_ranks[1][0]["figures"], by_ranks[2][0]["figures"]
    assert one.keys() == two.keys()
    for case, row in one.items():
        assert two[case] == pytest.approx(row, rel=1e-5, abs=1e-6), case
    for figures in (one, two):
        for zero in (0, 3):  # the mask of m2po and the start weights make a difference, the same on all ranks
            plain, m2po, start = (figures[f"zero {zero} {case}"] for case in ("accumulated", "m2po", "start"))
            assert abs(plain[0] - m2po[0]) > 1e-3
            assert abs(plain[0] - start[0]) > 1e-3
        for zero in (0, 1, 2, 3):
            many = figures[f"zero {zero} accumulated"], figures[f"zero {zero} whole"], figures["zero 0 whole"]
            assert many[0] == pytest.approx(many[1], rel=1e-5, abs=1e-6)
            assert many[1] == pytest.approx(many[2], rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_a_bad_datum_of_one_rank_stops_all_of_them_with_its_id(by_ranks):
    for size, said in by_ranks.items():
        for found in said:
            for zero, fault in found["faults"].items():
                assert f"datums of the update: {', '.join(fault['pack'])}" in fault["said"], (size, zero)
                assert fault["bad"] in fault["pack"]
                assert fault["same"], (size, zero)


@pytest.mark.slow
def test_too_few_effective_samples_stop_all_ranks_with_the_same_number(by_ranks):
    said = [found["faults"][f"zero {zero}"]["far"] for rows in by_ranks.values() for found in rows for zero in (0, 3)]
    assert len({text for text, _ in said}) == 1
    assert "effective sample size 0." in said[0][0]
    assert all(same for _, same in said)


@pytest.mark.slow
def test_no_rank_has_imported_what_it_does_not_use(by_ranks):
    assert find_spec("sklearn") is not None  # it is there, and transformers would
    assert [found["unused"] for found in by_ranks[2]] == [[], []]


def test_an_engine_on_cpu_reserves_no_address_space_that_it_never_touches(engine):
    def reserved():
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
        return int(line.split()[1]) / 2**20  # GiB

    first = engine(zero=3)
    before = reserved()
    second = engine(zero=3)
    assert reserved() - before < 1.0, "a fork of a process with many such engines is refused"
    assert first is not second
