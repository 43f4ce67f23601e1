"""What a tree is run with and what comes out: plan, services, result.

Invariant: a plan names one tree and nothing else; services are shared by many trees and hold no state of any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from collect.dialect import Dialect
from collect.dialect_json import JsonDialect
from collect.labels import InlineJudge
from collect.policy import Policy
from collect.settings import TreeSettings
from collect.transcript import Transcript
from collect.world import Task, World
from schemas.words import Outcome, Purpose, Role

Style = Literal["terse", "full"]


@dataclass(frozen=True, slots=True)
class TreePlan:
    """One tree: which task, which sample of it, for which purpose. `seed` is the run's seed."""

    run_id: str
    epoch: int
    task: Task
    sample: int
    purpose: Purpose
    seed: int


@dataclass(frozen=True, slots=True)
class Services:
    """Shared by the trees of a job. `policies` holds act and, where rubrics are wanted, writer and scorer.

    judge: labels nodes that no program can check; None = they stay without a verdict.
    """

    world: World[Any]
    policies: Mapping[Role, Policy]
    settings: TreeSettings = field(default_factory=TreeSettings)
    style: Style = "terse"
    dialect: Dialect = field(default_factory=JsonDialect)
    judge: InlineJudge | None = None


@dataclass(frozen=True, slots=True)
class RootSummary:
    """The tree in short; counts are over its on-path nodes. `success` is None after infra_error or without a check.

    tries: plays of the tree, above 1 when infrastructure errors were retried; the counts are those of the last.
    """

    tree_id: str
    outcome: Outcome
    success: bool | None
    n_nodes: int
    n_turns: int
    n_delegations: int
    n_prompt_tokens: int
    n_completion_tokens: int
    max_depth: int
    error: str | None
    wall_s: float
    tries: int = 1


@dataclass(frozen=True, slots=True)
class TreeResult:
    """Rows by table, ready for a shard writer (without run, epoch and shard), in deterministic order.

    transcripts: every chat of the tree with its assistant texts, acts first, in the order of the nodes.
    """

    root: RootSummary
    rows: Mapping[str, list[dict[str, Any]]]
    transcripts: list[Transcript]
