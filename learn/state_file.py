"""What a run writes to say where it stands: small files replaced whole, directories written aside.

Invariant: a reader finds the old content or the new one. What a killed process left aside is overwritten by the next
write; a write that fails leaves nothing aside, so that a full disk is not kept full. A file that cannot be read is
named with the way out.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sera_data.disk import disk_faults, sync_directory
from sera_data.errors import SeraError

LITTLE = 4 << 20
"""Bytes left when an error of a library is blamed on the disk."""


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in place of what `path` holds, on the disk before the name changes; StoreError when it cannot."""
    aside = path.with_name(f".{path.name}")
    with disk_faults(f"{path} was not written", retry="run the same command again"):
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


@contextlib.contextmanager
def write_faults(target: Path, *, aside: Path) -> Iterator[None]:
    """Turn what the disk raises, or a library that writes to it, into SeraError, and remove what was written aside."""
    try:
        yield
    except SeraError:
        raise
    except Exception as error:  # torch and safetensors have errors of their own for a full disk
        shutil.rmtree(aside, ignore_errors=True)
        number = error.errno if isinstance(error, OSError) else None
        full = number in (errno.ENOSPC, errno.EDQUOT) or not _has_room(target.parent)
        reason = "the disk is full" if full else " ".join(str(error).split())[:200]
        msg = f"{target} was not written: {reason}"
        raise SeraError(msg, hint="nothing was lost: free space or fix the cause, then run the same command") from error


def _has_room(directory: Path) -> bool:
    """False when the file system says that it holds no more than a little; True where it cannot say."""
    try:
        return shutil.disk_usage(directory).free > LITTLE
    except OSError:
        return True


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
