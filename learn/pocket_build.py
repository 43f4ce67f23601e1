"""Building the pocket policy: scripted trees -> tokenizer -> weights -> policy directory.

Invariant: everything is rebuilt from seeds; each finished step lies in the work folder and is not done again, so a
build that was stopped continues; the directory is sealed with hashes last. Weights are stored as fp16.

Run: ``sera pocket build --out DIR``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from collect.policy_directory import MASK, write_policy_json
from collect.renderer import ChatRenderer
from collect.transformers_policy import open_policy
from learn.pocket_data import SPOKEN, Chat, Sequences, Spoken, teacher_chats, tokenised
from learn.pocket_ground import Ground, Recipe
from learn.pocket_practice import practise
from learn.pocket_tokenizer import END, NUMBERS, build_tokenizer, save_tokenizer
from learn.pocket_training import Course, Progress, Shape, new_model, train
from sera_data.errors import UsageError

PRACTICE_SEED = 1000
LATE = Course(peak=1e-3, warmup=60, seed=1)


class Watcher(NamedTuple):
    """What is told while building: finished blocks of data, and the share of a course that is done."""

    block: Callable[[int], None]
    training: Callable[[str, Progress], None]


def build(
    ground: Ground,
    out: Path,
    work: Path,
    *,
    watch: Watcher,
    recipe: Recipe | None = None,
    shape: Shape | None = None,
    course: Course | None = None,
    threads: int = 2,
) -> Path:
    """Build the policy directory `out`; `work` keeps data and checkpoints until it is done.

    Two courses: scripted chats, then practice, in which the policy's own episodes, scored by the scripted teacher,
    are mixed with fresh scripted chats at half the learning rate. `course.minutes` is shared 3:1.
    """
    import torch

    recipe = recipe or ground.recipe
    shape, course = shape or Shape(context=ground.context), course or Course(batch_tokens=ground.batch_tokens)
    work.mkdir(parents=True, exist_ok=True)
    data = make_data(ground, work, recipe=recipe, told=watch.block, processes=threads)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    allowed = allowed_ids(data, tokenizer)
    torch.set_num_threads(1)  # processes share the work (learn.pocket_ranks); threads would wait for each other
    model = new_model(tokenizer.get_vocab_size(), shape, end_id=_id(tokenizer, END), seed=course.seed)
    first, second = courses(course)
    told = partial(watch.training, "first course")
    train(model, data[: recipe.warm], first, checkpoint=work / "first.pt", report=told, processes=threads)
    practice = make_practice(ground, model, work, allowed=allowed, recipe=recipe)
    told = partial(watch.training, "second course")
    late = [*data[recipe.warm :], practice, practice]
    train(model, late, second, checkpoint=work / "second.pt", report=told, processes=threads)
    write_policy(model, work, allowed=allowed, out=out, temperature=recipe.temperature)
    shutil.rmtree(work)
    return out


def courses(course: Course) -> tuple[Course, Course]:
    """The first course as asked and the second one; minutes are shared 3:1."""
    late = replace(LATE, batch_tokens=course.batch_tokens)
    if course.minutes is None:
        return course, late
    return replace(course, minutes=course.minutes * 0.75), replace(late, minutes=course.minutes * 0.25)


def make_data(
    ground: Ground, work: Path, *, recipe: Recipe, told: Callable[[int], None], processes: int = 1
) -> list[Sequences]:
    """All blocks of scripted sequences, and the tokenizer from the first one; finished blocks are read back.

    Blocks do not depend on each other beyond the tokenizer, so `processes` of them are made side by side.
    """
    count = recipe.warm + recipe.late
    make_block(ground, work, recipe, 0)
    told(0)
    rest = range(1, count)
    make = partial(make_block, ground, work, recipe)
    if processes == 1 or all(block_path(work, index).is_file() for index in rest):
        for index in rest:
            make(index)
            told(index)
    else:
        # a spawned process starts without the threads of torch, which a forked one would inherit half alive
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for index, _ in enumerate(pool.map(make, rest), start=1):
                told(index)
    return [Sequences.load(block_path(work, index)) for index in range(count)]


def make_block(ground: Ground, work: Path, recipe: Recipe, index: int) -> None:
    """Write one block of scripted sequences unless it is there; the first one makes the tokenizer."""
    path = block_path(work, index)
    if path.is_file():
        return
    chats = teacher_chats(ground, index, recipe)
    if not (work / "chat_template.jinja").is_file():
        texts = (message.content for chat in chats for message in chat.messages)
        made = build_tokenizer(texts, words=ground.words, piece=ground.piece)
        save_tokenizer(made, work, context=ground.context)
    _tokenised(chats, work).save(path)


def block_path(work: Path, index: int) -> Path:
    """Where a block of sequences lies."""
    return work / f"block-{index:03d}.npz"


def make_practice(ground: Ground, model: Any, work: Path, *, allowed: Sequence[int], recipe: Recipe) -> Sequences:
    """Lessons on the policy's own episodes."""
    path = work / "practice.npz"
    if not path.is_file():
        half = write_policy(model, work, allowed=allowed, out=work / "half", temperature=recipe.temperature)
        policy = open_policy(str(half), options={"slots": 128})
        lessons = practise(ground, policy, recipe=recipe, seed=PRACTICE_SEED)
        _tokenised(lessons, work, spoken="last").save(path)
    return Sequences.load(path)


def _tokenised(chats: Iterable[Chat], work: Path, *, spoken: Spoken = "all") -> Sequences:
    renderer = ChatRenderer.load(work)
    return tokenised(chats, renderer, renderer.end_id, spoken=spoken)


def allowed_ids(data: Sequence[Sequences], tokenizer: Tokenizer) -> list[int]:
    """What the policy may ever sample: tokens that a teacher spoke, all digits and small numbers, the end token."""
    spoken = {int(i) for block in data for i in np.unique(block.ids[block.parts == SPOKEN])}
    return sorted(spoken | {_id(tokenizer, text) for text in [*"0123456789", *NUMBERS, END]})


def write_policy(
    model: Any, tokenizer_from: Path, *, allowed: Sequence[int], out: Path, temperature: float = 1.0
) -> Path:
    """The policy directory: fp16 weights, configuration, tokenizer, template, mask, then policy.json.

    temperature: what the logits are divided by for good, through the weights of the last norm.
    """
    from safetensors.torch import save_file

    out.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.detach() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    state["model.norm.weight"] = state["model.norm.weight"] / temperature
    tensors = {name: tensor.half().contiguous() for name, tensor in state.items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_dict(), "architectures": ["Qwen3ForCausalLM"], "dtype": "float16"}
    _write_json(out / "config.json", config)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tokenizer_from / name, out / name)
    _write_json(out / "generation_config.json", {"eos_token_id": model.config.eos_token_id, "pad_token_id": 0})
    _write_json(out / MASK, {"allowed": list(allowed)})
    (out / "model.safetensors").chmod(0o644)
    return write_policy_json(out, name="pocket", version=0, style="terse").path


def _id(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        msg = f"the tokenizer has no token {token!r}"
        raise UsageError(msg, hint="remove the work folder and build again")
    return int(found)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
