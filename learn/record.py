"""The record of a learn phase in the store: its plan, its `updates` rows, and how often nothing was trained.

Invariant: the rows of a phase are one shard of an addition to the epoch it learned from, committed once and sealed; a
phase that is sealed is never run again, its result is read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sera_data
from collect.policy_directory import PolicyDirectory, is_policy_directory
from collect.shard import Provenance, runs_row
from learn.checkpoint import State
from learn.config import LearnConfig
from learn.export import policy_path
from learn.method import Method
from learn.registered import query
from schemas import TABLES
from sera_data.config import run_id
from sera_data.errors import SeraError
from sera_data.plan import Plan, plan_names, read_plan
from sera_data.store import Store

UNIT = "u0000"
FRUITLESS_LIMIT = 3


class FruitlessError(SeraError):
    """Several learn phases in a row trained nothing."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What a phase works on. `parent` is the policy it starts from, `out` the run's directory."""

    store: Store
    config: LearnConfig
    method: Method
    parent: PolicyDirectory
    out: Path
    epoch: int

    @property
    def run_id(self) -> str:
        """Name of the run: config name + hash."""
        return run_id(self.config.name, self.config)


@dataclass(frozen=True, slots=True)
class Result:
    """What a phase did: its `updates` rows, the policy after it, and the version there."""

    run_id: str
    epoch: int
    version: int
    policy: Path
    rows: list[dict[str, Any]]
    plan: str
    fruitless: int
    repeated: bool = False


def finished_plan(phase: Phase) -> Plan | None:
    """The sealed plan of this very phase, when it was finished before."""
    for plan in additions(phase):
        same = (plan.run_id, plan.config_hash, plan.policy_hash) == identity(phase)
        if same and plan.phase == "learn" and plan.sealed():
            return plan
    return None


def additions(phase: Phase) -> list[Plan]:
    """Plans that add to the phase's epoch."""
    plans = [read_plan(phase.store, name) for name in plan_names(phase.store)]
    return [p for p in plans if p.epoch == phase.epoch and p.addition is not None]


def identity(phase: Phase) -> tuple[str, str, str]:
    """Run id, config hash and policy hash: the same phase has the same three."""
    return phase.run_id, phase.config.hash(), phase.parent.sha256


def commit_updates(phase: Phase, plan: Plan, state: State, started: datetime) -> str:
    """Write the rows of a phase as its shard and seal it, what is there already is left; the plan's name."""
    served = phase.parent.identity(engine="deepspeed")
    policies = [
        {
            "role": "act",
            "name": served.name,
            "weights_sha256": served.weights_sha256,
            "tokenizer_sha256": served.tokenizer_sha256,
            "template_sha256": served.template_sha256,
            "engine": served.engine,
            "version": served.version,
        }
    ]
    provenance = Provenance(identity=phase.config, phase="learn", policies=policies, started_at=started)
    with sera_data.ShardWriter(phase.store, plan, UNIT) as writer:
        writer.add("runs", runs_row(provenance))
        columns = {column.name for column in TABLES["updates"].columns}
        writer.extend("updates", ({k: v for k, v in row.items() if k in columns} for row in state.rows))
        writer.commit()
    sera_data.seal(phase.store, plan.name)
    return plan.name


def read_result(phase: Phase, plan: Plan) -> Result:
    """The result of a phase that was finished before, read back from the store."""
    with phase.store.connect() as connection:
        rows = connection.sql(query("phase_updates"), params={"run_id": phase.run_id, "shard": plan.shard_id(UNIT)})
        found = rows.to_arrow_table().to_pylist()
    version = found[-1]["version_out"] if found else phase.parent.version
    policy = policy_path(phase.out, version) if version != phase.parent.version else phase.parent.path
    if not is_policy_directory(policy):
        msg = f"this phase was finished before (plan {plan.name}), but its policy is not at {policy}"
        raise SeraError(
            msg, hint="give the --out that it was run with, or train anew under another name: --set name=again"
        )
    return Result(phase.run_id, phase.epoch, version, policy, found, plan.name, fruitless(phase), repeated=True)


def fruitless(phase: Phase) -> int:
    """How many of the run's newest phases in a row trained nothing."""
    with phase.store.connect() as connection:
        counts = connection.sql(query("fruitless"), params={"run_id": phase.run_id}).fetchall()
    return next((i for i, (_, n) in enumerate(counts) if n), len(counts))


def require_fruitful(result: Result) -> None:
    """Raise FruitlessError with advice after three phases in a row that trained nothing."""
    if result.fruitless < FRUITLESS_LIMIT:
        return
    reason = next((row["skip_reason"] for row in reversed(result.rows) if row["skip_reason"]), "no reason recorded")
    msg = f"{result.fruitless} learn phases in a row trained nothing; the last reason: {reason}"
    raise FruitlessError(
        msg,
        hint="collect more groups or samples per group, or easier or harder tasks so that groups are mixed;"
        " sera credit STORE shows what was dropped",
    )
