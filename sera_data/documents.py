"""The JSON documents of a store: plans, commits, seals and snapshots.

Invariant: a document is published whole and never rewritten, so a reader that finds one can trust it; a damaged one
is named together with what to do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sera_data.errors import StoreError


def dump_document(body: dict[str, Any]) -> bytes:
    """Readable JSON with sorted keys and a final newline."""
    return (json.dumps(body, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def read_document(path: Path, *, kind: str, hint: str) -> dict[str, Any]:
    """Read a document; StoreError names the file when it is missing or damaged."""
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        msg = f"{kind} not found: {path}"
        raise StoreError(msg, hint=hint) from None
    except (OSError, ValueError) as error:
        msg = f"{kind} {path} cannot be read: {' '.join(str(error).split())}"
        raise StoreError(msg, hint="restore the file from a copy; the store never rewrites it") from None
    if not isinstance(body, dict):
        msg = f"{kind} {path} must be a JSON object, got {type(body).__name__}"
        raise StoreError(msg, hint="restore the file from a copy; the store never rewrites it")
    return body
