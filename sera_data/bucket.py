"""One bucket of an object store that speaks S3: the calls that the store needs, and no other.

Invariant: an object is there whole or not at all, and nothing is overwritten: documents are put on the condition that
their name is free, everything else has a name of its own. Throttled and broken requests are tried again; what still
fails is an ObjectFault that names the object. Endpoint, region and keys are read from the environment, never kept in a
file and never printed.

Run: ``bucket("name").create("prefix/plan.json", b"{}")`` with AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and the like set.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sera_data.errors import StoreError, UsageError

RETRY_SECONDS = 120.0
"""How long one request is tried again before it is a fault."""
CREATE_TRIES = 8
PART_BYTES = 16 * 2**20
MAX_PARTS = 9_000
"""S3 takes 10,000 parts a file; larger files get larger parts."""
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")

_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d")
"""An answer that will be the same next time."""
T = TypeVar("T")


class ObjectFault(StoreError, OSError):
    """The object store did not do what was asked: throttled for too long, unreachable, refused."""

    def __init__(self, reason: str, name: str) -> None:
        hint = "nothing was lost: see that AWS_ENDPOINT_URL, AWS_REGION and the keys are right, then run it again"
        super().__init__(f"{name}: {reason}", hint=hint)
        self.strerror, self.filename = reason, name

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror} (hint: {self.hint})"


@dataclass(frozen=True, slots=True)
class Fact:
    """One object as a listing shows it. size in bytes; modified in seconds since 1970, by the server's clock."""

    key: str
    size: int
    modified: float


class Bucket:
    """A bucket by its name."""

    def __init__(self, name: str) -> None:
        from obstore.store import S3Store

        self.name = name
        self._store = S3Store(name, **connection_options())

    def create(self, key: str, data: bytes) -> bool:
        """Put an object if its name is free; False when another one has the name.

        A request whose answer got lost may have succeeded, so a name that is taken by these very bytes is ours.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError

        for again in range(CREATE_TRIES):
            try:
                self._call(key, lambda: obstore.put(self._store, key, data, mode="create"))
                return True
            except AlreadyExistsError:
                found = self.get(key)
                if found is not None:
                    return found == data
                time.sleep(0.05 * 2**again)  # two creations met: the server refused both
        reason = f"the name was neither free nor taken in {CREATE_TRIES} tries"
        raise ObjectFault(reason, self.url(key))

    def upload(self, key: str, path: Path) -> None:
        """Put a file under a name that nobody else uses, in parts when it is large."""
        import obstore

        size = path.stat().st_size
        part = max(PART_BYTES, -(-size // MAX_PARTS))
        self._call(key, lambda: obstore.put(self._store, key, path, use_multipart=size > part, chunk_size=part))

    def get(self, key: str) -> bytes | None:
        """The bytes of an object; None where there is none."""
        import obstore

        return self._found(key, lambda: bytes(obstore.get(self._store, key).bytes()))

    def head(self, key: str) -> Fact | None:
        """Size and time of an object; None where there is none."""
        import obstore

        return self._found(key, lambda: _fact(obstore.head(self._store, key)))

    def listing(self, prefix: str) -> list[Fact]:
        """Every object below a prefix, sorted by key."""
        import obstore

        def listed() -> list[Fact]:
            return [_fact(meta) for chunk in obstore.list(self._store, prefix or None) for meta in chunk]

        return sorted(self._call(prefix, listed), key=lambda fact: fact.key)

    def children(self, prefix: str) -> list[str]:
        """Keys of the objects and prefixes one step below a prefix, sorted."""
        import obstore

        found = self._call(prefix, lambda: obstore.list_with_delimiter(self._store, prefix or None))
        return sorted([*(str(meta["path"]) for meta in found["objects"]), *map(str, found["common_prefixes"])])

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, in the order given; those that are gone already are fine."""
        import obstore

        for key in keys:
            try:
                self._call(key, lambda key=key: obstore.delete(self._store, key))  # type: ignore[misc]
            except FileNotFoundError:
                continue

    def url(self, key: str) -> str:
        """`s3://bucket/key`."""
        return f"s3://{self.name}/{key}".rstrip("/")

    def _found(self, key: str, call: Callable[[], T]) -> T | None:

        try:
            return self._call(key, call)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                reason = "there is no such bucket"
                raise ObjectFault(reason, self.url(key)) from None
            return None

    def _call(self, key: str, call: Callable[[], T]) -> T:
        """Do it; transient faults are tried again by the client, and creations (which it does not repeat) here."""
        from obstore.exceptions import AlreadyExistsError, BaseError, GenericError

        end = time.monotonic() + RETRY_SECONDS
        wait = 0.05
        while True:
            try:
                return call()
            except (AlreadyExistsError, FileNotFoundError):
                raise
            except BaseError as error:
                final = not isinstance(error, GenericError) or _REFUSED.search(str(error))
                if final or time.monotonic() + wait > end:
                    raise ObjectFault(_reason(error), self.url(key)) from None
            time.sleep(wait)
            wait = min(2 * wait, 5.0)


@cache
def bucket(name: str) -> Bucket:
    """The bucket of that name; one client per process."""
    require_client()
    return Bucket(name)


def require_client() -> None:
    """UsageError where the extra is not installed."""
    from importlib.util import find_spec

    if find_spec("obstore") is None or find_spec("fsspec") is None:
        msg = "a store under s3:// needs the packages obstore and fsspec"
        raise UsageError(msg, hint="pip install 'sera-data[s3]'")


def connection_options() -> dict[str, Any]:
    """What a client is opened with, beside the keys, which it takes from the environment itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    config: dict[str, Any] = {"region": region}
    if endpoint:
        config["endpoint"] = endpoint
    plain = bool(endpoint and endpoint.startswith("http://"))
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2}
    return {
        "config": config,
        "client_options": {"allow_http": plain, "timeout": "300s", "connect_timeout": "10s"},
        "retry_config": {
            "max_retries": 10,
            "backoff": backoff,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        },
    }


def polars_options() -> dict[str, Any]:
    """The same for Polars, which opens a client of its own."""
    config = dict(connection_options()["config"])
    if "endpoint" in config:
        config["endpoint_url"] = config.pop("endpoint")
        config["allow_http"] = str(config["endpoint_url"].startswith("http://")).lower()
    return {f"aws_{name}": value for name, value in config.items()}


def _fact(meta: Any) -> Fact:
    return Fact(str(meta["path"]), int(meta["size"]), meta["last_modified"].timestamp())


def _reason(error: Exception) -> str:
    """The first words of what the server said, without the keys that some servers repeat."""
    text = " ".join(str(error).split())
    for name in SECRETS:
        if value := os.environ.get(name):
            text = text.replace(value, f"<{name}>")
    return text[:300] or type(error).__name__
