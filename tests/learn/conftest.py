"""A tiny random Qwen3 and random datums, for the tests of the learner."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from learn.datum import Datum
from learn.packing import Pack, micro_batch

torch.set_num_threads(1)
VOCABULARY = 37


@pytest.fixture
def tiny_model():
    def build(*, tied=True, seed=0, layers=2, vocabulary=VOCABULARY):
        torch.manual_seed(seed)
        config = Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=64,
            tie_word_embeddings=tied,
            initializer_range=0.3,
        )
        return Qwen3ForCausalLM(config)

    return build


@pytest.fixture
def make_datum():
    def build(name, length, *, seed=0, forbidden=(), advantage=None, version=0, stage="execution", group="0/t0"):
        draw = np.random.default_rng([seed, length])
        allowed = np.setdiff1d(np.arange(VOCABULARY), forbidden)
        trained = draw.random(length) < 0.5
        trained[0], trained[-1] = False, True
        value = float(draw.normal()) if advantage is None else advantage
        return Datum(
            datum_id=name,
            stage=stage,
            trajectory_id=name,
            group_id=group,
            depth=0,
            token_ids=draw.choice(allowed, length).astype(np.int32),
            trained=trained,
            logprobs=np.where(trained, -draw.exponential(2.0, length) - 0.5, 0).astype(np.float32),
            advantages=np.where(trained, value, 0).astype(np.float32),
            versions=np.where(trained, version, -1).astype(np.int32),
            policy_version=version,
        )

    return build


@pytest.fixture
def make_datums(make_datum):
    def build(lengths, **settings):
        return [make_datum(f"d{i:02d}", n, seed=i, **settings) for i, n in enumerate(lengths)]

    return build


@pytest.fixture(scope="session")
def collected(tmp_path_factory):
    """One sealed epoch of a puppet (`store`) and its policy (`policy`) in a directory; tests work on copies."""
    from tests.learn.puppet import Puppet, make_policy
    from tests.learn.test_phase import PLAYED, collect_epoch

    root = tmp_path_factory.mktemp("collected")
    collect_epoch(root / "store", Puppet(make_policy(root / "policy")), *PLAYED)
    return root


@pytest.fixture
def fresh():
    """The same datums with the log-probabilities that `network` gives them: data sampled by these weights."""

    def build(network, datums):
        done = []
        for datum in datums:
            with torch.no_grad():
                logprobs, _ = network(micro_batch(Pack((datum,))))
            stored = datum.logprobs.copy()
            stored[datum.trained] = logprobs.numpy()
            done.append(replace(datum, logprobs=stored))
        return done

    return build
