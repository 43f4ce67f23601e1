"""Records of TextWorld-Sync tasks in the published form: parameters and recipes drawn, description and figures derived.

Invariant: a record depends only on (split, difficulty, family, offset) and the food table. With the published table the
lines of a whole split are the published file, byte for byte.
Two Mersenne streams per task: parameters are drawn from seed + attempt x 1,000,003, recipes from the seed alone.

Run: ``sera tasks build textworld --split test --out test.jsonl``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, cast

import yaml

from collect.textworld_bands import BANDS, SPLITS, Band, Difficulty, Draw, Family, Range, Split, cells
from collect.textworld_foods import FoodTable
from collect.textworld_recipes import Complexity, Ingredient, NoRecipe, sample_recipe
from sera_data.canonical import sha256_text
from sera_data.errors import UsageError

GAME, BASE_GAME = "cookingworld_multidish", "cookingworld"
OWN_PREFIX = "sera_multidish"  # ids of tasks with our foods cannot be taken for published ones
ATTEMPTS = 128
ATTEMPT_STRIDE = 1_000_003
GATE = "gate_1"
PATTERNS: Mapping[Family, str] = {"multi_dish_fork_join": "fork_join"}  # the others are called like their family
BOTTLENECKS: Mapping[Family, tuple[str, ...]] = {
    "resource_constrained": ("knife", "stove", "kitchen"),
    "conflict": ("knife", "stove"),
}
USUAL_BOTTLENECKS = ("kitchen", "meal_preparation", "meal_eating")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the streams gave for one task: parameters, dishes and the attempt that succeeded."""

    parameters: Mapping[str, Any]
    runtime: Mapping[str, int]
    dishes: Sequence[Sequence[Ingredient]]
    attempt: int


