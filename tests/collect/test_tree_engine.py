"""Trees on the slot engine with a random model: stored deltas give the stored logprobs back in one forward pass."""

from __future__ import annotations

import asyncio

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from collect.causal_lm import CausalDecoder
from collect.policy import Identity
from collect.services import Services
from collect.settings import Budgets, RoleSampling, TreeSettings
from collect.slots import SlotEngine
from collect.transformers_policy import TransformersPolicy
from collect.tree import run_tree
from tests.collect.test_tree_tokens import real_renderer
from tests.collect.tree_lab import Pot, plan


@pytest.fixture(scope="module")
def renderer():
    return real_renderer()


@pytest.fixture(scope="module")
def model(renderer):
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=renderer._tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        tie_word_embeddings=True,
        max_position_embeddings=600,
    )
    made = Qwen3ForCausalLM(config).eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return made


def grow(model, renderer, *, together):
    settings = TreeSettings(budgets=Budgets(turns=4, context=590), act=RoleSampling(max_tokens=24))

    async def run():
        engine = SlotEngine(CausalDecoder(model, slots=4), slots=4, stop_ids=renderer.stop_ids)
        policy = TransformersPolicy(identity=Identity("tiny", "transformers", 2), renderer=renderer, engine=engine)
        services = Services(world=Pot(), policies={"act": policy}, settings=settings)
        plans = [plan("eval", sample=sample) for sample in range(3)]
        if together:
            trees = await asyncio.gather(*(run_tree(p, services) for p in plans))
        else:
            trees = [await run_tree(p, services) for p in plans]
        await policy.close()
        return trees

    return asyncio.run(run())


def test_stored_tokens_give_the_stored_logprobs_back(model, renderer):
    for tree in grow(model, renderer, together=True):
        turns = tree.rows["turns"]
        assert [t["base_turn"] is None for t in turns] == [True] + [False] * (len(turns) - 1)
        whole = [i for t in turns for i in (*t["prompt_ids"], *t["completion_ids"])]
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(input_ids=torch.tensor([whole])).logits[0], -1)
        at = 0
        for turn in turns:
            at += len(turn["prompt_ids"])
            assert at == turn["n_prompt"]
            for token, stored in zip(turn["completion_ids"], turn["logprobs"], strict=True):
                assert logprobs[at - 1, token].item() == pytest.approx(stored, abs=1e-4)
                at += 1
            assert turn["trainable"] is True
            assert turn["policy_version"] == 2


def test_trees_that_run_together_equal_trees_that_run_alone(model, renderer):
    alone, together = (grow(model, renderer, together=flag) for flag in (False, True))
    for one, other in zip(alone, together, strict=True):
        ids = [[t["completion_ids"] for t in tree.rows["turns"]] for tree in (one, other)]
        assert ids[0] == ids[1]
