"""A store in object storage, on a real server process: commits by conditional put, crashes, races, broken networks."""

import http.client
import http.server
import threading
import urllib.parse

import pytest

import sera_data as sd
from schemas import TABLES
from sera_data import bucket as client
from sera_data.bucket import Bucket, ObjectFault
from sera_data.bucket import bucket as bucket_of
from sera_data.errors import StoreError, UsageError
from sera_data.objects import Objects
from sera_data.place import ObjectPath, place
from tests.sera_data.crash import Crash
from tests.sera_data.object_server import KEYS, copied, pointed_at
from tests.sera_data.small_store import CONFIG_HASH, RUN, small_store, task_id, unit_rows, write_unit

ROWS = {unit: unit_rows(task_id(i), samples=1, k=2) for i, unit in enumerate(("u0000", "u0001"))}
CHANGES = ("upload", "create", "delete")


def planned(where):
    store = sd.create(where)
    units = [{"unit_id": unit} for unit in ROWS]
    return store, sd.claim_plan(store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=units)


def counts(where):
    store = sd.open(where)
    return {name: len(store.table(name)) for name in TABLES}


def keys(where):
    return [fact.key.removeprefix(f"{where.key}/") for fact in bucket_of(where.bucket).listing(where.key)]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("s3://bucket/a/b", ObjectPath("bucket", "a/b")),
        ("s3:/bucket/a/b/", ObjectPath("bucket", "a/b")),
        ("s3://bucket", ObjectPath("bucket", "")),
    ],
)
def test_a_url_is_a_place(name, wanted):
    assert place(name) == wanted == place(str(wanted))
    assert (wanted / "x.json").stem == "x"
    assert (wanted / "c" / "d").parent == wanted / "c"


@pytest.mark.parametrize("name", ["gs://b/x", "https://b/x", "s3://b/../x", "s3://"])
def test_other_urls_are_refused(name):
    with pytest.raises(UsageError, match="allowed are a directory and s3://BUCKET/PREFIX"):
        place(name)


def test_a_store_has_the_same_life_as_on_disk(objects, tmp_path):
    """Made, sealed, read by four readers, snapshotted, cleaned and verified; equal content to its twin on disk."""
    far, near = (small_store(where / "s", tasks=1, samples=1, k=2) for where in (objects, tmp_path))
    assert sd.content_hash(far, "e000000") == sd.content_hash(near, "e000000")
    assert far.sealed_names() == ["e000000"]
    rows = near.nodes.arrow()
    assert far.nodes.arrow().equals(rows)
    assert far.nodes.pl().equals(near.nodes.pl())
    assert [row["node_id"] for row in far.nodes.hf(["node_id"])] == rows["node_id"].to_pylist()
    query = "select node_id, weighted_score from scored order by all"
    assert far.sql(query).fetchall() == near.sql(query).fetchall()
    sd.take_snapshot(far, "mine", directories=["e000000"])
    assert sd.collect_garbage(far, sealed_hours=0, staging_hours=0).shards == ("e000000.u0000",)
    again = sd.open(str(far.path))
    assert sd.verify(again).problems == ()
    assert again.connect(snapshot="mine").sql("select count(*) from turns").fetchall() == [(len(near.turns),)]
    assert not any(key.startswith(("shards/", "_staging/")) for key in keys(far.path))


@pytest.mark.slow
def test_a_query_of_somebody_else_reads_the_store_and_nothing_beside_it(objects, tmp_path):
    import duckdb

    store = small_store(objects / "s", tasks=1, samples=1, k=2)
    other = small_store(objects / "other", tasks=1, samples=1, k=2)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    connection = store.connect(files="own")
    assert connection.sql("select count(*) from nodes").fetchall() == [(4,)]
    for name in (str(tmp_path / "secret.csv"), str(other.nodes.files[0])):
        with pytest.raises(duckdb.Error):
            connection.sql(f"from '{name}'").fetchall()


class FailingBucket:
    """The process dies at the n-th change of the bucket: before the request, or after it with its answer unread."""

    def __init__(self, monkeypatch, *, at=None, after=False):
        self.calls, self.at, self.after, self.dead = 0, at, after, False
        for name in CHANGES:
            monkeypatch.setattr(Bucket, name, self.wrapped(getattr(Bucket, name)))

    def wrapped(self, call):
        def changed(*args):
            if self.dead:
                raise Crash
            self.calls += 1
            self.dead = self.calls == self.at
            if self.dead and not self.after:
                raise Crash
            done = call(*args)
            if self.dead:
                raise Crash
            return done

        return changed


