"""What a TextWorld-Sync task says about its world: rooms, dishes, foods and how each is wanted; never changed.

Invariant: a spec is read once from a task's `spec` and seed and is the same for both rule profiles; the shared budget
is not part of it, because a run may play the same task under another one (it lives in the state). Every fault of a task
is a ValueError that names the field.

Run: ``spec_of(task)`` gives the spec, ``shared_steps(task)`` the task's budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from collect.world import Task
from sera_data.canonical import canonical_json, sha256_text

ROOMS = (
    "kitchen",
    "pantry",
    "garden",
    "supermarket",
    "hallway",
    "dining room",
    "garage",
    "study",
    "basement",
    "attic",
    "courtyard",
)
SOURCES = ROOMS[:4]  # rooms that food can come from
LEAST_ROOMS = 4
CUTS = ("uncut", "chopped", "sliced", "diced")
COOKINGS = ("raw", "fried", "roasted", "grilled")
GATE = "gate_1"
DEFAULT_STEPS = 100  # shared budget of a task that names none


class Food(NamedTuple):
    """An ingredient: its dish, how it is wanted (indices into CUTS and COOKINGS) and the rooms it may lie in."""

    name: str
    dish: int
    cut: int
    cooking: int
    rooms: tuple[int, ...]

    @property
    def wanted(self) -> str:
        """``carrot (grilled, diced)``."""
        return f"{self.name} ({COOKINGS[self.cooking]}, {CUTS[self.cut]})"


@dataclass(frozen=True, slots=True, eq=False)
class WorldSpec:
    """Facts of one task. Dishes and foods are indices; masks have bit i for food i or dish i.

    digest: 16 hex digits of the content without the shared budget. limited: the inventory is limited.
    sampled_capacity: hands as drawn for the task, None when the task does not say. shared_capacity: capacity that the
    task declares as a shared resource, or None. gated: dishes behind the gate.
    """

    digest: str
    seed: int | None
    dishes: tuple[str, ...]
    foods: tuple[Food, ...]
    n_rooms: int
    n_distractors: int
    doors: bool
    limited: bool
    sampled_capacity: int | None
    shared_capacity: int | None
    cooldown: int
    gated: int
    source: str

    @property
    def rooms(self) -> tuple[str, ...]:
        """Names of the rooms that exist."""
        return ROOMS[: self.n_rooms]


def spec_of(task: Task) -> WorldSpec:
    """The spec of a task; ValueError names the field that is missing or wrong."""
    body = {name: task.spec.get(name) for name in ("game_params", "dishes", "parallelism", "inventory_capacity")}
    return read_spec(body, seed=task.seed)


def read_spec(body: Mapping[str, Any], *, seed: int | None) -> WorldSpec:
    """A spec from the parts of a record that matter to the world."""
    params = _mapping(body, "game_params")
    parallelism = _mapping(body, "parallelism")
    dishes, foods = _dishes(body.get("dishes"))
    stable = {**body, "parallelism": {k: v for k, v in parallelism.items() if k != "shared_environment_max_steps"}}
    source = canonical_json({"body": stable, "seed": seed})
    resources = parallelism.get("resource_capacity") or {}
    mechanisms = parallelism.get("mechanisms") or {}
    n_rooms = max(LEAST_ROOMS, min(len(ROOMS), _whole(params, "numLocations", "game_params")))
    return WorldSpec(
        digest=sha256_text(source)[:16],
        seed=seed,
        dishes=dishes,
        foods=foods,
        n_rooms=n_rooms,
        n_distractors=_whole(params, "numDistractorItems", "game_params", default=0),
        doors=bool(_whole(params, "includeDoors", "game_params")),
        limited=bool(_whole(params, "limitInventorySize", "game_params")),
        sampled_capacity=_optional(body, "inventory_capacity", "spec"),
        shared_capacity=_optional(resources, "inventory", "parallelism.resource_capacity"),
        cooldown=_whole(mechanisms, "tool_cooldown_steps", "parallelism.mechanisms", default=0),
        gated=_gated(parallelism.get("dependencies") or (), dishes),
        source=source,
    )


def shared_steps(task: Task) -> int:
    """The task's shared budget in world steps; DEFAULT_STEPS when it names none."""
    steps = _whole(
        _mapping(task.spec, "parallelism"), "shared_environment_max_steps", "parallelism", default=DEFAULT_STEPS
    )
    if steps < 1:
        msg = f"parallelism.shared_environment_max_steps must be at least 1, got {steps}"
        raise ValueError(msg)
    return steps


