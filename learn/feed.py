"""The feed: which datums the next update of a phase trains on, from a snapshot and nothing else.

Invariant: a pure function of (snapshot, method, config, version, updates done, groups consumed), so every rank and
every restart gets the same batch. Depth weights are those of the batch. Data that the loss could not treat honestly are
refused: another tokenizer or temperature, versions newer than the weights, a KL brake on data of other weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from learn.batches import next_groups, order_groups
from learn.config import LearnConfig
from learn.credit import Credit, compute_credit, hash_rows
from learn.datum import Datum
from learn.depth_weights import weigh
from learn.method import Method
from learn.registered import Registered, query
from learn.schedule import Schedule, parse_schedule
from learn.sequence import build_datums
from schemas.words import Stage
from sera_data.canonical import sha256_file, sha256_json
from sera_data.errors import ConfigError, StoreError


@dataclass(frozen=True, slots=True)
class Meal:
    """What one update gets. Without datums, `skip_reason` says why; `exhausted`: the stage has no group left."""

    stage: Stage
    groups: tuple[str, ...]
    datums: list[Datum]
    credit_sha256: str
    n_dropped: int
    skip_reason: str | None = None
    exhausted: bool = False


class Feed:
    """Batches of one phase, on an open connection to its snapshot."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        config: LearnConfig,
        method: Method,
        epoch: int,
        start: int,
        tokenizer_sha256: str | None,
    ) -> None:
        self.connection, self.config, self.start = connection, config, start
        self.schedule = schedule_of(config, method)
        _require_tokenizer(connection, tokenizer_sha256)
        self.credit = compute_credit(connection, method)
        _require_temperature(connection, self.credit, config.loss.temperature)
        self.order = {
            stage: order_groups(
                self.credit.groups(stage), seed=config.seed, epoch=epoch, stage=stage, reuse=config.reuse
            )
            for stage, _ in self.schedule.items
        }

    def next(self, *, version: int, done: int, consumed: Mapping[str, int]) -> Meal:
        """The meal of the update that takes `version` further, after `done` updates or skips of the phase."""
        stage = self.schedule.stage_at(version)
        left = self.schedule.updates(version, self.config.updates_per_collect - done)[stage]
        used = consumed.get(stage, 0)
        groups = next_groups(self.order[stage], consumed=used, updates_left=left)
        dropped = [d for d in self.credit.dropped if d.stage == stage] if not used else []
        rows = self.credit.training_rows(stage, groups)
        if not groups:
            empty = self._why_empty(stage, used)
            return Meal(stage, (), [], hash_rows(rows), len(dropped), skip_reason=empty, exhausted=True)
        datums = weigh(list(build_datums(self.connection, rows)))
        self._require_honest(datums, stage, version)
        reason = None if datums else "no datum: the groups have no trainable token"
        return Meal(stage, groups, datums, hash_rows(rows), len(dropped), skip_reason=reason)

    def starts_empty(self) -> bool:
        """True when the first update of the phase has no group, so that nothing will be trained."""
        return not self.order[self.schedule.stage_at(self.start)]

    def _why_empty(self, stage: Stage, used: int) -> str:
        if used:
            return f"stage {stage} has no group left, {used} were trained"
        reasons = sorted({d.reason for d in self.credit.dropped if d.stage == stage})
        count = sum(d.stage == stage for d in self.credit.dropped)
        if not count:
            return f"stage {stage} has no group in the epoch"
        return f"stage {stage} has no usable group, {count} were dropped: {'; '.join(reasons)}"

    def _require_honest(self, datums: list[Datum], stage: Stage, version: int) -> None:
        newer = next((d for d in datums if d.policy_version > version), None)
        if newer is not None:
            sampled = newer.policy_version
            msg = f"datum {newer.datum_id} was sampled by version {sampled}, the weights are version {version}"
            raise StoreError(msg, hint="start from the policy that collected the epoch, or a later one")
        foreign = next((d for d in datums if d.policy_version != self.start), None)
        if self.config.loss.kl(stage) and foreign is not None:
            msg = (
                f"loss.kl_coef pulls to the weights that sampled the data, which must be the start weights (version"
                f" {self.start}), but datum {foreign.datum_id} was sampled by version {foreign.policy_version}"
            )
            raise ConfigError(msg, hint="set loss.kl_coef to 0 for data of another version")


def schedule_of(config: LearnConfig, method: Method) -> Schedule:
    """The config's schedule, or the method's."""
    schedule = parse_schedule(config.schedule) if config.schedule else method.schedule
    unpaid = [stage for stage, _ in schedule.items if stage not in method.stages]
    if unpaid:
        msg = f"schedule {schedule} names stage {unpaid[0]!r}, which method {method.name!r} gives no credit"
        raise ConfigError(msg, hint=f"stages of this method: {', '.join(method.stages)}")
    return schedule


def rules_sha256(method: Method) -> str:
    """Hash of the credit rules: SQL text, parameters and control."""
    rules = [[list(rule.stages), sha256_file(rule.path), list(map(list, rule.params))] for rule in method.rules]
    return sha256_json({"rules": rules, "control": method.control, "control_seed": method.control_seed})


def _require_tokenizer(connection: duckdb.DuckDBPyConnection, wanted: str | None) -> None:
    rows = connection.sql(query("tokenizers")).fetchall()
    for name, found in rows:
        if found != wanted:
            own = str(wanted)[:16]
            msg = f"the epoch was sampled with tokenizer {found[:16]} (policy {name}), the start policy has {own}"
            raise StoreError(msg, hint="token ids mean other text there; start from a policy with the same tokenizer")


def _require_temperature(connection: duckdb.DuckDBPyConnection, credit: Credit, wanted: float) -> None:
    turns = pa.table({"turn_id": credit.rows.filter(credit.rows["trainable"])["turn_id"].unique().to_arrow()})
    with Registered(connection, "credit_rows", turns):
        rows = connection.sql(query("temperatures"), params={"wanted": wanted}).fetchall()
    if rows:
        turn, found = rows[0]
        msg = f"turn {turn} was sampled at temperature {found:g}, loss.temperature is {wanted:g}"
        raise ConfigError(msg, hint=f"set loss.temperature to {found:g}; an update cannot mix temperatures")
