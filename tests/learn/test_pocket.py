import asyncio
import json

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from typer.testing import CliRunner

from collect.policy import Message, Request, Sampling
from collect.policy_directory import read_policy_directory
from collect.renderer import ChatRenderer
from collect.transformers_policy import POCKET, open_pocket, open_policy
from learn import pocket_cli
from learn.pocket_build import Watcher, allowed_ids, build, make_data, write_policy
from learn.pocket_check import REQUIREMENTS, Figure, branch_figures, check
from learn.pocket_data import SILENT, SPOKEN, Sequences, teacher_chats, tokenised
from learn.pocket_ground import Recipe
from learn.pocket_practice import practise
from learn.pocket_ranks import RankLost, Ranks
from learn.pocket_textcraft import GROUND, HELD_OUT_WORLDS, TRAIN_WORLDS
from learn.pocket_tokenizer import CONTROL, build_tokenizer, save_tokenizer
from learn.pocket_training import Course, Shape, collate, learning_rate, loss_of, new_model, plan_batches, train
from sera_data.errors import GateFailed, UsageError

SMALL = Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, mlp=48)
QUIET = Watcher(lambda index: None, lambda course, progress: None)


@pytest.fixture(scope="module")
def chats():
    return teacher_chats(GROUND, 0, Recipe(trees=10, rubric_share=0.5))


@pytest.fixture(scope="module")
def folder(chats, tmp_path_factory):
    made = tmp_path_factory.mktemp("tokenizer")
    texts = (m.content for chat in chats for m in chat.messages)
    save_tokenizer(build_tokenizer(texts, words=GROUND.words, piece=GROUND.piece), made)
    return made


@pytest.fixture(scope="module")
def data(chats, folder):
    renderer = ChatRenderer.load(folder)
    return tokenised(chats, renderer, renderer.end_id)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    place = tmp_path_factory.mktemp("built")
    recipe = Recipe(trees=6, rubric_share=0.5, warm=1, late=1, practice=2)
    return build(GROUND, place / "policy", place / "work", watch=QUIET, recipe=recipe, shape=SMALL, threads=1)


@pytest.mark.slow
def test_blocks_made_side_by_side_are_those_made_one_after_another(tmp_path):
    recipe = Recipe(trees=4, warm=2, late=1)
    told = []
    made = []
    for processes in (1, 2):
        work = tmp_path / str(processes)
        work.mkdir()
        made.append(make_data(GROUND, work, recipe=recipe, told=told.append, processes=processes))
    assert told == [0, 1, 2] * 2
    for alone, together in zip(*made, strict=True):
        assert np.array_equal(alone.ids, together.ids)
        assert np.array_equal(alone.parts, together.parts)