def struck(action, **how):
    with pytest.MonkeyPatch.context() as patch:
        failing = FailingBucket(patch, **how)
        try:
            action()
        except Crash:
            return failing.calls
    return failing.calls


@pytest.fixture(scope="module")
def template(bucket):
    """Stores to start from: one unit of two committed, and both."""
    root = ObjectPath(bucket, "template")
    store, plan = planned(root / "one")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    copied(root / "one", root / "two")
    commit(root / "two")
    return root


def commit(where):
    store = sd.open(where)
    return write_unit(store, sd.read_plan(store, "e000000"), "u0001", ROWS["u0001"])


def seal(where):
    return sd.seal(sd.open(where), "e000000")


COMMIT_CALLS, SEAL_CALLS = 9, 11
MOMENTS = [(at, after) for at in (1, 5, COMMIT_CALLS - 1, COMMIT_CALLS) for after in (False, True)]


@pytest.mark.slow
def test_the_calls_that_a_crash_can_strike_are_known(template, objects):
    copied(template / "one", objects / "s")
    assert struck(lambda: commit(objects / "s")) == COMMIT_CALLS
    assert struck(lambda: seal(objects / "s")) == SEAL_CALLS


def commit_survives(template, objects, at, after):
    where = copied(template / "one", objects / "s")
    old, new = counts(where), counts(template / "two")
    assert struck(lambda: commit(where), at=at, after=after) == at
    seen = counts(where)
    assert seen == (new if (at, after) == (COMMIT_CALLS, True) else old)
    assert sd.verify(sd.open(where)).problems == ()
    assert commit(where).already_committed == (seen == new)
    assert counts(where) == new
    assert sd.verify(sd.open(where)).problems == (), "what the dead writer left is no fault"
    gone = sd.collect_garbage(sd.open(where), staging_hours=0).staging
    assert len(gone) == (0 if (at, after) in ((1, False), (COMMIT_CALLS, True)) else 1)
    assert counts(where) == new
    assert sd.verify(sd.open(where)).problems == ()


@pytest.mark.parametrize(("at", "after"), [(COMMIT_CALLS, False), (COMMIT_CALLS, True)])
def test_a_crash_at_the_deciding_put_leaves_the_old_state_or_the_new(template, objects, at, after):
    commit_survives(template, objects, at, after)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, COMMIT_CALLS))
def test_a_crash_between_any_two_puts_of_a_commit(template, objects, at, after):
    commit_survives(template, objects, at, after)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, SEAL_CALLS + 1))
def test_a_crash_between_any_two_puts_of_a_seal(template, objects, at, after):
    where = copied(template / "two", objects / "s")
    before = counts(where)
    assert struck(lambda: seal(where), at=at, after=after) == at
    store = sd.open(where)
    assert store.sealed_names() == (["e000000"] if (at, after) == (SEAL_CALLS, True) else [])
    assert counts(where) == before
    assert sd.verify(store).problems == ()
    was_sealed = bool(store.sealed_names())
    assert seal(where).already_sealed == was_sealed
    assert counts(where) == before


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, 10))
def test_a_crash_of_gc_loses_no_row(template, objects, at):
    where = copied(template / "two", objects / "s")
    seal(where)
    before = counts(where)
    struck(lambda: sd.collect_garbage(sd.open(where), staging_hours=0, sealed_hours=0), at=at)
    assert counts(where) == before
    assert sd.verify(sd.open(where)).problems == ()
    sd.collect_garbage(sd.open(where), staging_hours=0, sealed_hours=0)
    assert (counts(where), sd.open(where).shard_ids()) == (before, [])
    sd.collect_garbage(sd.open(where), staging_hours=0, sealed_hours=0)
    assert not any(key.startswith("shards/") for key in keys(where))


