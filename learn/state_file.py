"""A small file that says where a run stands, replaced whole.

Invariant: a reader finds the old content or the new one. What a killed process left beside the file is overwritten by
the next write; a write that fails leaves nothing beside it. A file that cannot be read is named with the way out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sera_data.disk import sync_directory
from sera_data.errors import SeraError


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in place of what `path` holds, on the disk before the name changes; OSError when it cannot."""
    aside = path.with_name(f".{path.name}")
    try:
        with aside.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read_object(path: Path, *, hint: str) -> dict[str, Any]:
    """The JSON object in a file; SeraError with `hint` when it cannot be read."""
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path} cannot be read: {' '.join(str(error).split())}"
        raise SeraError(msg, hint=hint) from None
    if not isinstance(body, dict):
        msg = f"{path} must hold a JSON object, got {type(body).__name__}"
        raise SeraError(msg, hint=hint)
    return body
