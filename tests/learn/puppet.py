"""A puppet: it says what a script says, in its own tokens, with the log-probabilities of a tiny random model.

Invariant: to the store and the learner it is a policy like any other (renderer, ids, logprobs, hashes), so a whole
learn phase can be tested on trees that succeed and fail, without trained weights.
"""

from __future__ import annotations

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from collect.policies import open_policy
from collect.policy import Completion
from collect.policy_directory import read_policy_directory, write_policy_json
from collect.renderer import ChatRenderer
from learn.datum import Datum
from learn.network import load_network
from learn.packing import Pack, micro_batch
from learn.pocket_textcraft import GROUND
from learn.pocket_tokenizer import build_tokenizer, save_tokenizer

TEXTS = ('{"tool":"get_info","items":["m2_i3"]}', "Goal: craft 2x m2_i3\nInventory: {}\nSteps: 14 Depth: 0/2")


def make_policy(path, *, seed=0, texts=TEXTS):
    """A sealed policy directory with random weights."""
    tokenizer = build_tokenizer(texts, words=GROUND.words, piece=GROUND.piece, size=480)
    save_tokenizer(tokenizer, path)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.1,
    )
    disable_progress_bar()
    Qwen3ForCausalLM(config).save_pretrained(path)
    write_policy_json(path, name="puppet", version=0, style="terse")
    return read_policy_directory(path)


class Puppet:
    """Plays a script and answers with ids and log-probabilities."""

    trainable = True

    def __init__(self, directory, *, script="scripted:careless", version=0):
        self.script = open_policy(script)
        self.renderer = ChatRenderer.load(directory.path)
        self.network = load_network(directory.path, dtype=torch.float32)
        self.identity = directory.identity(engine="puppet")
        self.version = directory.version

    async def complete(self, request):
        said = await self.script.complete(request)
        prompt = list(request.prompt_ids or self.renderer.open(request.messages))
        ids = [*self.renderer.encode(said.text), self.renderer.end_id]
        return Completion(said.text, ids, self.logprobs(prompt, ids), "stop", "processed_logprobs", self.version)

    def logprobs(self, prompt, ids):
        """Log-probabilities of `ids` after `prompt` under the puppet's weights."""
        length, trained = len(prompt) + len(ids), np.arange(len(prompt) + len(ids)) >= len(prompt)
        zeros = np.zeros(length, np.float32)
        versions = np.where(trained, 0, -1).astype(np.int32)
        tokens = np.array([*prompt, *ids], np.int32)
        datum = Datum("x", "execution", "x", "0/t", 0, tokens, trained, zeros, zeros, versions, 0)
        with torch.no_grad():
            return self.network(micro_batch(Pack((datum,))))[0].tolist()

    def release(self, session):
        self.script.release(session)

    async def close(self):
        await self.script.close()
