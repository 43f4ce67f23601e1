"""A broken network before a store in object storage: lost answers, a throttled server, one that never recovers."""

import http.client
import http.server
import os
import threading
import urllib.parse

import pytest

import sera_data as sd
from sera_data import bucket as client
from sera_data.bucket import ObjectFault
from sera_data.errors import StoreError
from tests.sera_data.object_lab import ROWS, counts, planned
from tests.sera_data.object_server import KEYS, pointed_at
from tests.sera_data.small_store import write_unit


def test_a_put_whose_answer_is_lost_counts(objects, monkeypatch):
    """The server took the document, the connection broke, the second try finds the name taken by our own bytes."""
    import obstore
    from obstore.exceptions import GenericError

    store, plan = planned(objects / "s")
    put, lost = obstore.put, []

    def broken(target, key, data, **how):
        done = put(target, key, data, **how)
        if how.get("mode") == "create" and not lost:
            lost.append(key)
            msg = "connection reset by peer"
            raise GenericError(msg)
        return done

    monkeypatch.setattr(obstore, "put", broken)
    result = write_unit(store, plan, "u0000", ROWS["u0000"])
    assert (result.already_committed, lost) == (False, [f"{store.path.key}/shards/e000000.u0000/commit.json"])
    assert counts(store.path)["nodes"] == 4


class Throttled(http.server.BaseHTTPRequestHandler):
    """Answers 503 to each request `times` times, then passes it on; with no server behind it, always 503."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behind, times, seen, lock = None, 2, {}, threading.Lock()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            count = self.seen[self.command, self.path] = self.seen.get((self.command, self.path), 0) + 1
        if self.behind is None or count <= self.times:
            status, headers, data = 503, {}, b"<Error><Code>SlowDown</Code><Key>test-secret</Key></Error>"
        else:
            link = http.client.HTTPConnection(self.behind)
            link.request(self.command, self.path, body=body, headers=dict(self.headers))
            reply = link.getresponse()
            status, headers, data = reply.status, dict(reply.getheaders()), reply.read()
            link.close()
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Content-Length", "0") if self.command == "HEAD" else len(data))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def throttled(bucket):
    """A server that is in a bad way, between us and the real one."""
    handler = type("Handler", (Throttled,), {"seen": {}})
    handler.behind = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with pointed_at(f"http://127.0.0.1:{server.server_port}", KEYS):
        yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_throttled_server_only_takes_longer(throttled, objects):
    throttled.times = 1
    store, plan = planned(objects / "s")
    assert not write_unit(store, plan, "u0000", ROWS["u0000"]).already_committed
    assert len(throttled.seen) > 10
    assert max(throttled.seen.values()) > 1
    assert counts(store.path)["nodes"] == 4


def test_a_server_that_never_recovers_is_a_fault_without_secrets(throttled, objects, monkeypatch):
    throttled.times = 0
    store, plan = planned(objects / "s")
    writer = sd.ShardWriter(store, plan, "u0001")
    writer.extend("runs", ROWS["u0001"]["runs"])
    monkeypatch.setattr(sd.Plan, "has_committed", lambda *_: False)  # the server fails after the first look
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.5)
    throttled.behind = None
    client.bucket.cache_clear()
    with pytest.raises(StoreError, match=r"shard e000000\.u0001 was not committed: .*nothing was lost") as caught:
        writer.commit()
    with pytest.raises(ObjectFault, match=rf"{store.path}/store\.json.*hint: nothing was lost") as reading:
        sd.open(store.path)
    assert not any(secret in f"{caught.value}{reading.value}" for secret in ("test-secret", "test-key"))
