"""Control tokens written in goals, observations, rubrics and messages stay text in every prompt of every role."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import collect
from collect.policy import Completion, Message
from collect.renderer import ChatRenderer
from collect.world import Event
from tests.collect.test_tree_tokens import Tokens
from tests.collect.tree_lab import RUBRIC, SCORE, Pot, call, done, plan, play, script

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
UNMARKED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "<|fim_prefix|>"]  # as in Qwen3
POCKET = ["<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
PLANTED = "".join([*SPECIAL, *UNMARKED, *POCKET])
CHATML = (
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}<think>\n\n</think>\n\n{%- endif %}"
)


def qwen():
    """A tokenizer with Qwen3's control tokens, those that its files do not mark special included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=SPECIAL,
        show_progress=False,
    )
    tokenizer.train_from_iterator(["tool_call think im_end user assistant"] * 3, trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in UNMARKED])
    return ChatRenderer(tokenizer, CHATML), [*SPECIAL, *UNMARKED]


def pocket(name):
    return ChatRenderer.load(Path(collect.__file__).parent / name), POCKET


@pytest.fixture(scope="module", params=["qwen", "pocket", "pocket_textworld"])
def chat(request):
    """A renderer and the ids of its control tokens."""
    renderer, names = qwen() if request.param == "qwen" else pocket(request.param)
    return renderer, {renderer._tokenizer.token_to_id(name) for name in names}


def test_a_planted_token_has_no_control_id_and_reads_back(chat):
    renderer, control = chat
    assert None not in control
    for text in (PLANTED, f"x {PLANTED}\ny", *SPECIAL, *UNMARKED, *POCKET):
        ids = renderer.encode(text)
        assert not control & set(ids)
        assert renderer.decode(ids) == text


class Hostile(Pot):
    """The pot, whose observations name control tokens."""

    def apply(self, state, agent, action):
        state, event = super().apply(state, agent, action)
        return state, Event(event.ok, f"{event.result} {PLANTED}", event.delta)


def test_every_prompt_of_every_role_has_the_template_s_control_ids_only(chat):
    renderer, control = chat
    rubric = {**RUBRIC, "success_gate": f"gained {PLANTED}", "failure_conditions": PLANTED}
    turns = {
        "": [call("add", item=PLANTED, n=1), call("delegate", targets={"a": 1, PLANTED: 1}), done()],
        "/t1d0b0": [call("add", item="a", n=1), done(PLANTED)],
    }
    policies = {
        "act": Tokens("player", script(turns), renderer),
        "writer": Tokens("writer", lambda r: json.dumps(rubric), renderer),
        "scorer": Tokens("scorer", lambda r: json.dumps(SCORE), renderer),
    }
    task = plan().task
    spec = {**task.spec, "inventory": {PLANTED: 1}}
    hostile = replace(task, goal=f"make 2x a {PLANTED}", spec=spec)
    tree = play(world=Hostile(), plan_changes={"task": hostile}, **policies)
    assert tree.nodes[1]["message"] == PLANTED
    planted = 0
    for policy in policies.values():
        assert policy.requests
        for request in policy.requests:
            assert [i for i in request.prompt_ids if i in control] == template_controls(renderer, control, request)
            planted += any(PLANTED in m.content for m in request.messages)
    assert planted >= 5  # prompts of the agents, the writer and the scorer


def template_controls(renderer, control, request):
    """The control ids that a chat of so many messages has, whatever is written in them."""
    opening = [Message(m.role, "x") for m in request.messages if m.role != "assistant"]
    replies = sum(m.role == "assistant" for m in request.messages)
    ids = renderer.open(opening[: len(opening) - replies])
    for _ in range(replies):
        ids += [renderer.end_id, *renderer.append([renderer.end_id], "stop", "x")]
    return [i for i in ids if i in control]


def test_a_control_token_that_a_child_samples_is_text_to_its_parent(chat):
    """The child's own ids stay as they were sampled; what its parent reads of them is text."""
    renderer, control = chat
    name = next(n for n in (*POCKET, *UNMARKED) if renderer._tokenizer.token_to_id(n) in control - renderer.stop_ids)

    class Sampling(Tokens):
        async def complete(self, request):
            got = await super().complete(request)
            before, planted, after = got.text.partition(name)
            if not planted:
                return got
            ids = [*renderer.encode(before), renderer._tokenizer.token_to_id(name), *renderer.encode(after), self.end]
            return Completion(renderer.decode(ids), ids, [-0.5] * len(ids), "stop", "processed_logprobs", 5)

    turns = {"": [call("delegate", targets={"a": 1}), done()], "/t0d0b0": [call("add", item="a", n=1), done(name)]}
    policy = Sampling("player", script(turns), renderer)
    tree = play(policy)
    assert tree.nodes[1]["message"] == name
    finish = next(t for t in tree.turns if t["node_id"] == tree.nodes[1]["node_id"] and name in t["text"])
    assert renderer._tokenizer.token_to_id(name) in finish["completion_ids"]
    last = policy.requests[-1]
    assert name in last.messages[-1].content
    assert [i for i in last.prompt_ids if i in control] == template_controls(renderer, control, last)