def test_an_item_a_number_and_a_phrase_are_one_token_each(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = tokenizer.encode('{"tool":"craft","target":["m4_i3",12],"ingredients":{"raw_a3":4}}').tokens
    assert tokens == [
        '{"tool":"craft","target":["',
        "m4_i3",
        '",',
        "12",
        '],"ingredients":{"',
        "raw_a3",
        '":',
        "4",
        "}}",
    ]
    assert tokenizer.get_vocab_size() <= 512


@pytest.mark.parametrize("text", ["<|end|><|user|>", "ü漢\n\t\x00 0.25 raw_o9 m10_i3", '{"a":"\\u00e9"}'])
def test_every_text_round_trips_without_control_tokens(folder, text):
    renderer = ChatRenderer.load(folder)
    ids = renderer.encode(text)
    assert renderer.decode(ids) == text
    assert min(ids) >= len(CONTROL)


def test_sequences_are_what_the_chat_template_gives(chats, data, folder):
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(folder)
    for index in range(0, len(data), 5):
        messages = [{"role": m.role, "content": m.content} for m in chats[index].messages]
        last = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
        expected = reference.apply_chat_template(messages[: last + 1], return_dict=False)
        assert data.ids[data.span(index)].tolist() == list(expected)


def test_only_replies_and_their_ends_are_spoken(chats, data, folder):
    renderer = ChatRenderer.load(folder)
    span = data.span(0)
    spoken = data.ids[span][data.parts[span] == SPOKEN].tolist()
    replies = [m.content for m in chats[0].messages if m.role == "assistant"]
    assert spoken == [i for text in replies for i in [*renderer.encode(text), renderer.end_id]]


def test_lessons_teach_the_coach_s_reply_and_nothing_else(built, folder):
    lessons = practise(GROUND, open_policy(str(built), options={"slots": 8}), recipe=Recipe(practice=2), seed=5)
    acts = [lesson for lesson in lessons if lesson.role == "act"]
    assert acts
    assert all(json.loads(lesson.messages[-1].content)["tool"] for lesson in acts)
    renderer = ChatRenderer.load(folder)
    data = tokenised(acts, renderer, renderer.end_id, spoken="last")
    for index, lesson in enumerate(acts):
        span = data.span(index)
        spoken = data.ids[span][data.parts[span] == SPOKEN].tolist()
        assert spoken == [*renderer.encode(lesson.messages[-1].content), renderer.end_id]
        assert set(data.parts[span].tolist()) == {SILENT, SPOKEN}


def test_blocks_are_saved_and_worlds_kept_apart(data, tmp_path):
    data.save(tmp_path / "block.npz")
    again = Sequences.load(tmp_path / "block.npz")
    assert np.array_equal(again.ids, data.ids)
    assert np.array_equal(again.ends, data.ends)
    first, last = (int(n) for n in TRAIN_WORLDS.split("-"))
    held_first, held_last = (int(n) for n in HELD_OUT_WORLDS.split("-"))
    assert last < held_first <= held_last
    assert first <= last


def test_batches_hold_every_sequence_once_and_keep_their_size(data):
    batches = plan_batches([data], Course(epochs=2, batch_tokens=600))
    seen = sorted(index for batch in batches for _, index, _ in batch)
    assert seen == sorted([*range(len(data))] * 2)
    assert all(len(b) * max(n for *_, n in b) <= 600 or len(b) == 1 for b in batches)


def test_the_loss_weighs_padding_nothing_and_prompts_little(data):
    model = new_model(512, SMALL, end_id=4, seed=0)
    batch = plan_batches([data], Course(batch_tokens=600))[0]
    ids, spoken, real = collate([data], batch)
    loss, own, count = loss_of(model, ids, spoken, real, prompt_weight=0.1)
    wider = [torch.nn.functional.pad(t, (0, 7), value=fill) for t, fill in ((ids, 9), (spoken, False), (real, False))]
    assert loss_of(model, *wider, prompt_weight=0.1)[0].item() == pytest.approx(loss.item(), abs=1e-6)
    assert loss_of(model, ids, spoken, real, prompt_weight=0.0)[0].item() == pytest.approx(own / count, abs=1e-6)
    assert count == int(spoken[:, 1:].sum())


def test_training_continues_from_its_checkpoint(data, tmp_path):
    course = Course(batch_tokens=600, warmup=2, epochs=8)
    whole, seen = new_model(512, SMALL, end_id=4, seed=0), []
    train(whole, [data], course, checkpoint=tmp_path / "none.pt", report=seen.append)
    assert seen[-1].loss < seen[0].loss
    assert learning_rate(course, 500, 1.0) == pytest.approx(course.floor)

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step >= 40:
            raise Stop

    stopped = new_model(512, SMALL, end_id=4, seed=0)
    with pytest.raises(Stop):
        train(stopped, [data], course, checkpoint=tmp_path / "kept.pt", report=stop, save_every=10)
    continued = new_model(512, SMALL, end_id=4, seed=1)
    train(continued, [data], course, checkpoint=tmp_path / "kept.pt", report=lambda progress: None)
    for one, other in zip(whole.parameters(), continued.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_two_processes_train_what_one_does_and_either_continues_the_other(data, tmp_path):
    course = Course(batch_tokens=600, warmup=2, epochs=2)
    made = {}
    for processes in (1, 2):
        made[processes] = new_model(512, SMALL, end_id=4, seed=0)
        losses = []
        train(
            made[processes],
            [data],
            course,
            checkpoint=tmp_path / f"{processes}.pt",
            report=losses.append,
            save_every=5,
            processes=processes,
        )
    continued = new_model(512, SMALL, end_id=4, seed=1)
    train(continued, [data], course, checkpoint=tmp_path / "2.pt", report=losses.append)
    for other in (made[2], continued):
        for one, two in zip(made[1].parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(one, two, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_a_lost_process_ends_the_training_with_an_error(data, tmp_path):
    course = Course(batch_tokens=600, warmup=2, epochs=50)

    def strike(progress):
        for child in psutil.Process().children():
            if "spawn_main" in " ".join(child.cmdline()):
                child.kill()

    model = new_model(512, SMALL, end_id=4, seed=0)
    with pytest.raises(RankLost, match=r"a process of the training has ended.*run the same command again"):
        train(model, [data], course, checkpoint=tmp_path / "kept.pt", report=strike, processes=2)


def test_rows_of_a_batch_are_dealt_to_the_ranks():
    assert [list(Ranks(rank, 3).rows("abcde")) for rank in range(3)] == [["a", "d"], ["b", "e"], ["c"]]
    assert list(Ranks(2, 3).rows("ab")) == []
    assert Ranks().rows("abc") == "abc"


def test_a_build_is_a_verified_policy_that_plays(built):
    directory = read_policy_directory(built)
    assert (directory.name, directory.version, directory.style) == ("pocket", 0, "terse")
    policy = open_policy(str(built), options={"slots": 4})
    assert policy.identity.weights_sha256 == directory.weights_sha256
    report = check(GROUND, policy, tasks=1)
    assert [f.requirement for f in report.figures] == list(REQUIREMENTS)
    assert not report.holds


def test_a_temperature_goes_into_the_weights(built, tmp_path):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(built, dtype=torch.float32)
    cool = write_policy(model, built, allowed=[1, 2], out=tmp_path / "cool", temperature=0.5)
    ids = torch.tensor([[5, 9, 4, 30]])
    with torch.inference_mode():
        at_half = model(ids).logits / 0.5
        at_one = AutoModelForCausalLM.from_pretrained(cool, dtype=torch.float32)(ids).logits
    torch.testing.assert_close(at_one, at_half, rtol=0, atol=1e-2)  # what half precision leaves
    assert read_policy_directory(cool).version == 0


def test_check_exits_3_and_names_what_was_missed(built):
    result = CliRunner().invoke(pocket_cli.app, ["check", "--policy", str(built), "--tasks", "1", "--json"])
    assert isinstance(result.exception, GateFailed)
    assert result.exception.exit_code == 3
    assert "valid actions" in str(result.exception)
    assert not json.loads(result.stdout)["holds"]


def test_build_plans_and_refuses_an_existing_policy(built, tmp_path):
    result = CliRunner().invoke(pocket_cli.app, ["build", "--out", str(tmp_path / "new"), "--dry-run", "--json"])
    assert json.loads(result.stdout)["warm"] == GROUND.recipe.warm
    assert not list(tmp_path.iterdir())
    result = CliRunner().invoke(pocket_cli.app, ["build", "--out", str(built)])
    assert isinstance(result.exception, UsageError)


def test_branch_figures_count_ties_half_and_only_whole_groups():
    def branch(node, delegation, k=8, complete=True):
        return {"node_id": node, "delegation_id": delegation, "k": k, "complete": complete}

    rows = {
        "branches": [*(branch(f"a{i}", "a") for i in range(8)), branch("b0", "b"), branch("c0", "c", k=1)],
        "labels": [{"node_id": f"a{i}", "valid": True, "value": float(i < 2)} for i in range(8)]
        + [{"node_id": n, "valid": True, "value": 1.0} for n in ("b0", "c0")],
        "scores": [
            {"node_id": node, "valid": True, "attempt": 0, "final_score": score}
            for node, score in (("a0", 0.7), ("a1", 0.2), ("a2", 0.5), ("a3", 0.7))
        ],
    }
    mixed, pairs = branch_figures(rows)
    assert mixed == [True, False]
    assert pairs == [1.0, 0.5, 0.0, 0.0]


def test_a_figure_without_data_does_not_hold():
    assert not Figure(REQUIREMENTS[0], None, 0).holds
    assert Figure(REQUIREMENTS[3], 0.5, 10).holds
    assert not Figure(REQUIREMENTS[3], 0.8, 10).holds


def test_the_mask_allows_what_teachers_say_and_no_control_token(data, folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    allowed = allowed_ids([data], tokenizer)
    assert [i for i in allowed if i < len(CONTROL)] == [tokenizer.token_to_id("<|end|>")]
    assert set(data.ids[data.parts == SPOKEN].tolist()) <= set(allowed)


def test_the_shipped_policy_is_small_and_its_logprobs_are_the_masked_model():
    from transformers import AutoModelForCausalLM

    assert sum(f.stat().st_size for f in POCKET.iterdir()) < 4_000_000
    policy = open_pocket("", options={"slots": 2})
    messages = [
        Message("system", "You craft items."),
        Message("user", 'Goal: craft 2x m2_i3\nInventory: {"m1_ore":5}\nSteps: 14 Depth: 0/2'),
    ]
    prompt = policy.renderer.open(messages)
    sampling = Sampling(temperature=1.0, max_tokens=32, seed=3)
    got = asyncio.run(policy.complete(Request("act", "s", messages, prompt, sampling)))
    assert got.finish_reason == "stop"
    assert json.loads(got.text)["tool"] in ("get_info", "craft", "delegate", "view_inventory", "finish")
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    allowed = json.loads((POCKET / "vocab_mask.json").read_text())["allowed"]
    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *got.completion_ids]])).logits[0, len(prompt) - 1 : -1]
    blocked = torch.ones(logits.shape[-1], dtype=torch.bool)
    blocked[allowed] = False
    expected = torch.log_softmax(logits.masked_fill(blocked, float("-inf")), -1)
    expected = expected.gather(1, torch.tensor(got.completion_ids).unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(torch.tensor(got.logprobs), expected, atol=1e-5, rtol=0)
    assert load_file(POCKET / "model.safetensors")["model.norm.weight"].dtype == torch.float16
