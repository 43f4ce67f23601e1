"""The learner against TRL's GRPO trainer and OpenRLHF's actor: real tokens a core-second and extra memory.

Same weights (Qwen3, hidden 256, 4 layers, 4 query and 2 key heads of 64, feed-forward 768, tied), same sequences in the
same order, fp32, one thread, CISPO with ratios up to 5; forward, loss and backward, no optimizer. Each implementation
runs in a process of its own: one step to warm up, three timed in processor seconds, the median counts. The first losses
must agree to 1e-5 and the gradient norms to 1e-4, or no speed is shown. TRL and OpenRLHF come from an environment of
their own (a stub stands in for flash_attn, so OpenRLHF's figure is its actor's log-probability path, not its trainer):

    python3.11 -m venv .venv-trl
    .venv-trl/bin/pip install trl==1.16.0 torch==2.13.0 transformers==5.19.0
    .venv-trl/bin/pip install deepspeed==0.19.8 peft==0.21.2 einops pylatexenc sympy
    .venv-trl/bin/pip install --no-deps openrlhf==0.11.2

Run: ``python benchmarks/learner.py --peers .venv-trl/bin/python`` (half an hour on a quiet core; --keep DIR lets it be
done in parts). Exits 1 when a ratio misses its floor.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIDES = Path(__file__).with_name("learner_sides.py")
HIDDEN, LAYERS, QUERY, KEY, HEAD, FEED = 256, 4, 4, 2, 64, 768
TOY = 300
CASES = {4096: 24, 151_936: 8, TOY: 8}
SPEED, MEMORY = {4096: 2.7, 151_936: 5.0, TOY: 0.0}, {4096: 0.3, 151_936: 0.3, TOY: math.inf}


def write_policy(root, vocabulary):
    """Random weights, sealed like any policy directory (our loader wants no tokenizer)."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=FEED,
        num_hidden_layers=LAYERS,
        num_attention_heads=QUERY,
        num_key_value_heads=KEY,
        head_dim=HEAD,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(root)


def lengths_of(mix, count, draw):
    """Lengths of sequences: uniform 100..600, or log-normal around 280 with a long tail."""
    if mix == "uniform":
        return draw.integers(100, 601, count)
    return np.clip(draw.lognormal(np.log(280), 0.7, count), 64, 2000).astype(int)