def build_records(
    split: Split,
    foods: FoodTable,
    *,
    per_cell: int | None = None,
    difficulties: tuple[Difficulty, ...] | None = None,
    families: tuple[Family, ...] | None = None,
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Records in the published order, all of them or the first `limit`; see `cells` for the choice of cells."""
    plan = cells(split, per_cell=per_cell, difficulties=difficulties, families=families)
    everything = (
        build_record(split, cell.difficulty, cell.family, offset, seed=cell.seed + offset, foods=foods)
        for cell in plan
        for offset in range(cell.size)
    )
    return islice(everything, limit)


def record_line(record: Mapping[str, Any]) -> str:
    """One line of the published JSONL form."""
    return json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n"


def records_sha256(records: Sequence[Mapping[str, Any]]) -> str:
    """sha256 of the file of these records."""
    return sha256_text("".join(map(record_line, records)))


def build_record(
    split: Split, difficulty: Difficulty, family: Family, offset: int, *, seed: int, foods: FoodTable
) -> dict[str, Any]:
    """One record; UsageError when no attempt finds recipes in the food table."""
    band, fold = BANDS[difficulty], SPLITS[split].food_fold
    drawn = draw_task(seed, band, family, foods.folds[fold])
    parameters, runtime = drawn.parameters, drawn.runtime
    dishes = [_dish(number, recipe, foods) for number, recipe in enumerate(drawn.dishes, start=1)]
    doors = int(parameters["include_doors"] or family == "dependency_gate")
    parallelism = _parallelism(family, dishes, doors=doors, parameters=parameters, runtime=runtime)
    texts = describe(family, dishes, inventory=parameters["inventory_capacity"])
    prefix = GAME if foods.published else OWN_PREFIX
    return {
        "schema_version": 1,
        "task_id": f"{prefix}_{split}_{family}_{difficulty}_{offset:04d}",
        "game": GAME,
        "base_game": BASE_GAME,
        "task_family": family,
        "split": split,
        "source_fold": split,
        "difficulty": difficulty,
        "seed": seed,
        "task_view": band.view,
        "task_description": texts[band.view],
        "task_descriptions": texts,
        "game_params": _game_parameters(parameters, doors),
        "dishes": dishes,
        "parallelism": parallelism,
        "generation": _generation(family, seed, fold, band, drawn),
    }


def draw_task(seed: int, band: Band, family: Family, options: Mapping[str, Any]) -> Drawn:
    """Draw until parameters fit together and the foods suffice; at most 128 attempts, then UsageError."""
    for attempt in range(ATTEMPTS):
        stream = random.Random(seed + attempt * ATTEMPT_STRIDE)
        parameters = {name: _draw(stream, spec) for name, spec in band.parameters.items()}
        runtime = {name: _draw(stream, spec) for name, spec in band.runtime.items()}
        if parameters["max_prepared_ingredients_per_dish"] < parameters["min_prepared_ingredients_per_dish"]:
            continue
        try:
            dishes = _draw_dishes(random.Random(seed), family, parameters, options)
        except NoRecipe:
            continue
        return Drawn(parameters, runtime, dishes, attempt)
    msg = f"no recipes for seed {seed} ({family}) in {ATTEMPTS} attempts: the food table has too few foods"
    raise UsageError(msg, hint="leave --food-db out, or name the database of textworld-express 1.1.0")


def describe(family: Family, dishes: Sequence[Mapping[str, Any]], *, inventory: int) -> dict[str, str]:
    """Task text in both views: structured names every preparation, coarse only the ingredients."""
    words = _wording()
    full, short = words["structured"], words["coarse"]
    structured, coarse = [full["head"].format(dishes=len(dishes))], [short["head"].format(dishes=len(dishes))]
    for dish in dishes:
        structured.append(full["dish"].format(dish=dish["dish_id"]))
        for item in dish["recipe"]:
            cooking, cutting = item["preparation"]
            structured.append(full["ingredient"].format(name=item["name"], cooking=cooking, cutting=cutting))
        coarse.append(short["dish"].format(dish=dish["dish_id"], names=", ".join(dish["ingredient_names"])))
    structured.append(full["end"])
    more = [sentence.format(inventory=inventory) for sentence in words["families"][family]]
    return {"structured": "\n".join(structured + more), "coarse": "\n".join(coarse + more)}


@cache
def _wording() -> Mapping[str, Any]:
    words: Mapping[str, Any] = yaml.safe_load(files("collect").joinpath("textworld_wording.yaml").read_text("utf-8"))
    return words


def _draw(stream: random.Random, spec: Draw) -> Any:
    return stream.randint(*spec) if isinstance(spec, Range) else stream.choice(spec.values)


def _draw_dishes(
    stream: random.Random, family: Family, parameters: Mapping[str, Any], options: Mapping[str, Any]
) -> list[list[Ingredient]]:
    used: set[str] = set()
    return [
        sample_recipe(
            stream,
            options,
            used,
            size=parameters["ingredients_per_dish"],
            least=parameters["min_prepared_ingredients_per_dish"],
            most=parameters["max_prepared_ingredients_per_dish"],
            complexity=complexity,
        )
        for complexity in _complexities(family, parameters["dish_count"], parameters["preparation_complexity"])
    ]


def _complexities(family: Family, count: int, sampled: Complexity) -> list[Complexity]:
    """Complexity of each dish; two families make their last dishes harder than the others."""
    if family == "critical_path":
        return cast("list[Complexity]", ["low"] * (count - 2) + ["medium", "high"])
    if family == "load_balanced":
        return cast("list[Complexity]", ["low"] * (count - 1) + ["high"])
    return [sampled] * count


def _dish(number: int, recipe: Sequence[Ingredient], foods: FoodTable) -> dict[str, Any]:
    return {
        "dish_id": f"dish_{number}",
        "ingredient_names": [item.name for item in recipe],
        "estimated_branch_work": sum(item.work for item in recipe),
        "recipe": [
            {
                "name": item.name,
                "preparation": list(item.preparation),
                "requires_preparation": item.prepared,
                "candidate_source_locations": list(foods.locations[item.name]),
                "branch_work": item.work,
            }
            for item in recipe
        ],
    }


def _game_parameters(parameters: Mapping[str, Any], doors: int) -> dict[str, int]:
    dishes, size = parameters["dish_count"], parameters["ingredients_per_dish"]
    return {
        "numLocations": parameters["num_locations"],
        "numDishes": dishes,
        "numIngredientsPerDish": size,
        "numIngredientsTotal": dishes * size,
        "numDistractorItems": parameters["num_distractor_items"],
        "includeDoors": doors,
        "limitInventorySize": int(parameters["limit_inventory_size"]),
    }


def _parallelism(
    family: Family,
    dishes: Sequence[Mapping[str, Any]],
    *,
    doors: int,
    parameters: Mapping[str, Any],
    runtime: Mapping[str, int],
) -> dict[str, Any]:
    """Work and dependency figures; each dish costs its work and two actions more, to prepare and to eat it."""
    works = [dish["estimated_branch_work"] for dish in dishes]
    total, ends = sum(works), 2 * len(dishes)
    critical = max(works) + ends
    return {
        "pattern": PATTERNS.get(family, family),
        "branches": len(dishes),
        "ingredient_disjoint": True,
        "total_branch_work": total,
        "critical_path_estimate": critical,
        "estimated_sequential_actions": total + ends + doors,
        "ideal_parallel_speedup": round(total / critical, 4),
        "shared_bottlenecks": list(BOTTLENECKS.get(family, USUAL_BOTTLENECKS)),
        "resource_conflict": family == "conflict",
        "resource_capacity": _capacity(family, parameters),
        "mechanisms": {"tool_cooldown_steps": runtime["tool_cooldown_steps"]},
        "dependencies": _dependencies(family, dishes),
        "hierarchy_depth": 2 if family == "hierarchical" else 1,
        "shared_environment_max_steps": runtime["shared_environment_max_steps"],
    }


def _capacity(family: Family, parameters: Mapping[str, Any]) -> dict[str, int] | None:
    if family == "resource_constrained":
        return {"inventory": parameters["inventory_capacity"]}
    return {"knife": 1, "stove": 1} if family == "conflict" else None


def _dependencies(family: Family, dishes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    if family == "dependency_gate":  # the first dish is never behind the gate
        return [{"from": GATE, "to": dish["dish_id"], "type": "door"} for dish in dishes[1:]]
    if family != "hierarchical":
        return []
    found = []
    for dish in dishes:
        found.append({"from": "root", "to": dish["dish_id"], "type": "decompose"})
        for name in dish["ingredient_names"]:
            found.append({"from": dish["dish_id"], "to": f"{dish['dish_id']}::{name}", "type": "decompose"})
    return found


def _generation(family: Family, seed: int, fold: str, band: Band, drawn: Drawn) -> dict[str, Any]:
    return {
        "task_family": family,
        "requires_composite_environment": True,
        "requires_composite_scorer": True,
        "source_db_fold": fold,
        "source_db_seed": seed,
        "require_disjoint_ingredients": True,
        "v7_parameter_band": {name: spec.published() for name, spec in band.parameters.items()},
        "v7_sampled_parameters": dict(drawn.parameters),
        "v7_runtime_band": {name: spec.published() for name, spec in band.runtime.items()},
        "v7_sampled_runtime": dict(drawn.runtime),
        "v7_seed": seed,
    }
