"""The text of a token, from the tokenizer whose hash the store records.

Invariant: a tokenizer is used only when its files have the recorded hash, or when it was named; tokens are never made
from text, only text from tokens. Needs the package `tokenizers`, without torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from analysis.explorer_tokens import Decode
from sera_data.canonical import sha256_json
from sera_data.errors import UsageError

FILES = ("tokenizer.json", "tokenizer_config.json")
"""What `runs.policies.tokenizer_sha256` is the hash of: {name: sha256} of those that are there."""


def find_decoder(wanted: Sequence[str], given: Path | None = None) -> Decode | None:
    """Text by token id, from the directory `given`, else from a shipped policy of a wanted hash; None without one."""
    if given is not None:
        directory = given.parent if given.name == FILES[0] else given
        if not (directory / FILES[0]).is_file():
            msg = f"--tokenizer wants a directory that holds {FILES[0]}, got {given}"
            raise UsageError(msg)
        if find_spec("tokenizers") is None:
            msg = "--tokenizer needs the package 'tokenizers', which is not installed"
            raise UsageError(msg, hint="pip install tokenizers")
        return _decoder(directory)
    if find_spec("tokenizers") is None:
        return None
    hashes = {tokenizer_hash(directory): directory for directory in _shipped()}
    return next((_decoder(hashes[sha]) for sha in wanted if sha in hashes), None)


def tokenizer_hash(directory: Path) -> str:
    """The hash that a run records for the tokenizer of a policy directory."""
    return sha256_json(
        {n: hashlib.sha256((directory / n).read_bytes()).hexdigest() for n in FILES if (directory / n).is_file()}
    )


def _shipped() -> Iterator[Path]:
    """Policies that the installed packages ship, found without importing any."""
    spec = find_spec("collect")
    for place in spec.submodule_search_locations or [] if spec else []:
        yield from (file.parent for file in sorted(Path(place).glob("*/tokenizer.json")))


def _decoder(directory: Path) -> Decode:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / FILES[0]))

    @cache
    def decode(token: int) -> str:
        return tokenizer.decode([token], skip_special_tokens=False) or f"⟨{token}⟩"

    return decode
