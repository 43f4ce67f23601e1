"""Fixtures: one sealed two-epoch store that tests only read, and a fresh place for those that write.

What uses `medium`, `new_place`, `place` or `sealed` runs twice: on disk and against an S3 server process (slow). Tests
that take `tmp_path` are about files: permissions, links, renames, odd file names, or about no store at all.
"""

import itertools
import uuid

import pytest

from tests.sera_data.object_server import let_tests_harm, serving
from tests.sera_data.small_store import small_store

COUNTER = itertools.count()
SESSION = uuid.uuid4().hex[:12]  # the bucket may be one that other sessions write to as well


@pytest.fixture(scope="session")
def bucket():
    """An empty bucket of a server that runs as long as the session."""
    let_tests_harm()
    with serving() as name:
        yield name


@pytest.fixture(scope="session", params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def medium(request):
    """What stores lie on."""
    return request.param


@pytest.fixture(scope="session")
def new_place(medium, request, tmp_path_factory):
    """Makes a place for stores that nobody else uses."""

    def made(name):
        if medium == "disk":
            return tmp_path_factory.mktemp(name)
        return objects_below(request.getfixturevalue("bucket"), name)

    return made


def objects_below(bucket, name):
    from sera_data.place import ObjectPath

    return ObjectPath(bucket, f"{SESSION}/{name}-{next(COUNTER)}")


@pytest.fixture
def place(new_place):
    """A fresh place."""
    return new_place("place")


@pytest.fixture
def objects(bucket):
    """A fresh place in object storage."""
    return objects_below(bucket, "objects")


@pytest.fixture(scope="session")
def sealed(new_place):
    return small_store(new_place("sealed") / "store", epochs=2)