def test_two_writers_of_one_unit_make_one_commit(objects, monkeypatch):
    """Both have put all their files before either puts its document."""
    store, plan = planned(objects / "s")
    meeting = threading.Barrier(2)
    arrived = Objects._require_arrived

    def meet(self, where, wanted):
        arrived(self, where, wanted)
        meeting.wait(timeout=60)

    monkeypatch.setattr(Objects, "_require_arrived", meet)
    results = []

    def write():
        own = sd.open(store.path)
        results.append(write_unit(own, sd.read_plan(own, plan.name), "u0000", ROWS["u0000"]))

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.already_committed for result in results) == [False, True]
    named = {file["path"] for file in store.commit_document("e000000.u0000")["files"].values()}
    there = {key.removeprefix("shards/e000000.u0000/") for key in keys(store.path) if key.startswith("shards/")}
    assert there == named | {"commit.json"}, "the beaten writer took its files back"
    assert len({name.split(".")[1] for name in named}) == 1
    assert sd.verify(sd.open(store.path)).problems == ()


def test_a_partial_seal_and_a_late_commit_cannot_both_win(objects):
    store, plan = planned(objects / "s")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    medium = store.medium

    late = sd.ShardWriter(store, plan, "u0001")
    for table, rows in ROWS["u0001"].items():
        late.extend(table, rows)
    assert medium.close([store.layout.shards / "e000000.u0001"]) == []  # the seal stands just before its last put
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        late.commit()
    assert store.shard_ids() == ["e000000.u0000"]
    assert sd.seal(store, plan.name, partial=True).missing == ("u0001",)
    assert sd.verify(sd.open(store.path)).problems == ()
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        write_unit(store, plan, "u0001", ROWS["u0001"])


@pytest.mark.slow
def test_a_commit_while_a_partial_seal_uploads_stops_the_seal(objects, monkeypatch):
    store, plan = planned(objects / "s")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    closing = Objects.close

    def close(self, directories):
        write_unit(sd.open(store.path), plan, "u0001", ROWS["u0001"])
        return closing(self, directories)

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "close", close)
        with pytest.raises(StoreError, match=r"e000000\.u0001 was committed meanwhile \(hint: seal again"):
            sd.seal(store, plan.name, partial=True)
    assert sd.seal(store, plan.name).missing == ()
    assert len(store.sql("select distinct task_id from nodes where epoch = 0").fetchall()) == 2


def test_a_writer_that_slept_until_gc_is_too_late(objects):
    """Its unit was left out of the seal and gc removed what closed it: the commit is withdrawn."""
    store, plan = planned(objects / "s")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    sd.seal(store, plan.name, partial=True)
    assert "e000000.u0001.closed" in sd.collect_garbage(store, staging_hours=0).staging
    late = sd.open(store.path)
    writer = object.__new__(sd.ShardWriter)  # as if it had been made before the seal
    writer.__dict__.update(store=late, plan=plan, unit_id="u0001", shard_id="e000000.u0001")
    writer.target = late.layout.shards / "e000000.u0001"
    assert late.medium.publish_directory(staged(late), writer.target)
    with pytest.raises(StoreError, match="sealed without unit u0001"):
        writer._require_in_time()
    assert late.shard_ids() == ["e000000.u0000"]


def staged(store):
    staging = store.medium.stage("test")
    (staging.path / staging.file_name("nodes.parquet")).write_bytes(b"rows")
    (staging.path / "commit.json").write_bytes(b"{}")
    return staging


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


def test_large_files_go_in_parts(objects, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "PART_BYTES", 5 * 2**20)
    data = bytes(range(256)) * (11 * 2**12)
    (tmp_path / "large").write_bytes(data)
    where = objects / "large"
    bucket_of(where.bucket).upload(where.key, tmp_path / "large")
    assert where.stat().st_size == len(data)
    with where.open("rb") as handle:
        assert handle.read() == data
        handle.seek(7 * 2**20 + 3)
        assert handle.read(2) == data[7 * 2**20 + 3 :][:2]


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
    import os

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


@pytest.mark.slow
def test_nothing_in_the_bucket_knows_the_keys(objects):
    store = small_store(objects / "s", tasks=1, samples=1, k=2)
    held = bucket_of(store.path.bucket)
    for fact in held.listing(store.path.key):
        data = held.get(fact.key)
        assert not any(value.encode() in data for name, value in KEYS.items() if "KEY" in name)
        assert b"127.0.0.1" not in data


def test_no_store_and_no_bucket_say_so(objects):
    with pytest.raises(StoreError, match=rf"store {objects}/none does not exist"):
        sd.open(objects / "none")
    (objects / "dir" / "x").write_bytes(b"")
    with pytest.raises(StoreError, match="is not a store"):
        sd.open(objects / "dir")
    with pytest.raises(StoreError, match="s3://sera-tests-none/"):
        sd.create("s3://sera-tests-none/s")
