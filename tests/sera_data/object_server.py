"""An S3 server for tests: a real process on loopback, one per test session.

`serving()` starts it, points this process and its children at it by the usual environment variables, makes a bucket
and ends it. By default the server is moto's; SERA_TEST_S3_ENDPOINT (with keys and SERA_TEST_S3_BUCKET) names another
one, which is then neither started nor ended: tests/sera_data/radosgw.sh does that for Ceph's. Its bucket is made when
it is missing, and keys begin with a word of this session's own, because what earlier ones wrote may still lie there.
"""

import contextlib
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

BUCKET = "sera-tests"
KEYS = {"AWS_ACCESS_KEY_ID": "test-key", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_REGION": "us-east-1"}
SERVER = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def log_request(self, *args):
        pass

server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True,
                     request_handler=Quiet)
print(server.port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def serving():
    """The name of a bucket."""
    given = os.environ.get("SERA_TEST_S3_ENDPOINT")
    if given:
        name = os.environ.get("SERA_TEST_S3_BUCKET", BUCKET)
        with pointed_at(given, {}):
            make_signed_bucket(given, name)
            yield name
        return
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
        with pointed_at(endpoint, KEYS):
            make_bucket(endpoint, BUCKET)
            yield BUCKET
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def pointed_at(endpoint, keys):
    from sera_data import bucket, published_files

    changed = {**keys, "AWS_ENDPOINT_URL": endpoint}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    bucket.bucket.cache_clear()
    published_files.filesystem.cache_clear()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        bucket.bucket.cache_clear()
        published_files.filesystem.cache_clear()


def make_bucket(endpoint, name):
    """moto asks for no signature."""
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()


def make_signed_bucket(endpoint, name):
    """To make one's own bucket again is no fault."""
    import boto3

    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=name)


def copied(source, target):
    """A copy of a store, on disk or in object storage; returns where."""
    import shutil

    from sera_data.bucket import bucket
    from sera_data.place import in_objects

    if not in_objects(source):
        return Path(shutil.copytree(source, target))
    store = bucket(source.bucket)
    for fact in store.listing(source.key):
        assert store.create(target.key + fact.key.removeprefix(source.key), store.get(fact.key))
    return target


def let_tests_harm():
    """Give object paths what a Path has to change and remove files; the package itself never overwrites."""
    import obstore

    from sera_data.bucket import bucket
    from sera_data.place import ObjectPath

    def write_bytes(path, data):
        obstore.put(bucket(path.bucket)._store, path.key, data)

    ObjectPath.write_bytes = write_bytes
    ObjectPath.write_text = lambda path, text, encoding="utf-8": write_bytes(path, text.encode(encoding))
    ObjectPath.unlink = lambda path: bucket(path.bucket).delete([path.key])


def on_disk(reason):
    """For a test of files: it runs on disk alone, for the reason given."""
    assert reason
    return pytest.mark.parametrize("medium", ["disk"], indirect=True)


def file_at(root, name):
    """`epochs/e000000/turns.parquet` of a store; in object storage the file's name carries its writer's mark."""
    path = root
    for part in name.split("/"):
        path = path / part
    if isinstance(root, Path) or not name.endswith(".parquet"):
        return path
    wanted = path.name.removesuffix(".parquet")
    (found,) = [
        each for each in path.parent.iterdir() if each.name.split(".")[0] == wanted and each.suffix == ".parquet"
    ]
    return found
