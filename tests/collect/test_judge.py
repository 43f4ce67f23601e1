"""A judge over HTTP against a real server on the loopback that answers well, badly, late or not at all."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

from collect.chat_endpoint import key_of_environment
from collect.judge import open_endpoint
from collect.judge_config import KEY_VARIABLES
from collect.labels import LabellerRefused
from collect.policy import Message
from sera_data.errors import UsageError

sys.path.insert(0, str(Path(__file__).parent))
from judge_lab import completion, drop, endpoint, half, hang, quick, raw, say

MESSAGES = [Message("system", "judge"), Message("user", "Goal: söup")]
KEY = "sk-planted-0123456789abcdef"


pytestmark = pytest.mark.usefixtures("no_keys")


def ask(url, *, times=1, seed=5, **changes):
    """Replies of `times` concurrent requests."""

    async def run():
        judge = open_endpoint(f"some/model@{url}", settings=quick(**changes))
        try:
            return await asyncio.gather(*(judge.ask(MESSAGES, seed=seed) for _ in range(times)))
        finally:
            await judge.close()

    return asyncio.run(run())


def test_a_good_answer_is_taken_whole():
    with endpoint(say(True)) as server:
        (reply,) = ask(server.url, temperature=0.5, max_tokens=77, body={"reasoning_effort": "none"})
    assert json.loads(reply.text) == {"success": True, "reason": "it is shown"}
    assert reply.raw == reply.text
    assert (reply.error, reply.prompt_tokens, reply.completion_tokens) == (None, 120, 9)
    assert (reply.served_model, reply.tries) == ("served-1", 1)
    assert reply.latency_s > 0
    (headers, body) = server.requests[0]
    assert server.paths == ["/v1/chat/completions"]
    assert "Authorization" not in headers
    assert body == {
        "model": "some/model", "temperature": 0.5, "max_tokens": 77, "seed": 5, "reasoning_effort": "none",
        "messages": [{"role": "system", "content": "judge"}, {"role": "user", "content": "Goal: söup"}],
    }  # fmt: skip


def test_fields_can_be_replaced_and_left_out():
    with endpoint(say(True)) as server:
        ask(server.url, seed=None, body={"max_completion_tokens": 5, "temperature": None})
    assert set(server.requests[0][1]) == {"model", "messages", "max_completion_tokens"}


FAULTS = {
    "not JSON": (raw(200, b"<html>busy</html>"), "the reply is not JSON", "<html>busy</html>"),
    "half a JSON": (raw(200, completion("yes")[:60]), "the reply is not JSON", '{"id": "c"'),
    "not UTF-8": (raw(200, b'{"choices": "\xff\xfe"}'), "not UTF-8: byte 13 is 0xff", "\\xff\\xfe"),
    "no completion": (raw(200, b'{"detail": "hm"}'), "no chat completion", "hm"),
    "a list": (raw(200, b"[1]"), "no chat completion", "[1]"),
    "no choice": (raw(200, b'{"choices": []}'), "no chat completion", "choices"),
    "no text": (raw(200, completion(None)), "holds no text", "choices"),
    "parts": (raw(200, completion([{"text": "x"}])), "holds no text", "choices"),
    "empty body": (raw(200, b""), "the reply is not JSON", ""),
    "bad request": (raw(400, b'{"error": "too long"}'), "HTTP 400", "too long"),
    "redirect": (raw(307, b"", Location="http://127.0.0.1:9/"), "HTTP 307", None),
    "wrong encoding": (raw(200, b"abc", Content_Encoding="gzip"), "unreadable reply", None),
    "huge": (raw(200, b" " * (2**22 + 1)), "longer than 4 MiB", None),
}


@pytest.mark.parametrize("answer, error, kept", FAULTS.values(), ids=FAULTS)
def test_a_wrong_answer_is_not_asked_for_again(answer, error, kept):
    with endpoint(answer) as server:
        (reply,) = ask(server.url)
    assert error in reply.error
    assert reply.text is None
    assert (kept is None and reply.raw is None) or kept in reply.raw
    assert (len(server.requests), reply.tries) == (1, 1)


PASSING = {
    "429": raw(429, b"slow down"),
    "500": raw(500, b"oops"),
    "503": raw(503, b"loading"),
    "dropped": drop,
    "broken off": half,
}


@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
def test_a_passing_fault_is_tried_again(answer):
    with endpoint(answer, answer, say(False)) as server:
        (reply,) = ask(server.url)
    assert json.loads(reply.text)["success"] is False
    assert (reply.error, reply.tries, len(server.requests)) == (None, 3, 3)


def test_a_lasting_fault_is_named_with_its_tries():
    with endpoint(raw(500, b"oops")) as server:
        (reply,) = ask(server.url)
    assert (reply.error, reply.raw, reply.tries) == ("HTTP 500 (3 tries)", "oops", 3)
    assert len(server.requests) == 3


def test_a_silent_endpoint_is_given_up():
    with endpoint(hang) as server:
        (reply,) = ask(server.url, timeout_s=0.2, retries=1)
    assert reply.error == "no reply within 0.2 s (2 tries)"
    assert reply.tries == 2


def test_nobody_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
        (reply,) = ask(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", retries=1)
    assert reply.error.startswith("ConnectError")
    assert reply.error.endswith("(2 tries)")


def test_waits_grow_and_are_capped():
    judge = open_endpoint("m@http://h/v1", settings=quick(retry_wait_s=1.0, retry_wait_max_s=6.0))
    waits = [judge._wait(tries, None) for tries in (1, 2, 3, 4, 9)]
    for wait, middle in zip(waits, (1, 2, 4, 6, 6), strict=True):
        assert 0.75 * middle <= wait <= 1.25 * middle
    assert judge._wait(1, 3.0) == 3.0
    assert judge._wait(1, 900.0) == 6.0


def test_the_endpoint_may_say_how_long_to_wait():
    with endpoint(raw(429, b"", Retry_After="0"), say(True)) as server:
        (reply,) = ask(server.url, retry_wait_s=100.0, retry_wait_max_s=100.0)
    assert reply.tries == 2


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model_stops_the_work(status, monkeypatch):
    monkeypatch.setenv("SERA_JUDGE_KEY", KEY)
    with endpoint(raw(status, f'{{"error": "Incorrect API key: {KEY}"}}'.encode())) as server:
        with pytest.raises(LabellerRefused) as refusal:
            ask(server.url)
        assert len(server.requests) == 1
    assert f"HTTP {status}" in str(refusal.value)
    assert "SERA_JUDGE_KEY" in str(refusal.value)
    assert KEY not in str(refusal.value)


def test_a_truncated_reply_is_no_verdict():
    choice = {"message": {"content": '{"success": true, "reason": "x"}'}, "finish_reason": "length"}
    with endpoint(raw(200, completion("", choices=[choice]))) as server:
        (reply,) = ask(server.url, max_tokens=12)
    assert reply.error == "truncated reply: it reached 12 tokens"
    assert reply.raw == '{"success": true, "reason": "x"}'


def test_strange_usage_is_no_count():
    with endpoint(raw(200, completion("a", usage={"prompt_tokens": "7", "completion_tokens": -1}))) as server:
        (reply,) = ask(server.url)
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)


def test_the_key_goes_into_the_header_and_nowhere_else(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other-key-that-is-second")
    monkeypatch.setenv("SERA_JUDGE_KEY", f"{KEY}\n")
    with endpoint(raw(200, completion(f"your key is {KEY} \ud800", model=KEY))) as server:
        (reply,) = ask(server.url)
    assert server.requests[0][0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(reply.raw) + repr(reply.served_model)
    assert reply.raw == "your key is [key] \\ud800"
    monkeypatch.delenv("SERA_JUDGE_KEY")
    with endpoint(say(True)) as server:
        ask(server.url)
    assert server.requests[0][0]["Authorization"] == "Bearer sk-other-key-that-is-second"


@pytest.mark.parametrize("key", ["sk a", "sk-é", "sk\x01b", "a\r\nX-Evil: 1"])
def test_a_key_that_no_header_carries_is_refused_unseen(key, monkeypatch):
    monkeypatch.setenv("SERA_JUDGE_KEY", key)
    with pytest.raises(UsageError) as refusal:
        key_of_environment(KEY_VARIABLES)
    assert "SERA_JUDGE_KEY" in str(refusal.value)
    assert key not in str(refusal.value)


BAD_SPECS = [
    "",
    "m",
    "m@ftp://h/v1",
    "m@http://h/v1@http://user:pass@h",
    "@http://h/v1",
    "m@http://",
    "m@http://[::1/v1",
    "m@http://h:99999/v1",
    "m@http:///v1",
    "m@http://user:pass@h/v1",
    "m@http://h/v1?key=abc",
]


@pytest.mark.parametrize("spec", BAD_SPECS)
def test_a_spec_without_model_or_plain_url_is_refused(spec):
    with pytest.raises(UsageError, match="MODEL@URL") as refusal:
        open_endpoint(spec, settings=quick())
    assert "pass@h" not in str(refusal.value)


def test_specs_that_are_taken():
    settings = quick()
    one = open_endpoint("org/m@v2@http://h:8000/v1/chat/completions/", settings=settings)
    assert (one.name, one.url) == ("org/m@v2", "http://h:8000/v1")


def test_at_most_so_many_requests_are_in_flight():
    running, most = [], []

    def busy(handler):
        running.append(1)
        most.append(len(running))
        handler.server.stopped.wait(0.05)
        running.pop()
        say(True)(handler)

    with endpoint(busy) as server:
        replies = ask(server.url, times=8, concurrency=2)
    assert all(reply.error is None for reply in replies)
    assert max(most) == 2
