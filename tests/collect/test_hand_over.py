"""What a hand-over refuses, whatever the engine; the engine itself is tested where vLLM is."""

import asyncio
import shutil

import pytest
from safetensors.torch import load_file, save_file

from collect.hand_over import hand_over
from collect.model_argument import SHIPPED
from collect.policies import open_policy
from collect.policy import PolicyError
from collect.policy_directory import write_policy_json
from collect.policy_identity import read_identity
from collect.vllm_policy import VllmPolicy, load_frontend
from collect.vllm_worker import head_rows
from sera_data.errors import UsageError

POCKET = SHIPPED["textcraft"]


class Recorder:
    """An engine whose output layer is `gap` away from its file after new weights."""

    max_context = 64

    def __init__(self, gap):
        self.gap, self.taken = gap, []

    async def take_weights(self, directory):
        self.taken.append(directory)
        return self.gap


def served(gap=0.0):
    renderer, mask = load_frontend(POCKET, template={})
    identity = read_identity(POCKET, engine="vllm")
    return VllmPolicy(directory=POCKET, identity=identity, renderer=renderer, engine=Recorder(gap), mask=mask)


@pytest.fixture
def newer(tmp_path):
    folder = tmp_path / "v1"
    shutil.copytree(POCKET, folder)
    (folder / "policy.json").unlink()
    save_file({name: w + 0.01 for name, w in load_file(folder / "model.safetensors").items()}, folder / "x.safetensors")
    (folder / "x.safetensors").replace(folder / "model.safetensors")
    write_policy_json(folder, name="pocket", version=1, style="terse")
    return folder


def test_the_new_version_is_named_once_the_engine_has_it(newer):
    policy = served()
    asyncio.run(hand_over(policy, newer))
    assert policy.engine.taken == [newer]
    assert (policy.identity.version, policy.directory) == (1, newer)
    assert policy.identity.weights_sha256 == read_identity(newer, engine="vllm").weights_sha256


@pytest.mark.parametrize("gap", [1.5, float("nan")])
def test_old_weights_in_the_output_layer_are_an_error_and_not_a_new_version(newer, gap):
    policy = served(gap)
    with pytest.raises(PolicyError, match="computes with other weights"):
        asyncio.run(hand_over(policy, newer))
    assert (policy.identity.version, policy.directory) == (0, POCKET)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "chat_template.jinja", "vocab_mask.json"])
def test_a_directory_of_another_policy_never_reaches_the_engine(newer, name):
    (newer / "policy.json").unlink()
    (newer / name).write_text("{}")
    write_policy_json(newer, name="pocket", version=1, style="terse")
    policy = served()
    with pytest.raises(UsageError, match=f"has another {name}"):
        asyncio.run(hand_over(policy, newer))
    assert policy.engine.taken == []


def test_running_requests_other_engines_and_plain_folders_are_refused(newer, tmp_path):
    policy = served()
    policy.running = 2
    with pytest.raises(UsageError, match="2 requests still run"):
        asyncio.run(hand_over(policy, newer))
    with pytest.raises(UsageError, match="no policy directory"):
        asyncio.run(hand_over(served(), tmp_path))
    with pytest.raises(UsageError, match="only policies of vLLM"):
        asyncio.run(hand_over(open_policy("scripted:oracle"), newer))


def test_rows_of_the_output_layer_are_read_tied_or_not(tmp_path):
    weights = load_file(POCKET / "model.safetensors")
    tied = head_rows(POCKET, start=4, count=3)
    assert tied.equal(weights["model.embed_tokens.weight"][4:7])
    own = weights["model.embed_tokens.weight"] + 1
    save_file({"lm_head.weight": own, **weights}, tmp_path / "model.safetensors")
    assert head_rows(tmp_path, start=508, count=64).equal(own[508:])
    save_file({"other": own}, tmp_path / "model.safetensors")
    with pytest.raises(KeyError, match="no output layer"):
        head_rows(tmp_path, start=0, count=1)
