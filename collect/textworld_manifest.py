"""Manifests of TextWorld-Sync task sets in the published form: one JSON object with counts, digests and every task.

Invariant: a manifest says of what records it was made (`source_sha256`), and its records can be had back from it. With
the published food table the manifest of a whole split is the published file, byte for byte. A manifest that fails a
check of its loader is refused with its path; nothing of it is used.

Run: ``sera tasks build textworld --split test --out test.jsonl --manifest test.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from collect.textworld_bands import BANDS, SPLITS, Split
from collect.textworld_foods import FoodTable
from collect.textworld_records import GAME, record_line
from sera_data.canonical import sha256_json
from sera_data.errors import UsageError
from sera_data.output import write_output

PUBLISHED_NAME = "TextWorldExpress-MultiDish-V9"
OWN_NAME = "SERA-Data-MultiDish-V1"
SOURCES: Mapping[Split, str] = {  # source_sha256 of the published splits
    "train": "73c76930246fe51601319313fd89b4e965b28d3cf99541735ac8a47cbeb1147a",
    "dev": "b7ce860612c1eb848f1680bc08b6eda61433cafb029e9b9e3ac9a15b7c754d30",
    "test": "ae45047b12d6b0d54f5e0798081d177e6ff1d6b062751764ea4d0e7e56daa72c",
}
# What the published train and validation manifests say of the file that configured their generator.
PUBLISHED_CONFIG_SHA256 = "64587e0982493fcebcb64300482035727f929a61714aad6f9260ec11840e3b7b"
PROPERTIES = ("base_game", "task_family", "task_view", "task_descriptions", "dishes", "parallelism", "generation")
FIELDS = ("task_id", "game", "fold", "difficulty", "seed", "game_params", "task_description", "generation_properties")
HINT = "'sera tasks build textworld --manifest FILE' writes one"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checked manifest: its dataset name, split, digest of the records it was made of, and the records."""

    dataset: str
    split: Split
    source_sha256: str
    records: tuple[dict[str, Any], ...]


