"""The model directory that an engine's argument names, and the servers that serve it.

Invariant: every engine reads `DIR`, `pocket`, `pocket:WORLD`, and after an `@` the URLs of servers, in the same way.

Run: ``split_argument("models/qwen@http://a:8000,http://b:8000")``.
"""

from __future__ import annotations

from pathlib import Path

from sera_data.errors import UsageError

SHIPPED = {"textcraft": Path(__file__).parent / "pocket", "textworld": Path(__file__).parent / "pocket_textworld"}
"""Policies that come with the package, by world."""


def pocket_directory(world: str) -> Path:
    """Where the shipped policy of a world lies; '' is TextCraft. UsageError for a world without one."""
    directory = SHIPPED.get(world or "textcraft")
    if directory is None:
        msg = f"no pocket policy for {world!r}; allowed: {', '.join(SHIPPED)}"
        raise UsageError(msg, hint="write pocket or pocket:textworld, or transformers:DIR for a directory")
    return directory


def split_argument(argument: str) -> tuple[Path, tuple[str, ...]]:
    """Directory and server URLs of an engine's argument; without an `@http` there are no URLs."""
    name, at, rest = argument.partition("@http")
    urls = tuple(url.strip().rstrip("/") for url in f"http{rest}".split(",") if url.strip()) if at else ()
    kind, _, world = name.partition(":")
    if kind == "pocket" and (world or "textcraft") in SHIPPED:
        return SHIPPED[world or "textcraft"], urls
    return Path(name), urls
