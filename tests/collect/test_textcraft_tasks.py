"""Published splits, goal sets and sequence; tasks of our own by content; imports with located errors."""

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collect.planner import exact_need, plan
from collect.recipes import recipe_book
from collect.task_file import import_published, read_tasks, write_tasks
from collect.tasks_cli import app
from collect.textcraft import TextCraft
from collect.textcraft_tasks import (
    LETTERS,
    PoolParams,
    PublishedParams,
    build_pool,
    build_published,
    build_tasks,
    difficulty_sequence,
    goal_set_hash,
    goals,
    split_items,
    world_seeds,
)
from sera_data.errors import UsageError

PUBLISHED = Path(__file__).parents[1] / "data" / "textcraft_synth" / "val.jsonl"
GOALS = "4dcd4a6f152efbf6105346201861b28b25d5b73f457c65970ebd7af1f3bf0d9e"
SEQUENCE = "21ed50659c9c0180ab7621acde3168394a83d2296aa2b403328ba463ccbf37d3"
BOOK = recipe_book(42, 25)


def test_split_and_goal_counts():
    splits = split_items(BOOK)
    assert [sum(map(len, splits[name].values())) for name in ("train", "val")] == [1121, 281]
    assert {band: len(pairs) for band, pairs in goals(BOOK, "train").items()} == {
        "easy": 588,
        "medium": 852,
        "hard": 544,
        "extreme": 538,
    }
    val = goals(BOOK, "val")
    assert {band: len(pairs) for band, pairs in val.items()} == {
        "easy": 147,
        "medium": 213,
        "hard": 136,
        "extreme": 136,
    }
    assert goal_set_hash([pair for pairs in val.values() for pair in pairs]) == GOALS


def test_difficulty_sequence():
    letters = "".join(LETTERS[band] for band in difficulty_sequence(BOOK, "val"))
    assert letters.startswith("emmmxehxmeexexmheexeememexxxexhhmmxxeheh")
    assert sha256(letters.encode()).hexdigest() == SEQUENCE


def test_published_file_has_our_goals_and_sequence():
    tasks = import_published(PUBLISHED)
    assert [task.difficulty for task in tasks] == difficulty_sequence(BOOK, "val")
    assert goal_set_hash([pair for task in tasks for pair in task.spec["targets"].items()]) == GOALS
    assert [task.upstream_id for task in tasks] == [f"textcraft_synth.val.{i}" for i in range(632)]
    assert len({task.task_id for task in tasks}) == 632


def test_our_published_split_is_solvable_and_resets():
    tasks = build_published(PublishedParams())
    world = TextCraft()
    assert len({task.task_id for task in tasks}) == 632
    for task in tasks:
        assert plan(BOOK, task.spec["inventory"], task.spec["targets"]).solvable
        state = world.reset(task)
        assert set(state.items) <= BOOK.bases
        assert world.goal(world.root_targets(task)) == task.goal


def test_surplus_of_one_is_exactly_enough():
    for task in build_published(PublishedParams(surplus=1, distractors=0))[:60]:
        assert task.spec["inventory"] == dict(sorted(exact_need(BOOK, task.spec["targets"]).items()))


def test_pool_tasks_do_not_depend_on_order_or_number():
    many = build_pool(PoolParams(worlds="5-9", n=120))
    assert build_pool(PoolParams(worlds="5-9", n=40)) == many[:40]
    assert len({task.task_id for task in many}) == 120
    by_goal = {(t.spec["world_seed"], *t.spec["targets"].items()): t for t in many}
    other = build_pool(PoolParams(worlds="9,8,7,6,5", n=120, seed=0))
    shared = [t for t in other if (t.spec["world_seed"], *t.spec["targets"].items()) in by_goal]
    assert shared
    for task in shared:
        assert task == by_goal[(task.spec["world_seed"], *task.spec["targets"].items())]


def test_pool_follows_its_parameters():
    tasks = build_pool(PoolParams(worlds="5-9", n=200, surplus=1.5, distractors=1, counts=(2,), tier_mix={2: 1.0}))
    for task in tasks:
        assert (task.profile, task.difficulty, list(task.spec["targets"].values())) == ("strict", "tier2", [2])
        book = recipe_book(task.spec["world_seed"], 8, 3)
        need = exact_need(book, task.spec["targets"])
        stock = task.spec["inventory"]
        assert len(set(stock) - set(need)) <= 1
        assert all(n <= stock[item] <= n * 1.5 for item, n in need.items())


def test_tasks_do_not_depend_on_the_hash_seed(tmp_path):
    program = (
        "from collect.textcraft_tasks import *; import hashlib;"
        "ts = build_pool(PoolParams(worlds='5-9', n=50)) + build_published(PublishedParams(items_per_tier=8));"
        "print(hashlib.sha256(repr(ts).encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    "params, reason",
    [
        ({"worlds": "5-3"}, "worlds must be like"),
        ({"worlds": "a"}, "worlds must be like"),
        ({"worlds": "1-99999999"}, "worlds must be like"),
        ({"worlds": "1-99999999999999999999"}, "worlds must be like"),
        ({"worlds": str(2**63)}, "worlds must be like"),
        ({"worlds": "1,1"}, "names a seed twice"),
        ({"worlds": "1", "n": 99999}, "goals"),
        ({"worlds": "1", "tier_mix": {7: 1.0}}, "names no tier"),
        ({"worlds": "1", "counts": []}, "counts must be"),
        ({"worlds": "1", "counts": [1001]}, "from 1 to 1000"),
        ({"worlds": "1", "surplus": 0.9}, "'surplus'"),
        ({"worlds": "1", "surplus": 1e300}, "'surplus'"),
        ({"surplus": 1e300}, "'surplus'"),
        ({"split": "dev"}, "allowed: train, val"),
        ({"seeds": 1}, "'seeds'"),
    ],
)
def test_wrong_parameters_are_refused(params, reason):
    with pytest.raises(UsageError, match=reason):
        build_tasks(params)


