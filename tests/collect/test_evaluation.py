"""Evaluations: figures from the store, intervals against other libraries' formulas, comparisons paired by task."""

import json
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import sera_data as sd
from collect.evaluation import EvalRequest, compare, eval_phase, find_evaluation, report, run_evaluation
from collect.intervals import bootstrap_mean, paired_difference, success_at, wilson
from collect.policies import with_model
from collect.tasks import load_tasks
from sera_data.cli import main
from sera_data.errors import UsageError
from tests.collect.job_lab import POOL, small_config


@pytest.mark.parametrize(("wins", "n"), [(0, 10), (7, 10), (10, 10), (316, 632), (1, 1000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_wilson_equals_scipy(wins, n, confidence):
    theirs = stats.binomtest(wins, n).proportion_ci(confidence_level=confidence, method="wilson")
    ours = wilson(wins, n, confidence=confidence)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_bootstrap_agrees_with_the_normal_interval_and_repeats():
    values = list(np.random.default_rng(3).random(400))
    ours = bootstrap_mean(values)
    half = 1.959964 * np.std(values, ddof=1) / np.sqrt(len(values))
    assert ours.low == pytest.approx(ours.value - half, abs=0.003)
    assert ours.high == pytest.approx(ours.value + half, abs=0.003)
    assert bootstrap_mean(values) == ours


def test_success_at_k_equals_enumeration():
    samples = [1, 0, 0, 1, 0, 0]
    for k in range(1, 7):
        draws = [any(pick) for pick in combinations(samples, k)]
        assert success_at(k, n=6, successes=2) == pytest.approx(sum(draws) / len(draws))
    with pytest.raises(ValueError, match="needs at least 7"):
        success_at(7, n=6, successes=2)


def test_pairing_removes_what_tasks_have_in_common():
    rng = np.random.default_rng(0)
    before = {f"t{i}": float(rng.random() < 0.5) for i in range(200)}
    after = {task: min(1.0, value + 0.1) for task, value in before.items()} | {"only-after": 1.0}
    found = paired_difference(before, after)
    assert found.n == 200
    assert 0.03 < found.low <= found.value <= found.high < 0.08


def row(task, sample, success, **more):
    return {
        "run_id": "r", "epoch": 0, "protocol": "t1", "policy": "p", "policy_version": 0, "weights_sha256": None,
        "temperature": 1.0, "task_id": task, "sample": sample, "difficulty": "easy", "success": success,
        "outcome": "infra_error" if success is None else "finished", "n_turns": 1, "n_nodes": 1,
        "n_delegations": 0, "n_completion_tokens": 0, **more,
    }  # fmt: skip


def test_infrastructure_errors_are_counted_apart():
    body = report([row("a", 0, True), row("a", 1, None), row("b", 0, False), row("b", 1, True)])
    assert (body["success"], body["trees"], body["infra_errors"]) == (2 / 3, 3, 1)
    assert body["success_at"] == {"1": 0.75}
    assert body["outcomes"] == {"finished": 3, "infra_error": 1}


def test_differences_are_paired_by_task():
    before = [row(task, sample, task == "a") for task in "abc" for sample in range(2)]
    after = [row(task, sample, task in "ab" and sample == 0, run_id="s") for task in "abd" for sample in range(2)]
    body = compare(before, after)
    assert (body["tasks"], body["unpaired"]) == (2, 2)
    assert body["difference"]["value"] == pytest.approx((-0.5 + 0.5) / 2)
    assert body["difference_at_2"]["value"] == pytest.approx((0 + 1) / 2)


def request(model):
    config = small_config()
    phase = eval_phase(config, n_tasks=5, samples=2, temperature=1.0)
    return EvalRequest(phase, with_model(phase.policy, model), load_tasks(phase))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    store = sd.create(tmp_path_factory.mktemp("evals"))
    runs = [run_evaluation(store, request(f"scripted:{name}"), quiet=True) for name in ("oracle", "careless")]
    return store, runs


def test_evaluations_are_stored_sealed_and_found_by_run(evaluated):
    store, runs = evaluated
    assert [complete for _, complete in runs] == [True, True]
    oracle, careless = (find_evaluation(store, run) for run, _ in runs)
    assert report(oracle)["success"] == 1.0
    assert report(careless)["success"] < 1.0
    assert {row["task_id"] for row in oracle} == {row["task_id"] for row in careless}
    assert compare(oracle, careless)["difference"]["value"] < 0
    assert store.sealed_names() == ["e000000", "e000001"]
    assert store.nodes.pl()["purpose"].unique().to_list() == ["eval"]
    assert store.rubrics.pl().is_empty()
    sd.verify(store)
    with pytest.raises(UsageError, match="must name one evaluation"):
        find_evaluation(store, "0")


def test_a_finished_evaluation_is_reported_again_and_not_repeated(evaluated):
    store, runs = evaluated
    assert run_evaluation(store, request("scripted:oracle"), quiet=True) == runs[0]
    assert store.sealed_names() == ["e000000", "e000001"]


def test_the_command_prints_success_and_compares(evaluated, capsys):
    store, runs = evaluated
    assert main(["eval", "--store", str(store.path), "--compare", runs[0][0], runs[1][0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["difference"]["n"] == 5
    assert main(["eval", "--store", str(store.path), "--compare", "7", "8"]) == 2
    assert "it names none" in capsys.readouterr().err
    arguments = ["--policy", "scripted:oracle", "--set", "world.profile=strict", "--set", POOL]
    assert main(["eval", "--store", "unused", "--samples", "2", "--limit", "3", "--dry-run", "--json", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["trees"] == 6
