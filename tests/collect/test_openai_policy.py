"""A hosted policy over a real server on the loopback: what it says is stored, what it does wrong is never trained."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.openai_policy import PolicyRefused, open_policy
from collect.policies import open_policies
from collect.policies import open_policy as open_spec
from collect.policy import (
    Message,
    PolicyMalformed,
    PolicyRateLimited,
    PolicyTimeout,
    PolicyUnavailable,
    Request,
    Sampling,
)
from sera_data.errors import UsageError

sys.path.insert(0, str(Path(__file__).parent))
from job_lab import play, small_config
from judge_lab import completion, drop, endpoint, half, hang, raw

KEY = "sk-planted-0123456789abcdef"
MESSAGES = (Message("system", "play"), Message("user", "Goal: söup"))
RUBRIC = json.dumps(
    {
        "rubric_items": [
            {"name": "items", "description": "the goal is in the inventory", "weight": 0.6},
            {"name": "thrift", "description": "nothing else was used up", "weight": 0.4},
        ],
        "success_gate": "the goal is in the inventory",
        "failure_conditions": "nothing was crafted",
        "scoring_procedure": "compare the inventory with the goal",
    }
)


pytestmark = pytest.mark.usefixtures("no_keys")


def options(url, **changes):
    return {"base_url": url, "retries": 2, "retry_wait_s": 0.0, "timeout_s": 20.0, **changes}


def ask(url, *, times=1, **changes):
    """Completions of `times` concurrent requests."""

    async def run():
        policy = open_policy("some/model", options=options(url, **changes))
        try:
            request = Request("writer", "s", MESSAGES, None, Sampling(0.7, 77, 2**40 + 5))
            return await asyncio.gather(*(policy.complete(request) for _ in range(times)))
        finally:
            await policy.close()

    return asyncio.run(run())


def reply(text, *, finish="stop", **fields):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 120, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 64}}
    return raw(200, completion("", **{"choices": [choice], "usage": usage, **fields}))


def test_text_model_and_usage_are_taken_as_the_server_says_them():
    with endpoint(reply("fertig: sôup")) as server:
        (got,) = ask(server.url, body={"reasoning_effort": "none"})
    assert (got.text, got.finish_reason, got.served_model) == ("fertig: sôup", "stop", "served-1")
    assert (got.n_prompt, got.n_cached, got.n_completion) == (120, 64, 9)
    assert (got.completion_ids, got.logprobs, got.logprobs_mode) == (None, None, "none")
    assert server.requests[0][1] == {
        "model": "some/model", "temperature": 0.7, "max_tokens": 77, "seed": 5, "reasoning_effort": "none",
        "messages": [{"role": "system", "content": "play"}, {"role": "user", "content": "Goal: söup"}],
    }  # fmt: skip


def test_a_cut_reply_is_a_completion_that_ended_with_length():
    with endpoint(reply("half of", finish="length"), reply(None, finish="length")) as server:
        assert [ask(server.url)[0].finish_reason, ask(server.url)[0].text] == ["length", ""]


FAULTS = {
    "429 for ever": (raw(429, b"slow down"), PolicyRateLimited, r"HTTP 429 \(3 tries\)", True, 3),
    "503": (raw(503, b"loading"), PolicyUnavailable, r"HTTP 503 \(3 tries\)", True, 3),
    "dropped": (drop, PolicyUnavailable, "tries", True, 3),
    "broken off": (half, PolicyUnavailable, "tries", True, 3),
    "not JSON": (raw(200, b"<html>"), PolicyMalformed, "not JSON", False, 1),
    "no completion": (raw(200, b'{"detail": "hm"}'), PolicyMalformed, "no chat completion", False, 1),
    "no text": (reply(None), PolicyMalformed, "holds no text", False, 1),
    "filtered": (reply("x", finish="content_filter"), PolicyMalformed, "'content_filter'", False, 1),
    "tools": (reply("x", finish="tool_calls"), PolicyMalformed, "'tool_calls'", False, 1),
    "too long": (raw(400, b'{"error": "context of 4096"}'), PolicyMalformed, "context of 4096", True, 1),
}


@pytest.mark.parametrize("answer, kind, words, lasting, requests", FAULTS.values(), ids=FAULTS)
def test_a_fault_has_its_type_and_says_whether_trying_again_is_of_use(answer, kind, words, lasting, requests):
    with endpoint(answer) as server, pytest.raises(kind, match=words) as fault:
        ask(server.url)
    assert fault.value.lasting is lasting
    assert len(server.requests) == requests


def test_silence_is_a_timeout():
    with (
        endpoint(hang) as server,
        pytest.raises(PolicyTimeout, match=r"no reply within 0.2 s \(1 tries\)|within 0.2 s"),
    ):
        ask(server.url, timeout_s=0.2, retries=0)


def test_nobody_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
        with pytest.raises(PolicyUnavailable, match="ConnectError"):
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", retries=1)


def test_a_rate_limit_that_passes_is_waited_for():
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    with endpoint(raw(429, b"", Retry_After="0"), raw(429, b"", Retry_After=past), reply("ok")) as server:
        (got,) = ask(server.url, retry_wait_s=100.0, retry_wait_max_s=100.0)
    assert (got.text, len(server.requests)) == ("ok", 3)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model_stops_the_work_and_shows_no_key(status, monkeypatch):
    monkeypatch.setenv("SERA_POLICY_KEY", KEY)
    with endpoint(raw(status, f"wrong key {KEY}".encode())) as server, pytest.raises(PolicyRefused) as refusal:
        ask(server.url)
    assert f"HTTP {status}" in str(refusal.value)
    assert "SERA_POLICY_KEY" in str(refusal.value)
    assert KEY not in str(refusal.value)


def test_each_policy_has_its_own_key_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-usual-0123456789")
    monkeypatch.setenv("WRITER_KEY", KEY)
    with endpoint(reply(f"the key is {KEY}")) as server:
        (got,) = ask(server.url, key_variable="WRITER_KEY")
        ask(server.url)
    assert [headers["Authorization"] for headers, _ in server.requests] == [
        f"Bearer {KEY}",
        "Bearer sk-usual-0123456789",
    ]
    assert got.text == "the key is [key]"
    with pytest.raises(UsageError, match="NOT_THERE is not set"):
        ask("http://127.0.0.1:9/v1", key_variable="NOT_THERE")


BAD = {
    "no URL": ("m", {}, "MODEL@URL"),
    "two URLs": ("m@http://h/v1", {"base_url": "http://h/v1"}, "two URLs"),
    "password": ("m", {"base_url": "http://u:secret@h/v1"}, "user or a password"),
    "query": ("m", {"base_url": "http://h/v1?key=secret"}, "MODEL@URL"),
    "no web address": ("m", {"base_url": "ftp://h/v1"}, "MODEL@URL"),
    "key in an option": ("m", {"base_url": "http://h/v1", "api_key": "secret"}, "'api_key'"),
    "own field": ("m", {"base_url": "http://h/v1", "body": {"messages": []}}, "body must not hold messages"),
}


@pytest.mark.parametrize("argument, given, words", BAD.values(), ids=BAD)
def test_a_wrong_spec_is_refused_in_words_without_secrets(argument, given, words):
    with pytest.raises(UsageError, match=words) as fault:
        open_spec(f"openai:{argument}", options=given)
    assert "secret" not in str(fault.value)


def test_an_external_writer_and_a_scripted_rest_make_a_store(tmp_path, monkeypatch):
    """One job with three engines; hosted rubrics are stored with model, usage and no ids, and the store is sound."""
    monkeypatch.setenv("WRITER_KEY", KEY)
    with endpoint(reply(RUBRIC, model="served-writer")) as server:
        hosted = f"{{base_url: '{server.url}', key_variable: WRITER_KEY}}"
        config = small_config(
            f"policy.roles.writer={{model: 'openai:big', options: {hosted}}}",
            "policy.roles.scorer=scripted:careless",
        )
        store, job, work = play(tmp_path / "s", config)
    assert work.complete
    sd.seal(store, job.plan.name)
    sd.verify(store)
    turns = store.turns.pl()
    spoke = {(row["role"], row["policy"]) for row in turns.iter_rows(named=True)}
    assert spoke == {("act", "scripted:delegating_oracle"), ("writer", "big"), ("scorer", "scripted:careless")}
    written = turns.filter(turns["role"] == "writer").to_dicts()
    assert written
    for row in written:
        assert (row["trainable"], row["prompt_ids"], row["completion_ids"], row["logprobs"]) == (
            False,
            None,
            None,
            None,
        )
        assert (row["n_prompt"], row["n_cached"], row["n_completion"]) == (120, 64, 9)
        assert (row["served_model"], row["text"], row["ok"]) == ("served-writer", RUBRIC, True)
        assert row["cost"] is None
    assert {row["writer"] for row in store.rubrics.pl().to_dicts()} == {"big"}
    run = store.runs.pl().to_dicts()[0]
    assert {(p["role"], p["engine"], p["name"]) for p in run["policies"]} >= {("writer", "openai", "big")}
    everything = b"".join(p.read_bytes() for p in (tmp_path / "s").rglob("*") if p.is_file())
    assert KEY.encode() not in everything
    assert all(headers["Authorization"] == f"Bearer {KEY}" for headers, _ in server.requests)


def test_a_server_that_fails_loses_trees_to_infrastructure_and_trains_nothing(tmp_path):
    with endpoint(raw(500, b"oops")) as server:
        config = small_config(
            "groups={execution: 1}", "infra_error_limit=1.0", "budgets.retry_wait_s=0",
            f"policy={{model: 'openai:big', options: {{base_url: '{server.url}', retries: 1, retry_wait_s: 0}}}}",
        )  # fmt: skip
        store, _, _ = play(tmp_path / "s", config, policies=open_policies(config.policy, roles=config.roles()))
    roots = store.nodes.pl().to_dicts()
    assert {row["outcome"] for row in roots} == {"infra_error"}
    assert all("HTTP 500 (2 tries)" in row["error"] for row in roots)
    assert len(server.requests) == 2 * len(roots)  # a lasting fault is not tried again by the runner
    assert store.turns.pl().filter(store.turns.pl()["trainable"]).height == 0


def test_a_refused_key_stops_a_job_in_one_line(tmp_path):
    with endpoint(raw(401, b"no")) as server:
        config = small_config("groups={execution: 1}", f"policy.model=openai:big@{server.url}")
        with pytest.raises(PolicyRefused, match="HTTP 401"):
            play(tmp_path / "s", config)
