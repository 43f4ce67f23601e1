"""Protocols: an evaluation as data. Tasks, temperature, token caps, steps, depth, budgets and dialect in one YAML file.

Invariant: everything that changes what is played is in the protocol and becomes one collect phase, whose hash is stored
with every row (`evals.protocol_sha256`), so that two figures are averaged only when they were measured alike.

Run: ``sera eval protocols`` lists them; a path of a YAML file serves as well as a name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from collect.config import CollectConfig
from collect.dialect import DialectName
from sera_data.config import Config, load_config
from sera_data.errors import UsageError

NAME = r"^[a-z0-9][a-z0-9._-]*$"
SUFFIX = ".yaml"


class TaskSet(Config):
    """What a published set of tasks is recognised by."""

    n_tasks: int = Field(ge=1, description="Number of tasks.")
    bands: dict[str, int] = Field(default_factory=dict, description="Tasks per band.")
    task_set: str | None = Field(default=None, description="Hash of the ids: equal inventories, goals and rules.")
    goal_set: str | None = Field(default=None, description="Hash of the goals; inventories may differ.")


class TaskRule(Config):
    """Which tasks are played: a file or what `build` makes, then the filters in the order of the fields."""

    build: dict[str, Any] | None = Field(
        default=None, description="Parameters of the tasks that are built when no --tasks file is given."
    )
    published: TaskSet | None = Field(default=None, description="The published set that a file is compared with.")
    difficulties: tuple[str, ...] | None = Field(default=None, description="Only tasks of these bands.")
    per_true_depth: int | None = Field(default=None, ge=1, description="At most so many tasks per true depth.")
    shuffle_seed: int | None = Field(default=None, description="Seed that shuffles the tasks before `first`.")
    first: int | None = Field(default=None, ge=1, description="Only so many.")
    bands: Literal["difficulty", "true_depth"] = Field(
        default="difficulty",
        description="What the bands of the report are: the label of the tasks or their true depth.",
    )


class Protocol(Config):
    """One evaluation protocol."""

    name: str = Field(pattern=NAME, description="Name; part of the run id.")
    title: str = Field(description="One line.")
    measures: str = Field(description="What a figure of it says, and what it does not.")
    origin: str | None = Field(default=None, description="Where it was published.")
    differences: str | None = Field(default=None, description="Where it cannot equal the published evaluation.")
    held_out: bool = Field(description="True when no training of this toolkit plays these worlds.")
    use: Literal["report", "choose"] = Field(
        default="report", description="report: figures are reported and never used to choose anything."
    )
    world: str = Field(description="Registered world.")
    profile: str = Field(description="Profile of the world.")
    tasks: TaskRule = Field(description="Which tasks are played.")
    training: dict[str, Any] | None = Field(
        default=None, description="Build parameters of the training tasks that overlap is computed with by default."
    )
    dialects: tuple[DialectName, ...] = Field(min_length=1, description="Dialects allowed; the first is the default.")
    temperature: float = Field(default=0.0, ge=0, description="0 = greedy.")
    samples: int = Field(default=1, ge=1, description="Trees per task; several give success@k.")
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, description="Run seeds; each is an evaluation.")
    context_tokens: int | None = Field(default=None, ge=1, description="Prompt plus completion of a call.")
    prompt_tokens: int | None = Field(default=None, ge=1, description="Prompt of a call.")
    completion_tokens: int = Field(default=512, ge=1, description="Completion of a call.")
    steps: int | tuple[int, ...] = Field(default=20, description="Turns per agent, or one number per depth.")
    depth: int = Field(default=3, ge=0, description="Deepest agent; 0 = a single agent.")
    launches_per_turn: int = Field(default=4, ge=1, description="Children of one turn.")
    tree_retries: int = Field(default=1, ge=0, description="Replays of a tree lost to infrastructure.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Further collect settings by dotted name, for example budgets.wall_s."
    )

    @model_validator(mode="after")
    def _one_per_depth(self) -> Self:
        if not isinstance(self.steps, int) and len(self.steps) != self.depth + 1:
            msg = f"steps lists one number per depth: depth {self.depth} wants {self.depth + 1}, got {len(self.steps)}"
            raise ValueError(msg)
        return self

    def phase(self, *, seed: int, dialect: str, operations: Sequence[str] = ()) -> CollectConfig:
        """The collect phase that plays it. `operations` are `a.b=value` overrides of collect settings."""
        body: dict[str, Any] = {
            "name": self.name,
            "seed": seed,
            "world": {"name": self.world, "profile": self.profile},
            "dialect": dialect,
            "groups": {"eval": "all"},
            "samples": self.samples,
            "tree_retries": self.tree_retries,
            "budgets": {
                "turns": list(self.steps) if isinstance(self.steps, tuple) else self.steps,
                "depth": self.depth,
                "launches_per_turn": self.launches_per_turn,
                "context": self.context_tokens,
                "prompt": self.prompt_tokens,
            },
            "sampling": {"act": {"temperature": self.temperature, "max_tokens": self.completion_tokens}},
            "delegation": {"mode": "plain"},
            "rubric": {"for": []},
        }
        given = [f"{key}={_flow(value)}" for key, value in _flat(body)]
        more = [f"{key}={_flow(value)}" for key, value in self.settings.items()]
        return load_config(CollectConfig, None, [*given, *more, *operations])


def protocol_names() -> tuple[str, ...]:
    """Names of the protocols that ship with the package."""
    folder = files("collect").joinpath("protocols")
    return tuple(sorted(item.name.removesuffix(SUFFIX) for item in folder.iterdir() if item.name.endswith(SUFFIX)))


def is_protocol(name: str) -> bool:
    """Whether a text names a shipped protocol or a YAML file; UsageError for a near miss of a shipped name."""
    if name in protocol_names() or name.endswith((SUFFIX, ".yml")):
        return True
    near = difflib.get_close_matches(name, protocol_names(), n=1, cutoff=0.8)
    if near:
        msg = f"no protocol {name!r}; did you mean {near[0]!r}?"
        raise UsageError(msg, hint="'sera eval protocols' lists them")
    return False


def read_protocol(name: str, overrides: Sequence[str] = ()) -> Protocol:
    """The protocol of a name or YAML path, with `a.b=value` overrides; UsageError names the file and the key."""
    if name in protocol_names():
        from importlib.resources import as_file

        with as_file(files("collect").joinpath("protocols", f"{name}{SUFFIX}")) as path:
            return load_config(Protocol, path, overrides)
    if not name.endswith((SUFFIX, ".yml")):
        msg = f"no protocol {name!r}; allowed: {', '.join(protocol_names())}, or the path of a YAML file"
        raise UsageError(msg, hint="'sera eval protocols' lists them")
    return load_config(Protocol, Path(name), overrides)


def split_overrides(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Overrides of the protocol, and those of the collect phase (`collect.a=b`, given without the prefix)."""
    ours = [text for text in overrides if not text.startswith("collect.")]
    return ours, [text.removeprefix("collect.") for text in overrides if text.startswith("collect.")]


def _flat(body: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in body.items():
        whole = key in ("groups",) or not isinstance(value, Mapping)
        pairs += [(prefix + key, value)] if whole else _flat(value, f"{prefix}{key}.")
    return pairs


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
