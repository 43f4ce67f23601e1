"""The published form of a TextWorld-Sync record, checked field by field.

Invariant: a record that passes has every field with its type and range, parts that agree with each other, and nothing
else; one that does not is refused with the first field at fault, what was got and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from collect.textworld_bands import Difficulty, Family, Split

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Some = Annotated[int, Field(ge=1, lt=2**63)]
Flag = Annotated[int, Field(ge=0, le=1)]
Cooking = Literal["raw", "fried", "roasted", "grilled"]
Cutting = Literal["uncut", "chopped", "sliced", "diced"]
Preparation = Annotated[tuple[Cooking, Cutting], Field(strict=False)]  # JSON has lists where Python has tuples


class RecordPart(BaseModel):
    """Base of the parts of a record: no other field, no conversion of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class IngredientPart(RecordPart):
    """One food of a dish."""

    name: Text
    preparation: Preparation
    requires_preparation: bool
    candidate_source_locations: Annotated[list[Text], Field(min_length=1)]
    branch_work: Some


class DishPart(RecordPart):
    """One dish."""

    dish_id: Text
    ingredient_names: Annotated[list[Text], Field(min_length=1)]
    estimated_branch_work: Some
    recipe: list[IngredientPart]

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        if self.ingredient_names != [item.name for item in self.recipe]:
            msg = f"ingredient_names of {self.dish_id} differ from the names in its recipe"
            raise ValueError(msg)
        return self


class GameParameters(RecordPart):
    """Sizes of the world."""

    numLocations: Some
    numDishes: Some
    numIngredientsPerDish: Some
    numIngredientsTotal: Some
    numDistractorItems: Count
    includeDoors: Flag
    limitInventorySize: Flag


class DependencyPart(RecordPart):
    """What must come before what."""

    source: Text = Field(alias="from")
    to: Text
    type: Literal["door", "decompose"]


class MechanismsPart(RecordPart):
    """Extra rules."""

    tool_cooldown_steps: Count


class ParallelismPart(RecordPart):
    """Work figures, shared resources and dependencies."""

    pattern: Text
    branches: Some
    ingredient_disjoint: bool
    total_branch_work: Some
    critical_path_estimate: Some
    estimated_sequential_actions: Some
    ideal_parallel_speedup: float
    shared_bottlenecks: list[Text]
    resource_conflict: bool
    resource_capacity: dict[Text, Some] | None
    mechanisms: MechanismsPart
    dependencies: list[DependencyPart]
    hierarchy_depth: Some
    shared_environment_max_steps: Some


class DescriptionsPart(RecordPart):
    """The task text in both views."""

    structured: Text
    coarse: Text


class RecordForm(RecordPart):
    """A whole record."""

    schema_version: Literal[1]
    task_id: Text
    game: Literal["cookingworld_multidish"]
    base_game: Literal["cookingworld"]
    task_family: Family
    split: Split
    source_fold: Text
    difficulty: Difficulty
    seed: Count
    task_view: Literal["structured", "coarse"]
    task_description: Text
    task_descriptions: DescriptionsPart
    game_params: GameParameters
    dishes: Annotated[list[DishPart], Field(min_length=1)]
    parallelism: ParallelismPart
    generation: dict[str, Any]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        ids = [dish.dish_id for dish in self.dishes]
        names = [name for dish in self.dishes for name in dish.ingredient_names]
        if self.game_params.numDishes != len(ids):
            msg = f"game_params.numDishes is {self.game_params.numDishes}, the record has {len(ids)} dishes"
        elif len(set(ids)) < len(ids) or len(set(names)) < len(names):
            msg = "dishes must have different ids and no ingredient in common"
        elif self.task_description != getattr(self.task_descriptions, self.task_view):
            msg = f"task_description is not the {self.task_view} one of task_descriptions"
        elif any(edge.type == "door" and edge.to not in ids for edge in self.parallelism.dependencies):
            msg = f"a door leads to a dish that the record does not have; its dishes: {', '.join(ids)}"
        else:
            return self
        raise ValueError(msg)


def check_record(record: Any) -> None:
    """Raises ValueError with the first field that does not fit: its path, the reason and what was got."""
    if not isinstance(record, Mapping):
        msg = f"a record is a JSON object, got {type(record).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - every fault of a record is a ValueError
    try:
        RecordForm.model_validate(record)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field, reason = ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")
        got = repr(fault["input"])
        if fault["type"] == "missing":
            msg = f"field {field!r} is missing"
        elif fault["type"] == "value_error":
            msg = f"field {field!r}: {reason}" if field else reason
        else:
            msg = f"field {field!r}: {reason}, got {got if len(got) <= 100 else got[:100] + '...'}"
        raise ValueError(msg) from None
