"""Model directories whose hashes are right and whose files do not belong together: one line, no invented weights."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from collect.model_files import read_mask
from collect.policy_directory import PolicyDirectoryError, write_policy_json
from collect.transformers_policy import POCKET, open_policy
from learn.network import load_network
from sera_data.errors import UsageError


def spoil_json(name, change):
    def spoil(folder):
        body = json.loads((folder / name).read_text())
        change(body)
        (folder / name).write_text(json.dumps(body))

    return spoil


def replace(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def spoil_weights(change):
    def spoil(folder):
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def cut_file(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


WEIGHTS = {
    "a tensor is lacking": spoil_weights(lambda w: w.pop("model.layers.0.mlp.down_proj.weight")),
    "the file is cut": cut_file,
    "another shape": spoil_weights(lambda w: w.update({"model.norm.weight": w["model.norm.weight"][:-1].clone()})),
    "no tensors": replace("model.safetensors", b""),
    "a larger model": spoil_json("config.json", lambda c: c.update(num_hidden_layers=c["num_hidden_layers"] + 1)),
    "another kind of model": spoil_json("config.json", lambda c: c.update(model_type="nonsense")),
    "config is a list": replace("config.json", b"[]"),
    "config is cut": replace("config.json", b"{"),
}
MASKS = {
    "an id outside": spoil_json("vocab_mask.json", lambda m: m["allowed"].append(10**6)),
    "a negative id": spoil_json("vocab_mask.json", lambda m: m["allowed"].append(-1)),
    "an id twice": spoil_json("vocab_mask.json", lambda m: m["allowed"].append(m["allowed"][0])),
    "no id": spoil_json("vocab_mask.json", lambda m: m["allowed"].clear()),
    "a text": spoil_json("vocab_mask.json", lambda m: m.update(allowed="abc")),
    "no list": spoil_json("vocab_mask.json", lambda m: m.pop("allowed")),
    "no object": replace("vocab_mask.json", b"3"),
    "no JSON": replace("vocab_mask.json", b"{"),
}
TEXTS = {"tokenizer": replace("tokenizer.json", b"{}"), "template": replace("chat_template.jinja", b"{% if %}")}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(POCKET, tmp_path / "policy")


def spoiled(folder, spoil):
    spoil(folder)
    (folder / "policy.json").unlink()
    write_policy_json(folder, name="p", version=0, style="terse")  # the hashes are right again
    return folder


@pytest.mark.parametrize("fault", [*WEIGHTS, *MASKS, *TEXTS])
def test_the_sampler_refuses_it(folder, fault):
    spoiled(folder, (WEIGHTS | MASKS | TEXTS)[fault])
    with pytest.raises(PolicyDirectoryError, match=str(folder)):
        open_policy(str(folder), options={})


@pytest.mark.parametrize("fault", ["a tensor is lacking", "a larger model"])
def test_the_other_sampler_refuses_it(folder, fault):
    spoiled(folder, WEIGHTS[fault])
    with pytest.raises(PolicyDirectoryError, match=str(folder)):
        open_policy(str(folder), options={"forward": "transformers"})


@pytest.mark.parametrize("fault", [*WEIGHTS, *MASKS])
def test_the_learner_refuses_it(folder, fault):
    spoiled(folder, (WEIGHTS | MASKS)[fault])
    with pytest.raises(PolicyDirectoryError, match=str(folder)):
        load_network(folder, dtype=torch.float32)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"device": "banana"}, "'banana' is not usable here"),
        ({"device": "cuda:77"}, "'cuda:77' is not usable here"),
        ({"slots": 2_000_000_000}, "'slots'.*got 2000000000"),
        ({"sluts": 3}, "'sluts'.*allowed: context, device"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_loading(options, says):
    with pytest.raises(UsageError, match=says):
        open_policy(str(POCKET), options=options)


def test_a_whole_directory_loads(folder):
    assert load_network(folder, dtype=torch.float32)
    assert read_mask(folder, 10**5)
    (folder / "vocab_mask.json").unlink()
    assert read_mask(folder, 10**5) is None