def test_world_seeds():
    assert world_seeds("3-5, 9") == [3, 4, 5, 9]


def test_a_task_file_is_read_back(tmp_path):
    tasks = build_pool(PoolParams(worlds="5-9", n=20))
    write_tasks(tmp_path / "deep" / "tasks.jsonl", tasks)
    assert read_tasks(tmp_path / "deep" / "tasks.jsonl") == tasks


def changed(line, **changes):
    return json.dumps({**json.loads(line), **changes})


@pytest.mark.parametrize(
    "second, reason",
    [
        (lambda line: "{oops", "not a JSON object"),
        (lambda line: "[1]", "a task is a JSON object, got list"),
        (lambda line: changed(line, colour="red"), "unknown field 'colour'"),
        (lambda line: changed(line, goal=""), "field 'goal' must be a non-empty text"),
        (lambda line: changed(line, spec=None), "field 'spec' must be an object"),
        (lambda line: changed(line, seed="x"), "field 'seed' must be int or null"),
        (lambda line: changed(line, profile="rao-42"), "is not the hash of the content"),
        (lambda line: line, "occurs already in line 1"),
        (lambda line: "\udcff", "not a JSON object"),
    ],
)
def test_malformed_task_lines_are_located(tmp_path, second, reason):
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, build_pool(PoolParams(worlds="5", n=1)))
    line = path.read_text().strip()
    path.write_bytes(f"{line}\n{second(line)}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=reason) as caught:
        read_tasks(path)
    assert str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize(
    "misc, reason",
    [
        ({"target_items": {"t7_i3": 0}}, "count of t7_i3 must be an integer"),
        ({"target_items": {"T7_I3": 1}}, "target T7_I3 is not a craftable item"),
        ({"initial_inventory": {"raw_t0": 1}}, "cannot be solved"),
        ({"difficulty": "simple"}, "difficulty must be one of"),
    ],
)
def test_malformed_published_lines_are_located(tmp_path, misc, reason):
    record = json.loads(PUBLISHED.read_text().splitlines()[0])
    path = tmp_path / "published.jsonl"
    path.write_text("\n" + json.dumps({**record, "misc": {**record["misc"], **misc}}))
    with pytest.raises(UsageError, match=reason) as caught:
        import_published(path)
    assert str(caught.value).startswith(f"{path}:2: ")


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(UsageError, match="task file not found"):
        read_tasks(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UsageError, match="holds no task"):
        read_tasks(tmp_path / "empty.jsonl")


def run(*args):
    return CliRunner().invoke(app, list(args), catch_exceptions=False)


def test_build_command_prints_the_published_hashes(tmp_path):
    out = tmp_path / "val.jsonl"
    result = run("build", "textcraft", "--world-seed", "42", "--items-per-tier", "25", "--out", str(out), "--json")
    facts = json.loads(result.stdout)
    assert facts["world_hash"] == "00bd78a2a39a89f8f0f3e9b5d2912204d7129f8fac91cdb57b63d2883552894f"
    assert (facts["goal_set_hash"], facts["n_tasks"]) == (GOALS, 632)
    assert len(read_tasks(out)) == 632
    small = run("build", "textcraft", "--items-per-tier", "8")
    assert "0499ae4c70cfb9e09881eb77c13b596d7deea3bfda536c4319fbff01ff134269" in small.stdout


def test_pool_and_import_commands(tmp_path):
    args = ("--worlds", "1000-1003", "--max-tier", "3", "--n", "30", "--counts", "1,2", "--tier-mix", "1=.5,3=.5")
    facts = json.loads(run("build", "textcraft", *args, "--json").stdout)
    assert (facts["n_tasks"], facts["profile"], set(facts["difficulties"])) == (30, "strict", {"tier1", "tier3"})
    out = tmp_path / "val.jsonl"
    facts = json.loads(run("import", "textcraft", str(PUBLISHED), "--out", str(out), "--json").stdout)
    assert (facts["goal_set_hash"], facts["n_tasks"]) == (GOALS, 632)
    assert len(read_tasks(out)) == 632


@pytest.mark.parametrize(
    "args, reason",
    [
        (("--n", "5"), "--n is for pools only"),
        (("--worlds", "1", "--world-seed", "1"), "exclude each other"),
        (("--worlds", "1", "--counts", "x"), "--counts wants"),
        (("--worlds", "1", "--tier-mix", "1"), "--tier-mix wants"),
    ],
)
def test_wrong_options_are_usage_errors(args, reason):
    with pytest.raises(UsageError, match=reason):
        run("build", "textcraft", *args)
