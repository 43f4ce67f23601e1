"""A plan against what then happens: a small loop is measured, a larger one is planned from its store, and then played.

The pocket policy collects and learns one epoch with few groups. `sera plan --from` that store says what two and a
half times as many groups will take; then they are played with another seed, and the figures compared: trees, calls,
tokens, bytes of the store, seconds of both phases. Memory is planned by counting, not from a store: engines of
small models make two updates, each in a process of its own, and the growth of its peak is compared. Prints planned
over measured; exits with 1 when one of them is outside 0.75 to 1.25.

Both loops take processor time beside whatever else runs; on a busy machine seconds are only as steady as its load.

Run: ``OMP_NUM_THREADS=1 python benchmarks/plan_check.py [DIRECTORY]``; some minutes of a core.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOW, HIGH = 0.75, 1.25
SMALL, LARGE = 4, 10
TASKS = {"worlds": "1000-1063", "max_tier": 2, "n": 96, "tier_mix": {"2": 1.0}}
STAGES = "execution:4,delegation:1,rubric:1"
CONFIG = Path("configs") / "demo.yaml"
MODELS = {
    "wide vocabulary": ({"hidden": 256, "layers": 4, "mlp": 768, "vocabulary": 30_000}, 2048),
    "long batch": ({"hidden": 192, "layers": 6, "mlp": 512, "vocabulary": 4_000}, 8192),
    "recomputed": ({"hidden": 192, "layers": 6, "mlp": 512, "vocabulary": 4_000}, 16_384),
}


def sera(*arguments):
    """Run a command of this package and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "sera_data", *map(str, arguments)], stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        sys.exit(f"sera {arguments[0]} ended with exit code {done.returncode}")
    return json.loads(done.stdout)


def settings(groups, seed):
    changed = {
        "epochs": 1,
        "seed": seed,
        "margin": 1.0,
        "learn.schedule": json.dumps(STAGES),
        "learn.updates_per_collect": 6,
        "learn.groups_per_update": groups,
        "learn.engine.dtype": "float32",
        "collect.concurrency": 64,
        "collect.samples": 4,
        "collect.world.tasks": json.dumps(TASKS),
    }
    return [part for name, value in changed.items() for part in ("--set", f"{name}={value}")]


def play(out, groups, seed):
    sera("loop", "--config", CONFIG, "--out", out, *settings(groups, seed), "--json")
    return out / "store"


def found_in(store):
    """What a store holds, in the words of a plan."""
    import sera_data

    opened = sera_data.open(store)
    query = """
        select
            (select count(*) from turns) as calls,
            (select sum(n_prompt)::double from turns) as read,
            (select sum(len(completion_ids))::double from turns) as written,
            (select sum(n_tokens)::double from updates) as learned,
            (select count(distinct tree_id) from nodes) as trees
    """
    times = """
        select phase, date_diff('microsecond', min(started_at), max(ended_at)) / 1e6 as seconds
        from runs group by phase
    """
    with opened.connect(view="sealed") as connection:
        counts = connection.sql(query).pl().to_dicts()[0]
        seconds = {row["phase"]: row["seconds"] for row in connection.sql(times).pl().to_dicts()}
    size = sum(path.stat().st_size for path in Path(store).glob("epochs/*/*.parquet"))
    return {**counts, "store bytes": size, "collect seconds": seconds["collect"], "learn seconds": seconds["learn"]}


def planned_in(body):
    total = body["total"]
    names = {"calls": "calls", "read": "tokens_read", "written": "tokens_written", "learned": "tokens_learned"}
    names |= {"store bytes": "store_bytes", "collect seconds": "collect_s", "learn seconds": "learn_s"}
    return {"trees": total["trees"]} | {name: total[key]["expected"] for name, key in names.items()}


def memory_run(text):
    """In a process of its own: the growth of the peak memory in bytes over two updates of an engine."""
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
    from learn.ranks import import_deepspeed, join, leave

    sizes, tokens, recompute = json.loads(text)

    def engine_of(hidden, layers, mlp, vocabulary):
        config = Qwen3Config(
            hidden_size=hidden, num_hidden_layers=layers, intermediate_size=mlp, vocab_size=vocabulary,
            num_attention_heads=4, num_key_value_heads=2, head_dim=64, tie_word_embeddings=True,
        )  # fmt: skip
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(config)
        model.set_attn_implementation(NAME)
        if recompute:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        settings = EngineConfig(zero=0, dtype="float32", tokens_per_micro_batch=tokens, recompute=recompute)
        return Engine(Network(model), ranks=ranks, config=settings, optimizer=OptimizerConfig())

    def datums(count, length, vocabulary):
        draw = np.random.default_rng(0)
        trained = np.arange(-length, 0) % 5 >= 3  # two fifths, the last among them
        rows = []
        trained[0] = False  # nothing predicts it
        for i in range(count):
            ids = draw.integers(0, vocabulary, length).astype(np.int32)
            weights = np.where(trained, 1.0, 0.0).astype(np.float32)
            logprobs = np.where(trained, -float(np.log(vocabulary)), 0.0).astype(np.float32)
            versions = np.where(trained, 0, -1).astype(np.int32)
            rows.append(
                Datum(f"d{i}@execution.0", "execution", f"d{i}", "0/t", 0, ids, trained, logprobs, weights, versions, 0)
            )
        return rows

    def status(name):
        line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name))
        return int(line.split()[1]) * 1024

    torch.set_num_threads(1)
    ranks = join()
    import_deepspeed()
    objective = Objective("cispo", 0.0, 5.0)
    engine_of(64, 1, 64, 64).update(plan_packs(datums(1, 64, 64), budget=64), objective, version=0)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    engine = engine_of(**sizes)
    plan = plan_packs(datums(tokens // 256, 256, sizes["vocabulary"]), budget=tokens)
    for version in range(2):
        engine.update(plan, objective, version=version)
    leave()
    print(status("VmHWM") - before)


def memory_ratios():
    from learn.model_shape import ModelShape
    from learn.plan_memory import Machine, Training, training_memory

    rows = {}
    for name, (sizes, tokens) in MODELS.items():
        recompute = name == "recomputed"
        command = [sys.executable, __file__, "--memory", json.dumps([sizes, tokens, recompute])]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
        shape = ModelShape(
            name, sizes["hidden"], sizes["layers"], 4, 2, 64, sizes["mlp"], sizes["vocabulary"], True, True
        )
        how = Training(tokens=tokens, trained=0.4, precision="fp32", recompute=recompute)
        planned = training_memory(shape, Machine(), how, 0)
        rows[f"peak memory, {name}"] = (planned.total, float(done.stdout.splitlines()[-1]))
    return rows


def main(directory):
    rows = memory_ratios()
    print(f"memory is planned; now {SMALL} and {LARGE} groups per update are played", file=sys.stderr)
    small = play(directory / "small", SMALL, seed=1)
    body = sera("plan", "--config", CONFIG, "--from", small, *settings(LARGE, seed=2), "--json")
    found, planned = found_in(play(directory / "large", LARGE, seed=2)), planned_in(body)
    rows |= {name: (planned[name], found[name]) for name in planned}
    wrong = []
    print(f"{'figure':<32} {'planned':>14} {'measured':>14} {'ratio':>7}")
    for name, (plan, real) in rows.items():
        ratio = plan / real
        wrong += [name] if not LOW <= ratio <= HIGH else []
        print(f"{name:<32} {plan:>14,.1f} {real:>14,.1f} {ratio:>7.2f}")
    if wrong:
        sys.exit(f"outside {LOW} to {HIGH}: {', '.join(wrong)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        memory_run(sys.argv[2])
    elif sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
