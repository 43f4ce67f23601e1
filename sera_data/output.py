"""Files that a command writes where its user said: pages, rows, task files.

Invariant: such a file is there as a whole or as it was before; a disk that is full leaves neither a half nor a
leftover, and the error names the file. What is no regular file (a pipe, /dev/stdout) is written as it is.

Run: ``write_output(Path("rows.csv"), text)``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from sera_data.disk import disk_faults


def write_output(path: Path, content: str | bytes) -> None:
    """Put `content` (text as UTF-8, line ends as they are) in place of what `path` holds; makes its directory.

    Raises StoreError naming the path when it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    with output_file(path) as aside:
        aside.write_bytes(data)


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, renamed to it at the end of the block; removed when the block fails."""
    with disk_faults(f"{path} was not written", retry="run the same command again"):
        target = path.resolve()  # a link keeps pointing where it did
        if target.exists() and not target.is_file():
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            yield aside
            aside.replace(target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
