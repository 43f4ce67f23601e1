"""The feed: which datums the next update of a phase trains on, from a snapshot and nothing else.

Invariant: a pure function of (snapshot, method, config, version, updates done, groups consumed), so every rank and
every restart gets the same batch. Depth weights are those of the batch. Data that the loss could not treat honestly are
refused: another tokenizer or temperature, turns without token ids, versions newer than the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from collect.renderer import ChatRenderer
from learn.batches import next_groups, order_groups
from learn.config import BRAKES, LearnConfig
from learn.credit import Credit, compute_credit, hash_rows
from learn.datum import Datum
from learn.depth_weights import times, weigh
from learn.filters import filters_of, require_something
from learn.given_logprobs import given_logprobs, require_given
from learn.refreshed import held_out
from learn.registered import query
from learn.rule import Method
from learn.schedule import Schedule, parse_schedule
from learn.sequence import build_datums
from learn.spelling import spell
from learn.store_needs import require_collected
from learn.untrainable import require_trainable
from learn.where import Where
from schemas.words import Role, Stage
from sera_data.canonical import sha256_file, sha256_json
from sera_data.errors import ConfigError, StoreError

SPEAKER: Mapping[Stage, Role] = {"execution": "act", "delegation": "act", "rubric": "writer"}
"""Whose turns a stage trains; who serves the other roles may be any model."""


@dataclass(frozen=True, slots=True)
class Meal:
    """What one update gets. Without datums, `skip_reason` says why; `exhausted`: a stage has no group left.

    stage: the update's, or the first of a joint one. taken: groups of each stage that it consumes.
    """

    stage: Stage
    groups: tuple[str, ...]
    datums: list[Datum]
    credit_sha256: str
    n_dropped: int
    skip_reason: str | None = None
    exhausted: bool = False
    joint: bool = False
    taken: Mapping[Stage, int] = field(default_factory=dict)


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
        policy: Path | None = None,
    ) -> None:
        """`policy`: the start policy's directory, whose template spells turns that are stored as text (for `sft`)."""
        self.connection, self.config, self.start, self.method = connection, config, start, method
        self.schedule = schedule_of(config, method)
        require_loss(config, method, self.schedule)
        _require_tokenizer(connection, tokenizer_sha256, roles=sorted({SPEAKER[s] for s in self.schedule.stages}))
        require_collected(connection, method)
        imitates = config.loss.kind == "sft"
        self.n_spelled = spell(connection, ChatRenderer.load(policy)) if imitates and policy is not None else 0
        filters = filters_of(config, start)
        self.credit = compute_credit(connection, method, where=where_of(config), filters=filters)
        if filters is not None:
            require_something(self.credit.connection, filters, self.schedule.stages)
        require_trainable(self.credit, self.schedule.stages)
        if not imitates:
            _require_temperature(self.credit, config.loss.temperature)
        self.held_out = held_out(connection, config.hold_out)
        self.order = {
            stage: order_groups(
                [group for group in self.credit.groups(stage) if not self._is_held_out(group)],
                seed=config.seed,
                epoch=epoch,
                stage=stage,
                reuse=config.reuse,
            )
            for stage in self.schedule.stages
        }
        require_given(self.credit, config.logprobs, self.order)

    def next(self, *, version: int, done: int, consumed: Mapping[str, int]) -> Meal:
        """The meal of the update that takes `version` further, after `done` updates or skips of the phase."""
        left = self.schedule.updates(version, self.config.updates_per_collect - done)
        courses = [
            self._course(stage, version, left[stage], consumed.get(stage, 0))
            for stage in self.schedule.stages_at(version)
        ]
        if len(courses) == 1:
            return courses[0]
        return _joined(courses)

    def _course(self, stage: Stage, version: int, left: int, used: int) -> Meal:
        """What one stage gives to an update."""
        groups = next_groups(self.order[stage], consumed=used, updates_left=left)
        dropped = [d for d in self.credit.dropped if d.stage == stage] if not used else []
        rows = self.credit.training_rows(stage, groups)
        if not groups:
            empty = self._why_empty(stage, used)
            return Meal(stage, (), [], hash_rows(rows), len(dropped), skip_reason=empty, exhausted=True)
        given = given_logprobs(self.connection, self.config.logprobs, rows["turn_id"])
        built = build_datums(self.connection, rows, read="one_by_one" if self.n_spelled else "auto", logprobs=given)
        datums = weigh(list(built), rule=self.method.depth_weights)
        self._require_honest(datums, stage, version)
        reason = None if datums else "no datum: the groups have no trainable token"
        taken = {stage: len(groups)}
        return Meal(stage, groups, datums, hash_rows(rows), len(dropped), skip_reason=reason, taken=taken)

    def _is_held_out(self, group: str) -> bool:
        return group.partition("/")[2] in self.held_out

    def starts_empty(self) -> bool:
        """True when the first update of the phase has no group, so that nothing will be trained."""
        return any(not self.order[stage] for stage in self.schedule.stages_at(self.start))

    def _why_empty(self, stage: Stage, used: int) -> str:
        if used:
            return f"stage {stage} has no group left, {used} were trained"
        held = sum(self._is_held_out(group) for group in self.credit.groups(stage))
        if held:
            return f"stage {stage} has no group left, {held} are held out by hold_out {self.config.hold_out:g}"
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
        oldest = min(datums, key=lambda d: d.policy_version, default=None)
        stale = self.config.loss.stale
        if (
            oldest is not None
            and version - oldest.policy_version > stale.limit
            and self.config.loss.kind in ("cispo", "grpo")
            and stale.beyond == "refuse"
        ):
            msg = (
                f"datum {oldest.datum_id} was sampled {version - oldest.policy_version} updates ago (version"
                f" {oldest.policy_version}, the weights are version {version}); {self.config.loss.kind} takes up to"
                f" {stale.limit}"
            )
            raise ConfigError(
                msg, hint="old stores: --set loss.kind=topr or m2po, or --allow-stale to train on them as they are"
            )


