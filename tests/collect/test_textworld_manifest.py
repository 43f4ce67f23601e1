"""Manifests in the published form: written, read back, refused with the check that failed."""

import json
from functools import cache
from hashlib import sha256

import pytest

from collect.textworld_foods import open_foods
from collect.textworld_manifest import (
    SOURCES,
    manifest_of,
    manifest_text,
    parse_manifest,
    read_manifest,
    write_manifest,
)
from collect.textworld_records import build_records, records_sha256
from sera_data.errors import UsageError


@cache
def dev_records():
    return tuple(build_records("dev", open_foods("installed")))


@cache
def small_text():
    records = list(build_records("dev", open_foods(None), per_cell=1))
    return manifest_text(manifest_of(records, open_foods(None)))


def test_the_published_validation_manifest():
    body = manifest_of(dev_records(), open_foods("installed"))
    text = manifest_text(body)
    assert len(text) == 2_462_985
    assert body["dataset"] == "TextWorldExpress-MultiDish-V9-Validation"
    assert body["source_files"] == {"textworld_dev.jsonl": SOURCES["dev"]}
    assert body["source_sha256"] == SOURCES["dev"]
    assert body["source_db_sha256"] == open_foods("installed").sha256
    assert (body["task_count"], body["split"], set(body["difficulty_counts"].values())) == (200, "validation", {50})
    assert (body["task_family_counts"]["multi_dish_fork_join"], body["task_family_counts"]["conflict"]) == (32, 28)
    first = body["tasks"][0]
    assert first["fold"] == "validation"
    assert first["game_params"].startswith('{"includeDoors":0,"limitInventorySize":0,"numDishes":2,')
    assert parse_manifest(json.loads(text)).records == dev_records()


def test_a_test_manifest_names_a_file_per_difficulty():
    records = list(build_records("test", open_foods("installed"), per_cell=1))
    body = manifest_of(records, open_foods("installed"))
    assert list(body["source_files"]) == [f"test_{name}.jsonl" for name in ("easy", "medium", "hard", "extreme")]
    assert "source_db_sha256" not in body
    parts = [[r for r in records if r["difficulty"] == name] for name in ("easy", "medium", "hard", "extreme")]
    assert list(body["source_files"].values()) == [records_sha256(part) for part in parts]


def test_a_manifest_of_our_foods_says_so(tmp_path):
    foods = open_foods(None)
    records = list(build_records("train", foods, limit=5))
    write_manifest(tmp_path / "deep" / "train.json", records, foods)
    manifest = read_manifest(tmp_path / "deep" / "train.json")
    assert manifest.dataset == "SERA-Data-MultiDish-V1-Train"
    assert (manifest.split, list(manifest.records)) == ("train", records)
    assert manifest.source_sha256 == records_sha256(records)
    body = json.loads((tmp_path / "deep" / "train.json").read_text())
    assert body["source_db_sha256"] == foods.sha256
    assert body["generation_config_sha256"] != manifest_of(dev_records(), open_foods("installed"))


def entry(**changes):
    def change(body):
        body["tasks"][3] |= changes

    return change


def top(**changes):
    def change(body):
        body |= changes

    return change


def repeat(body):
    body["tasks"][1] = body["tasks"][0]


def shorten(body):
    del body["tasks"][0]


def strip_properties(body):
    del body["tasks"][0]["generation_properties"]["dishes"]


@pytest.mark.parametrize(
    "change, reason",
    [
        (top(dataset="TextWorldExpress-MultiDish-V8-Test"), "dataset .* is not supported; allowed: .*V9-Train"),
        (top(dataset="SERA-Data-MultiDish-V1-Test"), "split 'validation' is not the one"),
        (top(split="test"), "split 'test' is not the one"),
        (top(split=None), "split None is not the one"),
        (top(tasks={}), "a list 'tasks'"),
        (top(task_count=27), "task_count is 27, the manifest holds 28 tasks"),
        (top(difficulty_counts={"easy": 28}), "difficulty_counts is {'easy': 28}, the tasks say"),
        (top(source_sha256=None), "source_sha256 must be a text"),
        (shorten, "the manifest holds 27 tasks"),
        (repeat, "occurs more than once"),
        (entry(game="cookingworld"), "game 'cookingworld'"),
        (entry(difficulty="brutal"), "difficulty 'brutal'"),
        (entry(fold="test"), "fold is 'test', the split of the manifest 'validation'"),
        (entry(game_params={"numDishes": 2}), "game_params must be a text of JSON"),
        (entry(game_params="{"), "game_params must be a text of JSON"),
        (entry(colour="red"), "task 4 must be an object with exactly the fields"),
        (strip_properties, "generation_properties must have exactly the fields"),
    ],
)
def test_a_failed_check_names_the_file(tmp_path, change, reason):
    body = json.loads(small_text())
    change(body)
    path = tmp_path / "m.json"
    path.write_text(json.dumps(body))
    with pytest.raises(UsageError, match=reason) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"manifest {path}")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_manifest(tmp_path, data):
    path = tmp_path / "m.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=str(path)):
        read_manifest(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_manifest(tmp_path / "none.json")


def test_same_options_same_bytes():
    assert sha256(small_text().encode()).hexdigest() == sha256(small_text.__wrapped__().encode()).hexdigest()
