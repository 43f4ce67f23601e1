"""The files of an export: JSON lines and Parquet with explicit schemas, published all at once.

Invariant: an export is written under another name beside its target and renamed when it is whole, so a target that
exists is complete; nothing is ever overwritten.

Run: ``with new_target(Path("out.jsonl")) as path: write_jsonl(path, rows)``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sera_data.disk import disk_faults
from sera_data.errors import UsageError
from sera_data.progress import counted

Row = dict[str, Any]
BATCH = 1_024
MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_IDS = [
    ("node_id", pa.string()),
    ("tree_id", pa.string()),
    ("task_id", pa.string()),
    ("run_id", pa.string()),
    ("epoch", pa.int32()),
    ("depth", pa.int8()),
]
TOKENS = pa.schema([("input_ids", pa.list_(pa.int32())), ("labels", pa.list_(pa.int32())), *_IDS])
CHATS = pa.schema(
    [
        ("messages", MESSAGES),
        *_IDS,
        ("goal", pa.string()),
        ("outcome", pa.string()),
        ("success", pa.float64()),
        ("tree_success", pa.float64()),
        ("ok", pa.list_(pa.bool_())),
    ]
)
TASKS = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", MESSAGES),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        (
            "extra_info",
            pa.struct(
                [
                    ("split", pa.string()),
                    ("index", pa.int64()),
                    ("task_id", pa.string()),
                    ("difficulty", pa.string()),
                    ("profile", pa.string()),
                    ("upstream_id", pa.string()),
                ]
            ),
        ),
    ]
)


def require_new(target: Path) -> None:
    """UsageError for a target that exists."""
    if target.exists():
        msg = f"{target} exists; an export never overwrites"
        raise UsageError(msg, hint="name another path, or remove it")


@contextlib.contextmanager
def new_target(target: Path) -> Iterator[Path]:
    """A path to write a file or directory to, which becomes `target` when the block ends without an error."""
    require_new(target)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    with disk_faults(f"{target} was not written", retry="run the same command again"):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            part.rename(target)
        finally:
            if part.is_dir():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)


def write_jsonl(path: Path, rows: Iterable[Row]) -> int:
    """One JSON object a line; returns how many."""
    n = 0
    with path.open("w", encoding="utf-8") as handle:
        for row in counted(rows, path.name):
            handle.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            n += 1
    return n


def write_parquet(path: Path, rows: Iterable[Row], schema: pa.Schema) -> int:
    """Rows in batches under an explicit schema; returns how many."""
    n, left = 0, counted(rows, path.name)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while part := list(islice(left, BATCH)):
            writer.write_table(pa.Table.from_pylist(part, schema=schema))
            n += len(part)
    return n
