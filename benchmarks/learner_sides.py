"""One implementation of the CISPO gradient, measured in a process of its own for benchmarks/learner.py.

Run: ``PYTHON benchmarks/learner_sides.py sera|trl|openrlhf DIRECTORY``: reads the policy and the sequences there and
prints {loss, norm, seconds: [one per timed step], extra_bytes} as JSON. Seconds are processor time of one thread. Extra
memory is the highest resident size in the first step minus that before it, gradients included, optimizer left out.
"""

import json
import math
import os
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

os.environ.update(OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", TORCHDYNAMO_DISABLE="1", HF_HUB_OFFLINE="1")

import numpy as np
import torch

TIMED, BATCH, CAP = 3, 8, 5.0


def sequences(root):
    """The rows of data.npz: token_ids, trained, logprobs per token and one advantage each."""
    data = np.load(root / "data.npz")
    borders = np.cumsum(data["lengths"])[:-1]
    parts = [np.split(data[name], borders) for name in ("token_ids", "trained", "logprobs")]
    return list(zip(*parts, data["advantages"].tolist(), strict=True))


def sera(root):
    """Our learner: packed rows, attention by sequence, trained positions through tiles of the vocabulary."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from learn.config import EngineConfig
    from learn.datum import Datum
    from learn.network import load_network
    from learn.objective import Objective
    from learn.packing import micro_batch, plan_packs

    network, objective = load_network(root, dtype=torch.float32), Objective("cispo", 0.0, CAP)
    datums = []
    for index, (ids, trained, logprobs, advantage) in enumerate(sequences(root)):
        last = int(np.flatnonzero(trained)[-1]) + 1
        ids, trained, logprobs = ids[:last], trained[:last], np.where(trained, logprobs, 0)[:last]
        credit = np.where(trained, advantage, 0).astype(np.float32)
        versions = np.where(trained, 0, -1).astype(np.int32)
        name = f"d{index:03d}"
        datums.append(
            Datum(name, "execution", name, "0/t", 0, ids, trained, logprobs.astype(np.float32), credit, versions, 0)
        )

    def step():
        plan = plan_packs(datums, budget=EngineConfig().budget("cpu", max(map(len, datums))))
        total = 0.0
        for pack in plan.packs:
            batch = micro_batch(pack)
            logprobs, _ = network(batch)
            loss = objective.total(logprobs, batch.tokens) / plan.n_trained
            loss.backward()
            total += loss.item()
        return total

    return network, step


def padded(rows, start, pad):
    """Prompts to the left and completions to the right, as TRL lays them out; a completion starts at `start`."""
    prompts = max(s for s in start)
    completions = max(len(row[0]) - s for row, s in zip(rows, start, strict=True))
    shape = {"prompt": prompts, "completion": completions}
    found = {f"{name}_ids": torch.full((len(rows), n), pad) for name, n in shape.items()}
    found |= {f"{name}_mask": torch.zeros(len(rows), n, dtype=torch.int64) for name, n in shape.items()}
    found["tool_mask"] = torch.zeros(len(rows), completions, dtype=torch.int64)
    found["old_per_token_logps"] = torch.zeros(len(rows), completions)
    for i, ((ids, trained, logprobs, _), s) in enumerate(zip(rows, start, strict=True)):
        tokens, n = torch.as_tensor(ids, dtype=torch.int64), len(ids) - s
        found["prompt_ids"][i, prompts - s :], found["prompt_mask"][i, prompts - s :] = tokens[:s], 1
        found["completion_ids"][i, :n], found["completion_mask"][i, :n] = tokens[s:], 1
        found["tool_mask"][i, :n] = torch.as_tensor(trained[s:], dtype=torch.int64)
        found["old_per_token_logps"][i, :n] = torch.as_tensor(np.where(trained, logprobs, 0)[s:])
    found["advantages"] = torch.tensor([row[3] for row in rows])
    return found


def batches(root, pad=0):
    """Padded micro-batches of BATCH sequences in order, and the number of trained tokens of all."""
    rows = sequences(root)
    count = sum(int(row[1].sum()) for row in rows)
    parts = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
    return [padded(part, [int(np.flatnonzero(row[1])[0]) for row in part], pad) for part in parts], count


def trl(root):
    """TRL's GRPO trainer: its own loss on hand-built batches."""
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    words = Tokenizer(WordLevel({"<pad>": 0, "<end>": 1, "a": 2}, unk_token="<pad>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>")
    model = AutoModelForCausalLM.from_pretrained(root, dtype=torch.float32, attn_implementation="sdpa")
    config = GRPOConfig(
        output_dir=str(root / "trl"),
        use_cpu=True,
        bf16=False,
        loss_type="cispo",
        epsilon_high=CAP,
        beta=0.0,
        gradient_checkpointing=False,
        per_device_train_batch_size=BATCH,
        num_generations=BATCH,
        gradient_accumulation_steps=1,
        report_to="none",
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * BATCH),
        processing_class=tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    parts, count = batches(root)

    def step():
        total = 0.0
        for part in parts:
            loss = trainer._compute_loss(model, {**part, "num_items_in_batch": torch.tensor(float(count))})
            loss.backward()
            total += loss.item()
        return total

    return model, step


def openrlhf(root):
    """OpenRLHF's actor: its forward to log-probabilities on padded batches, the CISPO weight applied outside."""
    for name in ("flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed"):
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)
    for name in ("index_first_axis", "pad_input", "rearrange", "unpad_input"):
        setattr(sys.modules["flash_attn.bert_padding"], name, None)
    sys.modules["flash_attn.utils.distributed"].all_gather = None
    from openrlhf.models.actor import Actor
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(root, dtype=torch.float32, attn_implementation="sdpa")
    model.config.use_cache = False
    actor = Actor(model)
    actor.packing_samples = False
    parts, count = batches(root)

    def step():
        total = 0.0
        for part in parts:
            ids = torch.cat([part["prompt_ids"], part["completion_ids"]], dim=1)
            mask = torch.cat([part["prompt_mask"], part["completion_mask"]], dim=1)
            chosen = part["tool_mask"]
            logprobs = actor(ids, action_mask=chosen, attention_mask=mask)
            ratio = (logprobs.detach() - part["old_per_token_logps"]).exp().clamp(max=CAP)
            loss = -(ratio * part["advantages"][:, None] * logprobs * chosen).sum() / count
            loss.backward()
            total += loss.item()
        return total

    return model, step


def resident(name):
    """VmRSS or VmHWM of this process in bytes."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name))
    return int(line.split()[1]) * 1024


def main():
    torch.set_num_threads(1)
    side, root = sys.argv[1], Path(sys.argv[2])
    model, step = {"sera": sera, "trl": trl, "openrlhf": openrlhf}[side](root)
    Path("/proc/self/clear_refs").write_text("5")  # the highest size starts anew
    before = resident("VmRSS")
    loss = step()  # the first step warms up
    extra = resident("VmHWM") - before
    norm = math.sqrt(sum(float((p.grad.double() ** 2).sum()) for p in model.parameters() if p.grad is not None))
    seconds = []
    for _ in range(TIMED):
        model.zero_grad(set_to_none=True)
        started = time.process_time()
        step()
        seconds.append(time.process_time() - started)
    print(json.dumps({"loss": loss, "norm": norm, "seconds": seconds, "extra_bytes": extra}))


if __name__ == "__main__":
    main()