def _joined(courses: Sequence[Meal]) -> Meal:
    """One meal of several stages: the mean over a stage's tokens counts as much as that of any other stage.

    The loss divides the sum over all N trained tokens by N, so the advantages of a stage with N_s of them are scaled by
    N / N_s: what is left is the sum of the stages' own token means.
    """
    empty = next((meal for meal in courses if meal.exhausted), None)
    if empty is not None:
        return replace(empty, joint=True, n_dropped=sum(meal.n_dropped for meal in courses))
    counts = [sum(datum.n_trained for datum in meal.datums) for meal in courses]
    datums = [
        datum
        for meal, count in zip(courses, counts, strict=True)
        for datum in times(meal.datums, [sum(counts) / count] * len(meal.datums) if count else [])
    ]
    return Meal(
        stage=courses[0].stage,
        groups=tuple(group for meal in courses for group in meal.groups),
        datums=datums,
        credit_sha256=sha256_json([meal.credit_sha256 for meal in courses]),
        n_dropped=sum(meal.n_dropped for meal in courses),
        skip_reason=None if datums else courses[0].skip_reason,
        joint=True,
        taken={stage: n for meal in courses for stage, n in meal.taken.items()},
    )


def where_of(config: LearnConfig) -> Where | None:
    """What the config chooses to train, or everything."""
    return None if config.where is None else Where("learn.where", config.where)


def with_loss(config: LearnConfig, method: Method) -> LearnConfig:
    """The config with the loss that the method is trained with, where the config does not say itself."""
    wanted = {name: value for name, value in method.loss if name not in config.loss.model_fields_set}
    return config.model_copy(update={"loss": config.loss.model_copy(update=wanted)}) if wanted else config


def require_loss(config: LearnConfig, method: Method, schedule: Schedule) -> None:
    """Refuse a loss that the method was not made for, or bounds by stage where stages train together."""
    loss = config.loss
    for name, wanted in method.loss:
        found = getattr(loss, name)
        if found != wanted:
            flags = " ".join(f"--set loss.{key}={value}" for key, value in method.loss)
            msg = f"method {method.name!r} is trained with loss.{name}={wanted}, the config has {found}"
            raise ConfigError(msg, hint=f"add {flags}")
    if schedule.joint:
        for name in BRAKES:
            if len({loss.brake(name, stage) for stage in schedule.stages}) > 1:
                msg = f"schedule {schedule} trains its stages together, so loss.{name} must be one number for all"
                raise ConfigError(msg)


def schedule_of(config: LearnConfig, method: Method) -> Schedule:
    """The config's schedule, or the method's."""
    schedule = parse_schedule(config.schedule) if config.schedule else method.schedule
    unpaid = [stage for stage in schedule.stages if stage not in method.stages]
    if unpaid:
        msg = f"schedule {schedule} names stage {unpaid[0]!r}, which method {method.name!r} gives no credit"
        raise ConfigError(msg, hint=f"stages of this method: {', '.join(method.stages)}")
    return schedule


def rules_sha256(method: Method) -> str:
    """Hash of the credit rules: SQL text, parameters, control and depth weights."""
    rules = [[list(rule.stages), sha256_file(rule.path), list(map(list, rule.params))] for rule in method.rules]
    depth = method.depth_weights.resolved()
    return sha256_json(
        {"rules": rules, "control": method.control, "control_seed": method.control_seed, "depth_weights": depth}
    )


def _require_tokenizer(connection: duckdb.DuckDBPyConnection, wanted: str | None, *, roles: list[str]) -> None:
    rows = connection.sql(query("tokenizers"), params={"roles": roles}).fetchall()
    for name, found in rows:
        if found != wanted:
            own = str(wanted)[:16]
            msg = f"the epoch was sampled with tokenizer {found[:16]} (policy {name}), the start policy has {own}"
            raise StoreError(msg, hint="token ids mean other text there; start from a policy with the same tokenizer")


def _require_temperature(credit: Credit, wanted: float) -> None:
    rows = credit.connection.sql(query("temperatures"), params={"wanted": wanted}).fetchall()
    if rows:
        turn, found = rows[0]
        msg = f"turn {turn} was sampled at temperature {found:g}, loss.temperature is {wanted:g}"
        raise ConfigError(msg, hint=f"set loss.temperature to {found:g}; an update cannot mix temperatures")