def _dishes(raw: Any) -> tuple[tuple[str, ...], tuple[Food, ...]]:
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        msg = f"spec.dishes must be a list with at least one dish, got {_short(raw)}"
        raise ValueError(msg)
    dishes: list[str] = []
    foods: dict[str, Food] = {}
    for index, dish in enumerate(raw):
        path = f"spec.dishes[{index}]"
        if not isinstance(dish, Mapping) or not isinstance(dish.get("dish_id"), str) or not dish["dish_id"].strip():
            msg = f"{path}.dish_id must be a text, got {_short(dish)}"
            raise ValueError(msg)
        recipe = dish.get("recipe")
        if dish["dish_id"] in dishes or not isinstance(recipe, Sequence) or isinstance(recipe, str) or not recipe:
            msg = f"{path} must have an id of its own and a recipe with at least one food, got {_short(dish)}"
            raise ValueError(msg)
        dishes.append(dish["dish_id"])
        for place, entry in enumerate(recipe):
            food = _food(entry, index, f"{path}.recipe[{place}]")
            if food.name in foods:
                msg = f"{path}.recipe[{place}].name: {food.name!r} is in two recipes, dishes share no food"
                raise ValueError(msg)
            foods[food.name] = food
    return tuple(dishes), tuple(foods.values())


def _food(entry: Any, dish: int, path: str) -> Food:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"].strip():
        msg = f"{path}.name must be a text, got {_short(entry)}"
        raise ValueError(msg)
    pair = entry.get("preparation")
    if not isinstance(pair, Sequence) or len(pair) != 2 or pair[0] not in COOKINGS or pair[1] not in CUTS:
        msg = f"{path}.preparation must be [{'|'.join(COOKINGS)}, {'|'.join(CUTS)}], got {_short(pair)}"
        raise ValueError(msg)
    places = entry.get("candidate_source_locations") or ()
    if not isinstance(places, Sequence) or isinstance(places, str) or not all(isinstance(p, str) for p in places):
        msg = f"{path}.candidate_source_locations must be a list of texts, got {_short(places)}"
        raise ValueError(msg)
    names = [place.partition(".")[0] for place in places]
    rooms = tuple(SOURCES.index(name) if name in SOURCES else 0 for name in names) or (0,)
    return Food(entry["name"], dish, CUTS.index(pair[1]), COOKINGS.index(pair[0]), rooms)


def _gated(dependencies: Any, dishes: Sequence[str]) -> int:
    if not isinstance(dependencies, Sequence) or not all(isinstance(edge, Mapping) for edge in dependencies):
        msg = f"parallelism.dependencies must be a list of objects, got {_short(dependencies)}"
        raise ValueError(msg)
    mask = 0
    for edge in dependencies:
        if edge.get("from") == GATE:
            if edge.get("to") not in dishes:
                msg = (
                    f"parallelism.dependencies: {GATE} leads to {_short(edge.get('to'))}, which is no dish of the task"
                )
                raise ValueError(msg)
            mask |= 1 << dishes.index(edge["to"])
    return mask


def _mapping(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if not isinstance(value, Mapping):
        msg = f"a TextWorld spec has an object {name!r}, got {_short(value)}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a spec is a ValueError
    return value


def _whole(body: Mapping[str, Any], name: str, path: str, *, default: int | None = None) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or value < 0:
        msg = f"{path}.{name} must be a whole number from 0, got {_short(value)}"
        raise ValueError(msg)
    return int(value)


def _optional(body: Mapping[str, Any], name: str, path: str) -> int | None:
    return None if body.get(name) is None else _whole(body, name, path)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
