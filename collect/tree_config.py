"""How one tree is played: its budgets, sampling by role, delegations, rubrics and cells of code.

Invariant: a value out of its range, or one that contradicts another of its section, is refused by its name before
anything is played.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import AliasChoices, Field, model_validator

from schemas.words import Purpose
from sera_data.config import Config, Temperature

MOST_TRIES = 100


class Budgets(Config):
    """Limits of one tree; the ones that ended a node are seen in its outcome."""

    turns: int | tuple[int, ...] = Field(default=20, description="Act turns per agent, or one number per depth from 0.")
    depth: int = Field(default=3, ge=0, le=64, description="Deepest agent allowed; the root is 0.")
    launches_per_turn: int = Field(default=4, ge=1, le=1000, description="Children that one turn may launch.")
    agents_per_tree: int | None = Field(
        default=None, ge=1, description="Agents on one path through the branches, the root included; null = no limit."
    )
    tokens: int | None = Field(default=None, ge=1, description="Completion tokens per agent; null = no limit.")
    context: int | None = Field(
        default=None, ge=1, description="Prompt plus completion tokens per agent; null = no limit."
    )
    prompt: int | None = Field(
        default=None,
        ge=1,
        description="Prompt tokens of a call; a longer one ends the agent as truncated; null = no limit.",
    )
    wall_s: float | None = Field(default=None, gt=0, description="Wall seconds per tree; null = no limit.")
    repeats: int | None = Field(default=None, ge=2, description="Equal replies in a row that end a node as `loop`.")
    loop: Literal["failure", "verdict"] = Field(
        default="failure",
        description="What a node that ended as `loop` counts as: a failure, or what the program says of its work.",
    )
    world_steps: Literal["task", "reference"] = Field(
        default="task",
        description="Actions that the agents of a tree share, in worlds with such a budget. task: the task's own;"
        " reference: 100, as in the published training runs.",
    )
    retries: int = Field(
        default=2, ge=0, le=MOST_TRIES, description="Tries again after an infrastructure fault of a policy."
    )
    retry_wait_s: float = Field(
        default=1.0, ge=0, le=60, description="Seconds before the first retry; doubles each time, up to a minute."
    )

    @model_validator(mode="after")
    def _turns_positive(self) -> Self:
        turns = (self.turns,) if isinstance(self.turns, int) else self.turns
        if not turns or min(turns) < 1:
            msg = f"turns must be 1 or more at every depth, got {self.turns!r}"
            raise ValueError(msg)
        if not isinstance(self.turns, int) and len(turns) != self.depth + 1:
            msg = f"turns lists one number per depth: depth {self.depth} wants {self.depth + 1}, got {len(turns)}"
            raise ValueError(msg)
        return self


class RoleSampling(Config):
    """How one role samples."""

    temperature: Temperature = Field(default=1.0, description="0 = greedy.")
    max_tokens: int = Field(default=512, ge=1, description="Longest completion.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="1 = off; anything below is refused for training groups.")


class SamplingConfig(Config):
    """How each role samples."""

    act: RoleSampling = Field(default_factory=lambda: RoleSampling(), description="Agents.")
    writer: RoleSampling = Field(default_factory=lambda: RoleSampling(max_tokens=1024), description="Rubric writers.")
    scorer: RoleSampling = Field(
        default_factory=lambda: RoleSampling(temperature=0.0, max_tokens=1024),
        description="Scorers; greedy by default.",
    )


class DelegationConfig(Config):
    """How delegations are played."""

    mode: Literal["plain", "counterfactual", "best_of"] = Field(
        default="counterfactual",
        description="plain: never fork. counterfactual: fork the delegations of rubric groups. best_of: play k"
        " candidates of every delegation and keep one of them; for evaluation only.",
    )
    selection: Literal["reference", "recommended"] = Field(
        default="recommended",
        description="reference: fork first come first served under the cap. recommended: play the tree plainly, then"
        " fork a draw of its launches with a known inclusion probability.",
    )
    scheduling: Literal["parallel", "sequential"] = Field(
        default="sequential",
        description="Launches of one reply: parallel = at the same time on the parent's live state; sequential = one"
        " after another. mode counterfactual and best_of take sequential only.",
    )
    k: int = Field(default=8, ge=1, le=127, description="Branches per forked delegation, the committed one included.")
    environment_cap: int = Field(default=16, ge=1, description="reference: soft cap on environments per tree.")
    forks_per_tree: int = Field(default=2, ge=0, description="recommended: launches of a tree that are forked.")
    fork_share: float = Field(default=0.0, ge=0, le=1, description="Share of other groups' trees that fork as well.")
    selector: Literal["first", "random", "rubric", "judge"] = Field(
        default="rubric",
        description="best_of: who chooses the candidate that is kept. rubric: its highest score; judge: the first that"
        " the judge calls successful; first and random are controls.",
    )
    candidate_temperature: Temperature = Field(
        default=1.0, description="best_of: sampling temperature of every agent below the root."
    )
    fork_cap: int = Field(
        default=32,
        ge=1,
        description="best_of: environments that the candidates of a tree may use, k per delegation; then the rest is"
        " done without helpers.",
    )

    @model_validator(mode="after")
    def _forks_in_order(self) -> Self:
        if self.mode != "plain" and self.scheduling == "parallel":
            msg = (
                "delegation.scheduling=parallel needs delegation.mode=plain: branches fork from one snapshot, so"
                f" {self.mode} launches run one after another"
            )
            raise ValueError(msg)
        if self.mode == "best_of" and self.k > self.fork_cap:
            msg = f"delegation.fork_cap={self.fork_cap} has no room for the {self.k} candidates of one delegation"
            raise ValueError(msg)
        return self


class RubricConfig(Config):
    """Where rubrics are written and how often a reply may be tried."""

    purposes: tuple[Purpose, ...] = Field(
        default=("execution", "rubric"),
        validation_alias=AliasChoices("for", "purposes"),
        description="Purposes whose delegations get a rubric and scores (`for` in YAML).",
    )
    source: Literal["policy", "global", "direct"] = Field(
        default="policy",
        description="policy: the writer writes one for every delegation. global: one fixed rubric for all. direct:"
        " none, the scorer sees the goal only.",
    )
    attempts: int = Field(
        default=1, ge=1, le=MOST_TRIES, description="Replies asked of a writer or scorer until one is valid."
    )
    min_items: int = Field(default=2, ge=1, description="Fewest criteria of a valid rubric.")
    trajectory_chars: int = Field(
        default=12_000, ge=200, description="Characters of a trajectory shown to a scorer before its middle is cut."
    )


class SandboxConfig(Config):
    """Limits of one cell of the dialect `code`; a cell that hits one ends as an error of its turn."""

    seconds: float = Field(
        default=1.0, gt=0, le=60, description="Running time of a cell, without the time its tools and children take."
    )
    memory_mb: int = Field(default=16, ge=4, le=4096, description="Memory of a cell's interpreter, in MiB.")
    recursion: int = Field(default=200, ge=10, le=1000, description="Deepest nesting of calls.")
    output_chars: int = Field(
        default=8_000, ge=100, description="Characters of output shown to the agent; a marker stands for the rest."
    )
    print_chars: int = Field(default=1_000_000, ge=100, description="Printed characters after which a cell is ended.")
    calls: int = Field(default=2_000, ge=1, description="Tool calls and launches that one cell may make.")
    launches: int = Field(default=64, ge=1, description="Launches that one cell may ask for, the refused included.")
    workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Interpreter processes; null = one per CPU, at least 2. Changes no result.",
    )
