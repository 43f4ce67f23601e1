import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from learn import plan_store
from learn.loop_cli import app as loop_app
from learn.plan_cli import app
from learn.plan_store import CollectSpeed, collect_speed
from learn.spread import Spread
from sera_data.errors import UsageError

ROOT = Path(__file__).parents[2]
STORE = ROOT / "examples" / "store"
TEXTCRAFT, TEXTWORLD = ROOT / "configs" / "h200_textcraft.yaml", ROOT / "configs" / "h200_textworld.yaml"
CLUSTER = ["--nodes", "2", "--gpus", "8", "--accelerator", "h200"]


def plan(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def loop(config, *more):
    result = CliRunner().invoke(
        loop_app, ["--config", str(config), "--out", "nowhere", "--dry-run", "--json", *more], catch_exceptions=False
    )
    return json.loads(result.stdout)


@pytest.mark.parametrize("path,updates,context,reply", [(TEXTCRAFT, 250, 10_240, 512), (TEXTWORLD, 400, 13_312, 3072)])
def test_the_papers_settings_resolve_on_any_machine(path, updates, context, reply, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = loop(path)
    config = body["config"]
    learn, collect = config["learn"], config["collect"]
    assert body["start"] == {
        "policy": "/models/Qwen3-4B-Instruct-2507", "version": None, "here": False, "engine": "vllm"
    }  # fmt: skip
    assert config["epochs"] * learn["updates_per_collect"] == updates
    assert (learn["groups_per_update"], collect["samples"]) == (8, 8)
    optimizer = learn["optimizer"]
    assert (optimizer["lr"], optimizer["weight_decay"], optimizer["betas"]) == (3e-6, 0.017, [0.9, 0.95])
    assert (optimizer["eps"], optimizer["gradient_clip"]) == (1e-8, 1.0)
    assert (learn["loss"]["ratio_min"], learn["loss"]["ratio_max"]) == (0.0, 5.0)
    assert learn["engine"]["tokens_per_micro_batch"] == 60_000
    budgets, sampling = collect["budgets"], collect["sampling"]
    assert (budgets["turns"], budgets["depth"], budgets["context"]) == (20, 3, context)
    assert (sampling["act"]["max_tokens"], sampling["act"]["temperature"]) == (reply, 1.0)
    assert (sampling["writer"]["temperature"], sampling["scorer"]["temperature"]) == (1.0, 0.0)
    assert (collect["delegation"]["k"], collect["delegation"]["environment_cap"]) == (8, 16)
    assert collect["rubric"]["min_items"] == 2
    assert list(tmp_path.iterdir()) == []  # a rehearsal leaves nothing


def test_the_options_of_the_serving_engine_are_ones_that_it_takes():
    from collect.vllm_options import VllmOptions, read_vllm_options

    for path in (TEXTCRAFT, TEXTWORLD):
        found = read_vllm_options(VllmOptions, loop(path)["config"]["collect"]["policy"]["options"])
        assert (found.dtype, found.memory) == ("bfloat16", 0.9)


def test_the_schedule_of_the_first_two_epochs_is_that_of_the_method():
    body = plan("--config", TEXTCRAFT, *CLUSTER)
    assert body["epochs"][0]["groups"] == {"execution": 120}
    assert body["epochs"][1]["groups"] == {"execution": 72, "delegation": 24, "rubric": 24}
    assert body["total"]["updates"] == 250
    assert body["total"]["trees"] == 25 * 120 * 8


def test_an_unknown_engine_or_a_contradiction_is_refused_in_the_rehearsal():
    with pytest.raises(UsageError, match="no engine 'sglang'"):
        loop(TEXTCRAFT, "--set", "engine=sglang")
    from sera_data.errors import ConfigError

    with pytest.raises(ConfigError, match=r"needs rubrics in execution groups"):
        loop(TEXTCRAFT, "--set", "collect.rubric={for: [rubric]}")


def test_the_24_gb_question_has_an_answer():
    with_adapters = ["--model", "qwen3-4b", "--lora", "16", "--gpu-memory", "24"]
    small = ["--set", "learn.engine.recompute=true", "--set", "learn.engine.tokens_per_micro_batch=16384"]
    stages = plan(*with_adapters, *small)["memory"]["stages"]
    assert [s["fits"] for s in stages] == [True] * 4
    assert all(s["most_tokens_per_micro_batch"] > 16_384 for s in stages)
    assert not any(s["fits"] for s in plan("--model", "qwen3-4b", "--gpu-memory", "24", *small)["memory"]["stages"])


def test_a_kl_brake_counts_its_frozen_weights():
    body = plan("--model", "qwen3-4b", "--gpu-memory", "80", "--set", "learn.loss.kl_coef={rubric: 0.05}")
    assert [s["parts"]["start"] for s in body["memory"]["stages"]] == [2 * body["model"]["parameters"]] * 4


def test_the_edges_of_a_phase_are_what_its_middle_does_not_explain():
    phase = {"elapsed_s": 10.0, "middle_tokens": 800, "tokens": 1200, "processes": 2}
    speed = collect_speed([phase, {**phase, "tokens": 2000}, {**phase, "middle_tokens": None}])
    assert speed.tokens.expected == 80.0  # 800 tokens in 5 seconds of two processes
    assert (speed.edge.low, speed.edge.high) == (0.0, 2.5)  # 10 s - 1,200 / 160 a second; nothing where all fits
    assert collect_speed([]) is None


def test_a_store_lends_its_figures():
    body = plan("--config", ROOT / "configs" / "demo.yaml", "--from", STORE)
    assert set(body["sources"].values()) == {"measured"}
    epoch = body["epochs"][0]
    assert epoch["trees"] == 152  # as many as the epochs of that store, so the plan must find what is there
    found = sum(role["calls"]["expected"] for role in epoch["roles"].values())
    turns = sum(pq.read_metadata(path).num_rows for path in STORE.glob("epochs/*/turns.parquet"))
    assert found == pytest.approx(turns / 2, rel=1e-3)
    sizes = sum(path.stat().st_size for path in STORE.glob("epochs/*/*.parquet"))
    assert epoch["store_bytes"]["expected"] == pytest.approx(sizes / 2, rel=1e-3)
    for phase in ("collect_s", "learn_s"):
        assert epoch[phase]["low"] < epoch[phase]["expected"] < epoch[phase]["high"]


def test_twice_the_samples_write_twice_as_much_and_pay_the_edges_once(monkeypatch):
    edge = 7.0  # of a store whose phases have one; those of the shipped store have none
    monkeypatch.setattr(plan_store, "collect_speed", lambda rows: CollectSpeed(Spread.of(500.0), Spread.of(edge)))
    one, two = (
        plan("--config", ROOT / "configs" / "demo.yaml", "--from", STORE, "--set", f"collect.samples={n}")["epochs"][0]
        for n in (8, 16)
    )
    assert two["roles"]["act"]["written"]["expected"] == pytest.approx(2 * one["roles"]["act"]["written"]["expected"])
    assert two["collect_s"]["expected"] == pytest.approx(2 * one["collect_s"]["expected"] - edge, abs=0.01)


def test_given_figures_replace_measured_ones_and_other_settings_are_told():
    body = plan(
        "--config", TEXTCRAFT, "--from", STORE, *CLUSTER, "--rate", "collect=9000", "--rate", "learn=8000,12000,14000"
    )
    assert (body["sources"]["collect speed"], body["sources"]["learn speed"]) == ("given", "given")
    assert "budgets.turns" in body["notes"][0]


def test_prices_and_gpu_hours_make_a_cost(tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nmodels: {judge: {input: 1.0, output: 4.0}}\n")
    body = plan("--config", TEXTWORLD, *CLUSTER, "--prices", prices, "--gpu-hour", "2,3,4")
    cost = body["cost"]
    assert (cost["currency"], list(cost["tokens"])) == ("EUR", ["judge"])
    assert cost["total"]["expected"] == pytest.approx(cost["tokens"]["judge"]["expected"] + cost["gpus"]["expected"])
    assert cost["gpus"]["high"] == pytest.approx(4 * cost["gpu_hours"]["high"], rel=1e-3)


@pytest.mark.parametrize(
    "arguments,word",
    [
        (["--rate", "decode=1"], "collect|learn"),
        (["--rate", "collect=0"], "above 0"),
        (["--assume", "agents"], "--assume wants"),
        (["--accelerator", "tpu"], "no accelerator"),
        (["--model", "nowhere"], "no model"),
    ],
)
def test_wrong_arguments_are_refused_in_words(arguments, word):
    with pytest.raises(UsageError, match=word.replace("|", r"\|")):
        CliRunner().invoke(app, ["--json", *arguments], catch_exceptions=False)


def test_the_tables_fit_a_terminal_and_name_their_sources(tmp_path):
    asked, saved = ["--config", str(TEXTCRAFT), *CLUSTER, "--gpu-hour", "3"], tmp_path / "plan.json"
    result = CliRunner().invoke(app, [*asked, "--save", str(saved)], catch_exceptions=False)
    assert json.loads(saved.read_text()) == plan(*asked)
    assert "each of 13 epochs, first 0" in " ".join(result.stdout.split())
    assert "collect speed: stated: limits of h200 x shares" in result.stdout


def test_no_torch_is_needed():
    code = (
        "import sys; from sera_data.cli import main;"
        "main(['plan', '--model', 'qwen3-4b', '--json']);"
        "sys.exit(any(m.partition('.')[0] in ('torch', 'transformers', 'deepspeed') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
