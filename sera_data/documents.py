"""The JSON documents of a store: plans, commits, seals and snapshots.

Invariant: a document is published whole and never rewritten, so a reader that finds one can trust it; a damaged one
is named together with what to do. `SHAPES` holds the keys that every kind must have, so that a reader may use them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sera_data.errors import StoreError
from sera_data.place import Place

DAMAGED = "restore the file from a copy; the store never rewrites it"
FILE: dict[str, Any] = {"path": str, "rows": int, "bytes": int, "sha256": str}

SHAPES: Mapping[str, Any] = {
    "store file": {"store_id": str},
    "plan": {"run_id": str, "phase": str, "policy_hash": (str, type(None)), "config_hash": str}
    | {"units": [{"unit_id": str}]},
    "commit": {"files": {"*": FILE}},
    "seal": {"shards": [str], "missing": [str], "partial": bool, "content_hash": str}
    | {"tables": {"*": {"rows": int, "files": [FILE]}}},
    "snapshot": {"directories": {"*": str}, "hashes": {}},
}
"""Keys and types by kind of document. `[x]` is a list of x, `{"*": x}` a mapping from any text to x."""


def dump_document(body: dict[str, Any]) -> bytes:
    """Readable JSON with sorted keys and a final newline."""
    return (json.dumps(body, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def read_document(path: Place, *, kind: str, hint: str) -> dict[str, Any]:
    """Read a document; StoreError names the file when it is missing or damaged."""
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        msg = f"{kind} not found: {path}"
        raise StoreError(msg, hint=hint) from None
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{kind} {path} cannot be read: {' '.join(str(error).split())}"
        raise StoreError(msg, hint=DAMAGED) from None
    if not isinstance(body, dict):
        msg = f"{kind} {path} must be a JSON object, got {type(body).__name__}"
        raise StoreError(msg, hint=DAMAGED)
    return body


def require_shape(body: dict[str, Any], path: Place, *, kind: str) -> dict[str, Any]:
    """The document, if it has the keys of its kind; call it after the version check. StoreError names the key."""
    for key, wanted, value in _faults(body, SHAPES[kind], ""):
        msg = f"{kind} {path} is damaged: {key} must be {wanted}, got {str(value)[:60]!r}"
        raise StoreError(msg, hint=DAMAGED)
    return body


def _faults(value: Any, shape: Any, where: str) -> Iterator[tuple[str, str, Any]]:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            yield where, "an object", value
            return
        keys = dict.fromkeys(value, shape["*"]) if "*" in shape else shape
        for key, inner in keys.items():
            if key in value:
                yield from _faults(value[key], inner, f"{where}.{key}".lstrip("."))
            else:
                yield f"{where}.{key}".lstrip("."), "there", "nothing"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield where, "a list", value
            return
        for index, entry in enumerate(value):
            yield from _faults(entry, shape[0], f"{where}[{index}]")
    elif not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        kinds = shape if isinstance(shape, tuple) else (shape,)
        yield where, " or ".join("null" if k is type(None) else k.__name__ for k in kinds), value
