"""Synthetic long trees for the store benchmarks: real sizes, made-up words, rows that pass every check."""

from typing import Any

import numpy as np

import sera_data as sd
from sera_data.canonical import sha256_text
from sera_data.tokens import prompt_hash
from tests.sera_data.small_store import CONFIG_HASH, run_row, task_id, task_row, write_unit
from tests.sera_data.small_tree import STATE, tree_id

RUN = "bench-1"
VOCABULARY = 64_000
SAMPLES = 8


def long_trees(store: sd.Store, *, nodes: int, turns: int, random: np.random.Generator) -> sd.Plan:
    """Commit and seal one epoch of `nodes` roots with `turns` act turns each, 8 samples a task, 64 tasks a unit."""
    tasks = -(-nodes // SAMPLES)
    units = [{"unit_id": f"u{i:04d}"} for i in range(-(-tasks // 64))]
    plan = sd.claim_plan(store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=units)
    for index, unit in enumerate(plan.unit_ids):
        rows: dict[str, list[dict[str, Any]]] = {
            "runs": [run_row()],
            "tasks": [],
            "nodes": [],
            "turns": [],
            "labels": [],
        }
        for task in range(64 * index, min(64 * index + 64, tasks)):
            rows["tasks"].append(task_row(task_id(task)))
            for sample in range(min(SAMPLES, nodes - task * SAMPLES)):
                tree = tree_id(RUN, 0, task_id(task), sample)
                made = _turns(tree, task_id(task), turns=turns, random=random)
                _add_node(rows, task_id(task), sample, made=made, random=random)
        write_unit(store, plan, unit, rows)
    sd.seal(store, plan.name)
    return plan


def _add_node(
    rows: dict[str, list[dict[str, Any]]],
    task: str,
    sample: int,
    *,
    made: list[dict[str, Any]],
    random: np.random.Generator,
) -> None:
    tree, turns = tree_id(RUN, 0, task, sample), len(made)
    rows["turns"] += made
    shared = {"node_id": tree, "tree_id": tree, "task_id": task}
    counts = {"n_turns": turns, "n_children": 0, "turn_budget": 20}
    counts["n_prompt_tokens"] = sum(len(t["prompt_ids"] or []) for t in made)
    counts["n_completion_tokens"] = sum(len(t["completion_ids"] or []) for t in made)
    start = {"start_state": STATE, "end_state": STATE, "start_digest": sha256_text(STATE)}
    words = {"purpose": "execution", "goal": "craft 1x m2_i3", "outcome": "finished", "message": "done"}
    place = {"sample": sample, "on_path": True, "depth": 0, "seed": int(random.integers(2**62))}
    versions = {"policy_version_min": 0, "policy_version_max": 0, "order_start": 0, "order_end": turns}
    rows["nodes"].append({**shared, **counts, **start, **words, **place, **versions, "end_digest": sha256_text(STATE)})
    label = {"source": "textcraft", "version": "1", "attempt": 0, "kind": "program", "use": "train", "valid": True}
    rows["labels"].append({**shared, **label, "inclusion_probability": 1.0, "value": float(random.integers(2))})


def _turns(tree: str, task: str, *, turns: int, random: np.random.Generator) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    prompt: list[int] = []
    for step in range(turns):
        own = _tokens(random, 600 if step == 0 else int(random.integers(20, 120)))
        completion = _tokens(random, int(random.integers(30, 150)))
        prompt = [*prompt, *own]
        text = " ".join(_WORDS[i % len(_WORDS)] for i in completion)
        turn = {
            "turn_id": f"{tree}#{step:04d}",
            "node_id": tree,
            "tree_id": tree,
            "task_id": task,
            "kind": "act",
            "step": step,
            "role": "act",
            "policy": "pocket",
            "policy_version": 0,
            "trainable": True,
            "ok": True,
            "base_turn": made[-1]["turn_id"] if made else None,
            "prompt_ids": own,
            "completion_ids": completion,
            "logprobs": _logprobs(random, len(completion)),
            "logprobs_mode": "processed_logprobs",
            "n_prompt": len(prompt),
            "text": text,
            "temperature": 1.0,
            "top_p": 1.0,
            "max_tokens": 256,
            "seed": int(random.integers(2**62)),
            "finish_reason": "stop",
            "action": '{"tool":"view_inventory"}',
            "observation": STATE,
            "tool_calls": [{"tool": "view_inventory", "arguments": "{}", "ok": True, "result": STATE, "delta": None}],
            "delegations": [],
            "order_stamp": step + 1,
            "prompt_sha256": prompt_hash(prompt),
        }
        made.append(turn)
        prompt = [*prompt, *completion]
    return made


_WORDS = (
    "craft",
    "make",
    "the",
    "item",
    "from",
    "ore",
    "plank",
    "with",
    "two",
    "then",
    "look",
    "count",
    "have",
    "more",
)


def _tokens(random: np.random.Generator, count: int) -> list[int]:
    return (random.zipf(1.3, count) % VOCABULARY).tolist()


def _logprobs(random: np.random.Generator, count: int) -> list[float]:
    return (-random.gamma(0.35, 1.6, count)).astype(np.float32).tolist()
