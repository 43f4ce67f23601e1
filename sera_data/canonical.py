"""Canonical text, hashes and derived seeds.

Invariant: equal content gives equal text and equal hash on every machine and in every process; no use of Python's
`hash`. Seeds are derived from names, never drawn, so that a resumed job repeats itself.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sera_data.place import Place


def canonical_json(value: Any) -> str:
    """Compact JSON with sorted keys; refuses NaN and infinities with ValueError."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_text(text: str) -> str:
    """Hex sha256 of UTF-8 text."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_json(value: Any) -> str:
    """Hex sha256 of the canonical JSON of a value."""
    return sha256_text(canonical_json(value))


def sha256_file(path: Place) -> str:
    """Hex sha256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def derive_seed(*parts: str | int) -> int:
    """A seed in [0, 2**63) from names: hash(run, version, task, sample, node path, turn, role, k, attempt)."""
    digest = hashlib.sha256(canonical_json(list(parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
