"""Building the pocket policy: scripted trees -> tokenizer -> weights -> policy directory.

Invariant: everything is rebuilt from seeds; each finished step lies in the work folder and is not done again, so a
build that was stopped continues; the directory is sealed with hashes last. Weights are stored as fp16.

Run: ``sera pocket build --out DIR``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from collect.policy_directory import MASK, write_policy_json
from collect.renderer import ChatRenderer
from learn.pocket_data import Recipe, Sequences, teacher_chats, tokenised
from learn.pocket_tokenizer import END, NUMBERS, build_tokenizer, save_tokenizer
from learn.pocket_training import Course, Progress, Shape, new_model, train
from sera_data.errors import UsageError

BLOCKS = 20


class Watcher(NamedTuple):
    """What is told while building: a finished block of data (index, tokens) and the training's progress."""

    block: Callable[[int, int], None]
    training: Callable[[Progress], None]


def build(
    out: Path,
    work: Path,
    *,
    watch: Watcher,
    blocks: int = BLOCKS,
    recipe: Recipe | None = None,
    shape: Shape | None = None,
    course: Course | None = None,
    threads: int = 2,
) -> Path:
    """Build the policy directory `out`; `work` keeps data and checkpoints until it is done."""
    import torch

    work.mkdir(parents=True, exist_ok=True)
    data = make_data(work, blocks=blocks, recipe=recipe or Recipe(), told=watch.block)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    shape, course = shape or Shape(), course or Course()
    torch.set_num_threads(threads)
    model = new_model(tokenizer.get_vocab_size(), shape, end_id=_id(tokenizer, END), seed=course.seed)
    train(model, data, course, checkpoint=work / "training.pt", report=watch.training)
    write_policy(model, work, allowed=allowed_ids(data, tokenizer), out=out)
    shutil.rmtree(work)
    return out


def make_data(work: Path, *, blocks: int, recipe: Recipe, told: Callable[[int, int], None]) -> list[Sequences]:
    """All blocks of sequences, and the tokenizer from the first one; finished blocks are read back."""
    data = []
    for index in range(blocks):
        path = work / f"block-{index:03d}.npz"
        if not path.is_file():
            chats = teacher_chats(index, recipe)
            if not (work / "chat_template.jinja").is_file():
                save_tokenizer(build_tokenizer(m.content for chat in chats for m in chat.messages), work)
            renderer = ChatRenderer.load(work)
            tokenised(chats, renderer, renderer.end_id).save(path)
        data.append(Sequences.load(path))
        told(index, len(data[-1].ids))
    return data


def allowed_ids(data: Sequence[Sequences], tokenizer: Tokenizer) -> list[int]:
    """What the policy may ever sample: tokens that a teacher spoke, all digits and small numbers, the end token."""
    spoken = {int(i) for block in data for i in np.unique(block.ids[block.spoken])}
    return sorted(spoken | {_id(tokenizer, text) for text in [*"0123456789", *NUMBERS, END]})


def write_policy(model: Any, tokenizer_from: Path, *, allowed: Sequence[int], out: Path) -> None:
    """The policy directory: fp16 weights, configuration, tokenizer, template, mask, then policy.json."""
    from safetensors.torch import save_file

    out.mkdir(parents=True, exist_ok=True)
    tensors = {n: t.detach().half().contiguous() for n, t in model.state_dict().items() if n != "lm_head.weight"}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_dict(), "architectures": ["Qwen3ForCausalLM"], "dtype": "float16"}
    _write_json(out / "config.json", config)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tokenizer_from / name, out / name)
    _write_json(out / "generation_config.json", {"eos_token_id": model.config.eos_token_id, "pad_token_id": 0})
    _write_json(out / MASK, {"allowed": list(allowed)})
    write_policy_json(out, name="pocket", version=0, style="terse")


def _id(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        msg = f"the tokenizer has no token {token!r}"
        raise UsageError(msg, hint="remove the work folder and build again")
    return int(found)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
