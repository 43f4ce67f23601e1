"""The published splits byte for byte, golden cells, the recipe sampler, and our own tasks."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect.textworld_bands import BANDS, FAMILIES, SPLITS, Choices, Range, cells
from collect.textworld_foods import FOLDS, open_foods
from collect.textworld_manifest import SOURCES, source_files, source_sha256
from collect.textworld_recipes import AS_IT_IS, NoRecipe, sample_recipe, work
from collect.textworld_records import build_record, build_records, draw_task, record_line, records_sha256
from sera_data.errors import UsageError

TEST_PARTS = {  # of the published test manifest
    "test_easy.jsonl": "0ca8942f195294981e0f920059e3cdd7b026d09a8564015277a0ede3119d5f02",
    "test_medium.jsonl": "fbc5e7c77841ebaeaf1791d698833bef02bbfe36cb01e485a9a194f5b61292ea",
    "test_hard.jsonl": "388d4d0e4e988f4d8c16ac2adbafdedb5897e3b8c1b1e8e32ba72ee9699fc155",
    "test_extreme.jsonl": "1a2481b04c1e0f5eb388333c11a8251d575241665e8e74287c320f2aec348e68",
}


@cache
def split_records(split, source="installed"):
    """Records of a whole split; 'installed' is the food database in the wheel of textworld-express (dev extra)."""
    return list(build_records(split, open_foods(source)))


def by_seed(split, seed):
    (found,) = (record for record in split_records(split) if record["seed"] == seed)
    return found


def works(record):
    return [dish["estimated_branch_work"] for dish in record["dishes"]]


def test_the_train_file_is_the_published_one():
    text = "".join(map(record_line, split_records("train")))
    assert len(text) == 11_168_232
    assert sha256(text.encode()).hexdigest() == SOURCES["train"] == source_sha256("train", split_records("train"))
    assert SOURCES["train"] == "73c76930246fe51601319313fd89b4e965b28d3cf99541735ac8a47cbeb1147a"


def test_the_dev_file_is_the_published_one():
    assert records_sha256(split_records("dev")) == SOURCES["dev"] == source_sha256("dev", split_records("dev"))


def test_the_test_file_is_the_published_one():
    records = split_records("test")
    parts = {name: sha256(body).hexdigest() for name, body in source_files("test", records).items()}
    assert parts == TEST_PARTS
    assert source_sha256("test", records) == SOURCES["test"]
    assert sum(len(record_line(record)) for record in records) == 10_164_936


@pytest.mark.parametrize(
    "split, difficulties, families",
    [
        ("train", {"medium": 900, "extreme": 450, "hard": 150}, [216, 216, 215, 214, 213, 213, 213]),
        ("dev", {"easy": 50, "medium": 50, "hard": 50, "extreme": 50}, [32, 28, 28, 28, 28, 28, 28]),
        ("test", {"easy": 350, "medium": 350, "hard": 350, "extreme": 350}, [200] * 7),
    ],
)
def test_counts(split, difficulties, families):
    records = split_records(split)
    found = Counter(record["difficulty"] for record in records)
    assert list(found.items()) == list(difficulties.items())
    assert Counter(record["task_family"] for record in records) == dict(zip(FAMILIES, families, strict=True))
    ids = [record["task_id"] for record in records]
    assert len(set(ids)) == len(ids)


def test_seeds_do_not_collide_between_splits_or_cells():
    seeds = [
        cell.seed + offset
        for split, plan in SPLITS.items()
        for cell in cells(split, per_cell=plan.family_stride, difficulties=tuple(plan.totals))
        for offset in range(cell.size)
    ]
    assert len(set(seeds)) == len(seeds)


def test_eighteen_tasks_need_a_second_attempt():
    foods = open_foods("installed")
    attempts = Counter(
        draw_task(cell.seed + offset, BANDS[cell.difficulty], cell.family, foods.folds[plan.food_fold]).attempt
        for split, plan in SPLITS.items()
        for cell in cells(split)
        for offset in range(cell.size)
    )
    assert sum(attempts.values()) == 3_100
    assert sum(count for attempt, count in attempts.items() if attempt > 0) == 18
    assert max(attempts) <= 2


def test_an_easy_record():
    record = by_seed("test", 820_000)
    assert record["task_id"] == "cookingworld_multidish_test_multi_dish_fork_join_easy_0000"
    first, second = record["dishes"]
    assert [(item["name"], *item["preparation"]) for item in first["recipe"]] == [
        ("salt", "raw", "uncut"),
        ("black pepper", "raw", "uncut"),
        ("white onion", "grilled", "diced"),
    ]
    assert second["ingredient_names"] == ["olive oil", "flour", "yellow bell pepper"]
    assert works(record) == [5, 5]
    assert record["game_params"] == {
        "numLocations": 5,
        "numDishes": 2,
        "numIngredientsPerDish": 3,
        "numIngredientsTotal": 6,
        "numDistractorItems": 3,
        "includeDoors": 0,
        "limitInventorySize": 0,
    }
    parallelism = record["parallelism"]
    assert parallelism["shared_environment_max_steps"] == 116
    assert parallelism["mechanisms"] == {"tool_cooldown_steps": 0}
    assert (parallelism["estimated_sequential_actions"], parallelism["critical_path_estimate"]) == (14, 9)
    assert (parallelism["ideal_parallel_speedup"], parallelism["dependencies"]) == (1.1111, [])


def test_a_gated_record():
    record = by_seed("test", 821_400)
    assert (record["task_family"], record["difficulty"]) == ("dependency_gate", "medium")
    assert works(record) == [10, 8, 10, 8]
    assert record["dishes"][0]["ingredient_names"] == ["purple potato", "olive oil", "carrot", "red hot pepper"]
    params, parallelism = record["game_params"], record["parallelism"]
    assert (params["numLocations"], params["numDistractorItems"], params["includeDoors"]) == (7, 11, 1)
    assert parallelism["dependencies"] == [
        {"from": "gate_1", "to": f"dish_{number}", "type": "door"} for number in (2, 3, 4)
    ]
    assert (parallelism["shared_environment_max_steps"], parallelism["estimated_sequential_actions"]) == (96, 45)


def test_a_constrained_record_shows_the_coarse_view():
    record = by_seed("test", 823_300)
    assert (record["task_family"], record["difficulty"]) == ("resource_constrained", "extreme")
    assert works(record) == [9, 9, 9, 9, 8]
    assert record["dishes"][3]["ingredient_names"] == ["red hot pepper", "block of cheese", "chicken leg", "water"]
    parallelism = record["parallelism"]
    assert parallelism["resource_capacity"] == {"inventory": 1}
    assert (parallelism["shared_environment_max_steps"], parallelism["estimated_sequential_actions"]) == (78, 55)
    assert parallelism["ideal_parallel_speedup"] == 2.3158
    assert record["task_view"] == "coarse"
    assert record["task_description"] == record["task_descriptions"]["coarse"]
    assert "grilled" not in record["task_description"]
    assert "cookbook" in record["task_description"]


@pytest.mark.parametrize(
    "split, seed, family, steps, cooldown, work_of_dishes",
    [
        ("test", 822_100, "critical_path", 82, 1, [7, 9, 8, 10]),
        ("test", 823_200, "load_balanced", 72, 1, [8, 9, 7, 8, 9]),
        ("test", 821_500, "conflict", 96, 1, [7, 7]),
        ("test", 822_600, "hierarchical", 85, 1, [10, 9, 8, 8, 10]),
        ("train", 850_000, "multi_dish_fork_join", 96, 1, [8, 8]),
    ],
)
def test_other_cells(split, seed, family, steps, cooldown, work_of_dishes):
    record = by_seed(split, seed)
    found = record["parallelism"]
    assert (record["task_family"], works(record)) == (family, work_of_dishes)
    assert (found["shared_environment_max_steps"], found["mechanisms"]["tool_cooldown_steps"]) == (steps, cooldown)


def test_every_drawn_value_lies_in_its_band():
    for record in [*split_records("train"), *split_records("dev"), *split_records("test")]:
        band, made = BANDS[record["difficulty"]], record["generation"]
        drawn = made["v7_sampled_parameters"] | made["v7_sampled_runtime"]
        for name, spec in {**band.parameters, **band.runtime}.items():
            if isinstance(spec, Range):
                assert spec.low <= drawn[name] <= spec.high
            else:
                assert isinstance(spec, Choices)
                assert drawn[name] in spec.values


@pytest.mark.parametrize("source", ["installed", None])
def test_dishes_keep_to_the_parameters(source):
    foods = open_foods(source)
    for record in split_records("dev", source):
        drawn, names = record["generation"]["v7_sampled_parameters"], []
        for dish in record["dishes"]:
            names += dish["ingredient_names"]
            prepared = sum(item["requires_preparation"] for item in dish["recipe"])
            least, most = (drawn[f"{word}_prepared_ingredients_per_dish"] for word in ("min", "max"))
            assert least <= prepared <= most
            assert len(dish["recipe"]) == drawn["ingredients_per_dish"]
            for item in dish["recipe"]:
                assert tuple(item["preparation"]) in foods.folds["valid"][item["name"]]
                assert item["branch_work"] == work(tuple(item["preparation"]))
        assert len(names) == len(set(names))


def test_content_depends_on_neither_number_nor_choice_of_tasks():
    foods = open_foods(None)
    whole = split_records("dev", None)
    assert list(build_records("dev", foods, limit=17)) == whole[:17]
    some = list(build_records("dev", foods, difficulties=("hard",), families=("conflict",), per_cell=3))
    of_cell = [r for r in whole if (r["difficulty"], r["task_family"]) == ("hard", "conflict")]
    assert some == of_cell[:3]


def test_the_easy_tasks_of_train_are_extra():
    records = list(build_records("train", open_foods(None), difficulties=("easy",), per_cell=2))
    assert len(records) == 14
    assert {record["difficulty"] for record in records} == {"easy"}
    assert all(record["task_id"].startswith("sera_multidish_train_") for record in records)
    with pytest.raises(UsageError, match="no easy tasks"):
        list(build_records("train", open_foods(None), difficulties=("easy",)))


@pytest.mark.parametrize("per_cell", [0, 101])
def test_a_cell_has_so_many_seeds(per_cell):
    with pytest.raises(UsageError, match="from 1 to 100"):
        cells("test", per_cell=per_cell)


def test_records_do_not_depend_on_the_hash_seed():
    program = (
        "from collect.textworld_records import *; from collect.textworld_foods import own_foods;"
        "print(records_sha256(list(build_records('dev', own_foods()))))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {records_sha256(split_records("dev", None))}


def test_the_streams_are_private():
    random.seed(7)
    before = random.getstate()
    build_record("dev", "medium", "conflict", 0, seed=1, foods=open_foods(None))
    assert random.getstate() == before


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    fold=st.sampled_from(FOLDS),
    size=st.integers(1, 5),
    least=st.integers(0, 5),
    most=st.integers(0, 5),
    complexity=st.sampled_from(["low", "medium", "high"]),
)
def test_a_recipe_keeps_its_bounds_or_is_none(seed, fold, size, least, most, complexity):
    options = open_foods(None).folds[fold]
    used = {"tofu", "sea salt"}
    least = min(least, size)
    try:
        recipe = sample_recipe(
            random.Random(seed), options, used, size=size, least=least, most=most, complexity=complexity
        )
    except NoRecipe:
        assert used == {"tofu", "sea salt"}
        assert most < least or most == 0
        return
    names = [item.name for item in recipe]
    assert len(set(names)) == size
    assert used == {"tofu", "sea salt", *names}
    assert least <= sum(item.prepared for item in recipe) <= most
    assert all(item.preparation in options[item.name] for item in recipe)


def test_too_few_foods_end_with_the_reason():
    with pytest.raises(NoRecipe, match="3 foods wanted, 1 left"):
        sample_recipe(random.Random(0), {"a": [AS_IT_IS]}, set(), size=3, least=0, most=3, complexity="low")
    with pytest.raises(NoRecipe, match="1 foods to prepare wanted, 0 left"):
        sample_recipe(random.Random(0), {"a": [AS_IT_IS]}, set(), size=1, least=1, most=1, complexity="low")
    with pytest.raises(UsageError, match="128 attempts"):
        draw_task(1, BANDS["easy"], "conflict", {"a": [AS_IT_IS]})


def test_lines_are_one_object_with_sorted_keys():
    line = record_line(split_records("dev", None)[0])
    body = json.loads(line)
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    assert json.dumps(body, ensure_ascii=False, sort_keys=True) + "\n" == line