def source_files(split: Split, records: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Files that a manifest names as its source: one for train and dev, one per difficulty for test."""
    if split != "test":
        return {f"textworld_{split}.jsonl": "".join(map(record_line, records)).encode()}
    found = {}
    for difficulty in BANDS:
        lines = "".join(record_line(record) for record in records if record["difficulty"] == difficulty)
        if lines:
            found[f"test_{difficulty}.jsonl"] = lines.encode()
    return found


def source_sha256(split: Split, records: Sequence[Mapping[str, Any]]) -> str:
    """Digest of the records as manifests and result files carry it.

    sha256 of the one file for train and dev; for test of every file's name, a zero byte and its bytes, easiest first.
    """
    return _source_digest(split, source_files(split, records))


def _source_digest(split: Split, sources: Mapping[str, bytes]) -> str:
    if split != "test":
        return sha256(next(iter(sources.values()))).hexdigest()
    return sha256(b"".join(name.encode() + b"\0" + body for name, body in sources.items())).hexdigest()


def manifest_of(records: Sequence[Mapping[str, Any]], foods: FoodTable) -> dict[str, Any]:
    """The manifest of records of one split."""
    split: Split = records[0]["split"]
    title, sources = SPLITS[split].title, source_files(split, records)
    body: dict[str, Any] = {
        "schema_version": 1,
        "dataset": f"{PUBLISHED_NAME if foods.published else OWN_NAME}-{title.capitalize()}",
        "split": title,
        "game_selection": GAME,
        "task_count": len(records),
        "difficulty_counts": dict(Counter(record["difficulty"] for record in records)),
        "task_family_counts": dict(Counter(record["task_family"] for record in records)),
        "source_files": {name: sha256(data).hexdigest() for name, data in sources.items()},
        "source_sha256": _source_digest(split, sources),
        "tasks": [_entry(record, title) for record in records],
    }
    if split != "test" or not foods.published:  # the published test manifest leaves them out
        body["source_db_sha256"] = foods.sha256
        body["generation_config_sha256"] = PUBLISHED_CONFIG_SHA256 if foods.published else _config_sha256()
    return body


def write_manifest(path: Path, records: Sequence[Mapping[str, Any]], foods: FoodTable) -> None:
    """The manifest as indented JSON with sorted keys, written aside and renamed."""
    write_output(path, manifest_text(manifest_of(records, foods)))


def manifest_text(body: Mapping[str, Any]) -> str:
    """The published text form."""
    return json.dumps(body, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def read_manifest(path: Path) -> Manifest:
    """A manifest whose checks hold; UsageError with the path and the check that failed otherwise."""
    try:
        return parse_manifest(json.loads(path.read_bytes()))
    except OSError as error:
        msg = f"manifest {path} cannot be read: {error.strerror or error}"
        raise UsageError(msg, hint=HINT) from None
    except (ValueError, RecursionError) as error:
        msg = f"manifest {path}: {error}"
        raise UsageError(msg, hint=HINT) from None


def parse_manifest(body: Any) -> Manifest:
    """The same for parsed JSON; raises ValueError with the check that failed."""
    if not isinstance(body, dict) or not isinstance(body.get("tasks"), list):
        msg = "a manifest is a JSON object with a list 'tasks'"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a manifest is a ValueError
    split, dataset, entries = _split_of(body), body["dataset"], body["tasks"]
    if body.get("task_count") != len(entries):
        msg = f"task_count is {body.get('task_count')!r}, the manifest holds {len(entries)} tasks"
        raise ValueError(msg)
    records = tuple(_record(number, entry, split) for number, entry in enumerate(entries, start=1))
    repeated = [name for name, count in Counter(record["task_id"] for record in records).items() if count > 1]
    if repeated:
        msg = f"task {repeated[0]} occurs more than once"
        raise ValueError(msg)
    for counted, field in (("difficulty_counts", "difficulty"), ("task_family_counts", "task_family")):
        found = dict(Counter(record[field] for record in records))
        if body.get(counted) != found:
            msg = f"{counted} is {body.get(counted)!r}, the tasks say {found}"
            raise ValueError(msg)
    digest = body.get("source_sha256")
    if not isinstance(digest, str):
        msg = f"source_sha256 must be a text, got {digest!r}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a manifest is a ValueError
    return Manifest(dataset, split, digest, records)


def _split_of(body: Mapping[str, Any]) -> Split:
    """The split, from a dataset name that is supported and whose last word says the same."""
    titles: dict[str, Split] = {plan.title: split for split, plan in SPLITS.items()}
    dataset, title = body.get("dataset"), body.get("split")
    allowed = [f"{name}-{word.capitalize()}" for name in (PUBLISHED_NAME, OWN_NAME) for word in titles]
    if dataset not in allowed:
        msg = f"dataset {dataset!r} is not supported; allowed: {', '.join(allowed)}"
        raise ValueError(msg)
    if not isinstance(title, str) or not dataset.endswith("-" + title.capitalize()):
        msg = f"split {title!r} is not the one that the dataset name {dataset!r} ends with"
        raise ValueError(msg)
    return titles[title]


def _entry(record: Mapping[str, Any], title: str) -> dict[str, Any]:
    return {
        "task_id": record["task_id"],
        "game": record["game"],
        "fold": title,
        "difficulty": record["difficulty"],
        "seed": record["seed"],
        "game_params": json.dumps(record["game_params"], sort_keys=True, separators=(",", ":")),
        "task_description": record["task_description"],
        "generation_properties": {name: record[name] for name in PROPERTIES},
    }


def _record(number: int, entry: Any, split: Split) -> dict[str, Any]:
    """The record that an entry was made of."""
    where = f"task {number}"
    if not isinstance(entry, dict) or sorted(entry) != sorted(FIELDS):
        msg = f"{where} must be an object with exactly the fields {', '.join(FIELDS)}"
        raise ValueError(msg)
    where, properties, title = f"task {entry['task_id']!r}", entry["generation_properties"], SPLITS[split].title
    if entry["game"] != GAME or entry["difficulty"] not in BANDS:
        msg = f"{where}: game {entry['game']!r}, difficulty {entry['difficulty']!r}; known: {GAME}, {', '.join(BANDS)}"
        raise ValueError(msg)
    if entry["fold"] != title:
        msg = f"{where}: fold is {entry['fold']!r}, the split of the manifest {title!r}"
        raise ValueError(msg)
    if not isinstance(properties, dict) or sorted(properties) != sorted(PROPERTIES):
        msg = f"{where}: generation_properties must have exactly the fields {', '.join(PROPERTIES)}"
        raise ValueError(msg)
    try:
        parameters = json.loads(entry["game_params"])
    except (TypeError, ValueError):
        msg = f"{where}: game_params must be a text of JSON, got {entry['game_params']!r}"
        raise ValueError(msg) from None
    return {
        "schema_version": 1,
        "task_id": entry["task_id"],
        "game": entry["game"],
        "split": split,
        "source_fold": split,
        "difficulty": entry["difficulty"],
        "seed": entry["seed"],
        "game_params": parameters,
        "task_description": entry["task_description"],
        **properties,
    }


def _config_sha256() -> str:
    """Digest of our bands and seeds, for manifests of tasks with our foods."""
    bands = {
        name: {key: spec.published() for key, spec in {**band.parameters, **band.runtime}.items()}
        for name, band in BANDS.items()
    }
    return sha256_json({"bands": bands, "splits": {name: asdict(plan) for name, plan in SPLITS.items()}})
