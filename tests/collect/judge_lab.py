"""A judge's endpoint on the loopback that answers as a test says: well, badly, late or not at all.

Use: ``with endpoint(say(True)) as server:`` then ask ``server.url``; `server.requests` holds (headers, body) in order.
An answer is a callable that gets the request handler; with several, request n gets the n-th, the last one stays.
"""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from collect.judge_config import JudgeSettings


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.requests)
            server.requests.append((dict(self.headers), body))
            server.paths.append(self.path)
        server.answers[min(number, len(server.answers) - 1)](self)

    def log_message(self, *arguments):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.requests, self.paths = answers, [], []
        self.lock, self.stopped = threading.Lock(), threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        pass  # a client that gave up is what some tests want


@contextlib.contextmanager
def endpoint(*answers):
    """A running server; its answers may be given later as `server.answers`."""
    with _Server(list(answers)) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield server
        finally:
            server.stopped.set()
            server.shutdown()
            thread.join()


def raw(status, content, **headers):
    """An answer of these bytes."""

    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def completion(text, **fields):
    """A chat completion with this text."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 120, "completion_tokens": 9}
    body = {"id": "c", "object": "chat.completion", "model": "served-1", "choices": [choice], "usage": usage}
    return json.dumps({**body, **fields}).encode()


def say(success, reason="it is shown"):
    """A proper verdict."""
    return raw(200, completion(json.dumps({"success": success, "reason": reason})))


def hang(handler):
    """No answer until the server stops."""
    handler.server.stopped.wait(30)
    handler.close_connection = True


def half(handler):
    """A completion that breaks off, and the connection with it."""
    content = completion('{"success": true, "reason": "it')
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.close_connection = True


def drop(handler):
    """The connection closes without a word."""
    handler.close_connection = True


def quick(**changes):
    """Settings that do not wait."""
    return JudgeSettings(**{"retries": 2, "retry_wait_s": 0.0, "timeout_s": 20.0, "concurrency": 4, **changes})