def write_data(root, vocabulary, count, mix):
    """Agent-like sequences: a prompt, then turns of a completion (trained) and an observation; about 40 % trained."""
    draw = np.random.default_rng(7)
    ids, trained, lengths = [], [], lengths_of(mix, count, draw)
    if vocabulary == TOY:
        lengths = lengths // 8 + 20
    for length in lengths:
        flags, at = np.zeros(length, bool), max(8, length // 4)
        while at < length:
            reply, seen = draw.integers(12, 41), draw.integers(8, 31)
            flags[at : at + reply] = True
            at += reply + seen
        flags[-1] = True
        ids.append(draw.integers(2, vocabulary, length).astype(np.int32))
        trained.append(flags)
    total = sum(lengths)
    # stored log-probabilities around those of random weights, so that some ratios are beyond the cap
    logprobs = (-np.log(vocabulary) + draw.normal(0, 1.0, total)).astype(np.float32)
    advantages = draw.normal(0, 1, count).astype(np.float32)
    flat = {"token_ids": np.concatenate(ids), "trained": np.concatenate(trained), "logprobs": logprobs}
    np.savez(root / "data.npz", **flat, lengths=lengths, advantages=advantages)
    return int(total), int(sum(map(np.sum, trained)))


def measure(python, side, root):
    """A side's figures, measured now or kept from before."""
    kept = root / f"{side}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, str(SIDES), side, str(root)], capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{side} failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    kept.write_text(json.dumps(found))
    return found


def limit(trained, real, vocabulary):
    """Tokens a core-second if all were matrix products at the measured rate of this core, trained tokens alone through
    the output layer: 6 flop a weight and token; attention's own products left out."""
    import torch

    torch.set_num_threads(1)
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    rates = []
    for _ in range(9):
        started = time.process_time()
        for _ in range(4):
            left @ right
        rates.append(4 * 2 * 1024**3 / (time.process_time() - started))
    body = LAYERS * (HIDDEN * HEAD * (2 * QUERY + 2 * KEY) + 3 * HIDDEN * FEED)
    return max(rates) / (6 * (body + vocabulary * HIDDEN * trained / real))


def case(vocabulary, mix, peers, sides, keep):
    with contextlib.nullcontext(keep) if keep else tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / f"{vocabulary}-{mix}"
        root.mkdir(parents=True, exist_ok=True)
        write_policy(root, vocabulary)
        real, trained = write_data(root, vocabulary, CASES[vocabulary], mix)
        found = {side: measure(sys.executable if side == "sera" else peers, side, root) for side in sides}
    first = found["sera"]
    for side, row in found.items():
        if abs(row["loss"] - first["loss"]) > 1e-5 or abs(row["norm"] / first["norm"] - 1) > 1e-4:
            sys.exit(f"{side} computes something else, so no speed is shown: {row} beside {first}")
    return {
        "vocabulary": vocabulary,
        "mix": mix,
        "tokens": real,
        "trained": trained,
        "loss": first["loss"],
        "limit": limit(trained, real, vocabulary),
        "sides": {
            side: {
                "speed": real / statistics.median(row["seconds"]),
                "range": [real / max(row["seconds"]), real / min(row["seconds"])],
                "extra_mib": row["extra_bytes"] / 2**20,
            }
            for side, row in found.items()
        },
    }


def report(body):
    """Print a case; returns what misses its floor."""
    ours, faults = body["sides"]["sera"], []
    head = f"vocabulary {body['vocabulary']:,}, {body['mix']}: {body['tokens']:,} tokens, {body['trained']:,} trained"
    print(f"\n{head}, loss {body['loss']:.6f} everywhere; {ours['speed'] / body['limit']:.0%} of the matrix limit")
    for side, row in body["sides"].items():
        low, high = row["range"]
        print(
            f"  {side:9} {row['speed']:8,.0f} tokens/core-s ({low:,.0f} to {high:,.0f})"
            f"  trained {row['speed'] * body['trained'] / body['tokens']:7,.0f}/s  extra {row['extra_mib']:7,.0f} MiB"
            + ("" if side == "sera" else f"  ours: {ours['speed'] / row['speed']:.2f}x speed")
            + ("" if side == "sera" else f", {ours['extra_mib'] / row['extra_mib']:.2f}x memory")
        )
    if "trl" in body["sides"]:
        other = body["sides"]["trl"]
        if ours["speed"] < SPEED[body["vocabulary"]] * other["speed"]:
            faults.append(f"speed below {SPEED[body['vocabulary']]}x TRL's at {body['vocabulary']:,} ({body['mix']})")
        if ours["extra_mib"] > MEMORY[body["vocabulary"]] * other["extra_mib"]:
            faults.append(f"memory above {MEMORY[body['vocabulary']]}x TRL's at {body['vocabulary']:,} ({body['mix']})")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=".venv-trl/bin/python", help="Python of the environment with TRL")
    parser.add_argument("--sides", default="sera,trl,openrlhf", help="implementations to measure")
    parser.add_argument("--vocabulary", type=int, choices=CASES, action="append", help="one size only")
    parser.add_argument("--mix", choices=("uniform", "lognormal"), action="append", help="one mix of lengths only")
    parser.add_argument("--toy", action="store_true", help="only see that all compute the same, in a minute")
    parser.add_argument("--keep", type=Path, help="keep figures here and measure only what is missing")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    faults, bodies = [], []
    for vocabulary in [TOY] if given.toy else given.vocabulary or [v for v in CASES if v != TOY]:
        for mix in given.mix or ("uniform", "lognormal")[: 1 if given.toy else 2]:
            body = case(vocabulary, mix, given.peers, given.sides.split(","), given.keep)
            bodies.append(body)
            if not given.json:
                faults += report(body)
    if given.json:
        print(json.dumps(bodies))
    for fault in faults:
        print(f"FAULT {fault}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
