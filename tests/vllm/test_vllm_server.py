"""A server of vLLM as the policy: what comes over HTTP is what the engine in process gives."""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from urllib.error import URLError

import numpy as np
import pytest

from collect.hand_over import hand_over
from collect.policies import open_policy
from collect.policy import Message, PolicyUnavailable, Request, Sampling
from tests.port import free_port

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]
READY_S = 600  # a bound for a broken server, not an expectation


@pytest.fixture(scope="module")
def url(pocket, tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "log"
    port = free_port()
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(pocket)),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"),
        *("--max-model-len", "1024", "--max-num-seqs", "16", "--block-size", "32", "--gpu-memory-utilization", "0.2"),
        *("--kv-cache-memory-bytes", str(2**29), "--logprobs-mode", "processed_logprobs"),
        *("--enable-prompt-tokens-details", "--served-model-name", "tiny"),
        *("--worker-extension-cls", "collect.vllm_worker.WeightWorker"),
    ]
    settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **settings})
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(READY_S)


def _wait_until_ready(url, server, log):
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"the server ended: {log.read_text()[-3000:]}")
        with suppress(URLError, ConnectionError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(0.3)
    pytest.fail(f"the server is not ready: {log.read_text()[-3000:]}")


def requests_of(policy, n):
    messages = [Message("system", "You craft. " * 12), Message("user", "make 2x oak_planks")]
    ids = policy.renderer.open(messages)
    return [Request("act", f"s{i}", messages, ids, Sampling(0.7, 24, i), group="t1") for i in range(n)]


def test_completions_over_http_are_those_of_transformers(url, pocket, reference):
    # two names of one server stand for two replicas
    policy = open_policy(f"vllm-server:pocket@{url},{url.replace('127.0.0.1', 'localhost')}")
    assert policy.identity.engine == "vllm-server"
    assert policy.engine.max_context == 1024

    async def play():
        made = [await policy.complete(r) for r in requests_of(policy, 1)]
        made += await asyncio.gather(*(policy.complete(r) for r in requests_of(policy, 6)))
        await policy.close()
        return made

    made = asyncio.run(play())
    prompt = requests_of(policy, 1)[0].prompt_ids
    for got in made:
        ids = [*prompt, *got.completion_ids]
        want = reference(pocket, ids, temperature=0.7, masked=True)[len(prompt) - 1 :]
        np.testing.assert_allclose(got.logprobs, want, atol=1e-3)
        assert got.logprobs_mode == "processed_logprobs"
        if got.finish_reason == "stop":
            assert got.completion_ids[-1] in policy.renderer.stop_ids
    assert made[0].completion_ids == made[1].completion_ids  # the same seed
    assert all(got.n_cached >= 0.5 * len(prompt) for got in made[1:])  # one replica has the prefix: whole blocks of 32


def test_new_weights_over_http(url, pocket, newer, reference):
    policy = open_policy(f"vllm-server:pocket@{url}")
    ids = requests_of(policy, 1)[0].prompt_ids

    async def scores():
        await hand_over(policy, newer)
        moved = await policy.engine.score(ids)
        await hand_over(policy, pocket)
        back = await policy.engine.score(ids)
        await policy.close()
        return moved, back

    moved, back = asyncio.run(scores())
    np.testing.assert_allclose(moved, reference(newer, ids), atol=1e-3)
    np.testing.assert_allclose(back, reference(pocket, ids), atol=1e-3)


def test_the_check_as_a_command(url):
    command = [sys.executable, "-m", "sera_data", "policy", "check", "pocket", "--engine", "vllm-server", "--json"]
    done = subprocess.run([*command, "--url", url, "--trees", "4"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["holds"]
    assert report["mismatch_max"] < 1e-3
    strict = subprocess.run(
        [*command, "--url", url, "--trees", "2", "--bound", "0"], capture_output=True, text=True, check=False
    )
    assert strict.returncode == 3
    assert "engine and trainer disagree" in strict.stderr


def test_a_server_that_is_gone(url):
    policy = open_policy(f"vllm-server:pocket@{url}")
    policy.engine.replicas.names = ("http://127.0.0.1:9",)

    async def ask():
        policy.engine._places["http://127.0.0.1:9"] = policy.engine._places[url]
        try:
            await policy.complete(requests_of(policy, 1)[0])
        finally:
            await policy.close()

    with pytest.raises(PolicyUnavailable, match=r"http://127\.0\.0\.1:9"):
        asyncio.run(ask())
