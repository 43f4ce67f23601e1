"""What a server may answer: completions, things that are none, and servers that cannot serve training; over HTTP."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from collect.policies import open_policy
from collect.policy import Message, PolicyMalformed, PolicyTimeout, PolicyUnavailable, Request, Sampling
from sera_data.errors import UsageError


def completion(body, ids, logprobs=None, **changes):
    found = {
        "token_ids": ids,
        "prompt_token_ids": body["prompt"],
        "logprobs": {"token_logprobs": [-0.5] * len(ids) if logprobs is None else logprobs},
        "finish_reason": "stop",
    }
    return {"choices": [found | changes], "usage": {"prompt_tokens_details": {"cached_tokens": 3}}}


class Server:
    """A server on loopback: the first completion asked for is the probe, later ones are answered by `answer(body)`."""

    def __init__(self, *, probe=lambda body: completion(body, body["allowed_token_ids"], [0.0]), model="tiny"):
        self.probe, self.model, self.bodies, self.headers = probe, model, [], []
        self.answer = lambda body: (200, completion(body, [7, 4]))
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self._send(200, {"data": [{"id": outer.model, "max_model_len": 512}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append(dict(self.headers))
                outer.bodies.append(body)
                first = len(outer.bodies) == 1
                status, reply = (200, outer.probe(body)) if first else outer.answer(body)
                self._send(status, reply)

            def _send(self, status, reply):
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *fault):
        self._server.shutdown()
        self._server.server_close()


def ask(policy, n=1, group="t1"):
    messages = [Message("user", "make 2x stick")]
    asked = Request("act", "s", messages, policy.renderer.open(messages), Sampling(1.0, 16, 5), group=group)

    async def go():
        try:
            return [await policy.complete(asked) for _ in range(n)]
        finally:
            await policy.close()

    return asyncio.run(go())


def test_a_completion_and_what_was_asked(monkeypatch):
    monkeypatch.setenv("SERA_POLICY_KEY", "secret-key-1234")
    with Server() as server:
        policy = open_policy(f"vllm-server:pocket@{server.url}")
        (got,) = ask(policy)
    assert (got.completion_ids, got.logprobs, got.finish_reason, got.n_cached) == ([7, 4], [-0.5, -0.5], "stop", 3)
    assert policy.engine.max_context == 512
    body = server.bodies[-1]
    assert (body["model"], body["seed"], body["max_tokens"], body["top_k"]) == ("tiny", 5, 16, 0)
    assert body["stop_token_ids"] == sorted(policy.renderer.stop_ids)
    assert 0 < len(body["allowed_token_ids"]) < 510
    assert all(headers["Authorization"] == "Bearer secret-key-1234" for headers in server.headers)
    assert "secret" not in repr(vars(policy.engine))


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        (lambda body: completion(body, body["allowed_token_ids"], [-6.2]), "raw log-probabilities"),
        (lambda body: {"choices": [{"text": "x", "finish_reason": "stop"}]}, "no completion with token ids"),
        (lambda body: {"error": "x"}, "no completion with token ids"),
        (lambda body: completion(body, [1], [0.0], prompt_token_ids=[9, 9]), "read another prompt"),
    ],
)
def test_servers_that_cannot_serve_training_are_refused_when_opened(probe, says):
    with Server(probe=probe) as server, pytest.raises(UsageError, match=says):
        open_policy(f"vllm-server:pocket@{server.url}")


@pytest.mark.parametrize(
    ("answer", "fault", "says"),
    [
        (lambda body: (500, {"error": "out of memory"}), PolicyUnavailable, "answered 500: .*out of memory"),
        (lambda body: (400, {"error": "too long"}), PolicyMalformed, "answered 400: .*too long"),
        (lambda body: (200, completion(body, [7, 4], [-0.5])), PolicyMalformed, "2 token ids and 1 log-prob"),
        (lambda body: (200, completion(body, [7], [float("-inf")])), PolicyMalformed, "not finite"),
        (lambda body: (200, completion(body, [7], finish_reason="error")), PolicyMalformed, "no completion"),
        (lambda body: (200, completion(body, [7], prompt_token_ids=[1])), PolicyMalformed, "read another prompt"),
    ],
)
def test_what_a_server_does_wrong_is_an_infrastructure_fault(answer, fault, says):
    with Server() as server:
        policy = open_policy(f"vllm-server:pocket@{server.url}")
        server.answer = answer
        with pytest.raises(fault, match=says):
            ask(policy)


def test_a_server_that_does_not_answer():
    never = threading.Event()
    with Server() as server:
        policy = open_policy(f"vllm-server:pocket@{server.url}", options={"timeout_s": 0.2})
        server.answer = lambda body: (never.wait(30), {})
        with pytest.raises(PolicyTimeout, match=r"did not answer within 0\.2 s"):
            ask(policy)
        never.set()


def test_tasks_stay_with_their_replica_and_move_when_it_is_gone():
    with Server() as one, Server() as two:
        policy = open_policy(f"vllm-server:pocket@{one.url},{two.url}")
        for i in range(12):
            ask(policy, n=3, group=f"t{i}")
        asked = [len(one.bodies) - 1, len(two.bodies) - 1]  # without the probes
        assert sum(asked) == 36
        assert min(asked) > 0
        assert all(n % 3 == 0 for n in asked)
        group = next(f"t{i}" for i in range(12) if policy.engine.replicas.of(f"t{i}") == one.url)
        one.answer = lambda body: (503, {})
        with pytest.raises(PolicyUnavailable):
            ask(policy, group=group)
        ask(policy, group=group)  # the retry goes to the other
        assert len(two.bodies) - 1 == asked[1] + 1


def test_servers_of_different_models_are_refused():
    with Server() as one, Server(model="other") as two:
        with pytest.raises(UsageError, match="serve different models: other, tiny"):
            open_policy(f"vllm-server:pocket@{one.url},{two.url}")
        with pytest.raises(UsageError, match="does not serve 'tiny'"):
            open_policy(f"vllm-server:pocket@{two.url}", options={"model": "tiny"})
