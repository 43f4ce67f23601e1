"""`CompareConfig`: which methods are compared, from what, with which seeds, measured how, and what is claimed.

Invariant: everything that could be chosen after the fact stands here before the first run: rows, seeds, protocols and
contrasts. Two comparisons with one config have the same cells.

Run: ``sera compare --config configs/pocket_table.yaml --out runs/pocket_table --dry-run`` prints it resolved.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sera_data.config import Config, Temperature

START = "start"
"""The row of the start weights: measured once, trained never."""

NAME = re.compile(r"^[a-z0-9][a-z0-9_-]*$")
Measure = Literal["success", "success_at", "pair_accuracy", "hinge", "margin_rate"]
PROBE_MEASURES: tuple[Measure, ...] = ("pair_accuracy", "hinge", "margin_rate")


class Row(Config):
    """One method of the table."""

    method: str = Field(description="Name of `sera methods`, NAME:recommended, or the path of a .yaml or .sql file.")
    title: str | None = Field(default=None, description="Its name in the table; null: the row's key.")
    overrides: tuple[str, ...] = Field(
        default=(), alias="set", description="Overrides of the loop's settings for this row, a.b=value."
    )

    model_config = {**Config.model_config, "populate_by_name": True}


class Measured(Config):
    """One evaluation of every policy."""

    samples: int = Field(default=4, ge=1, le=10_000, description="Trees per task.")
    temperature: Temperature = Field(default=1.0, description="0 = greedy.")
    limit: int | None = Field(default=None, ge=1, description="Number of tasks drawn; null = all.")
    rows: tuple[str, ...] | None = Field(default=None, description="Only these rows; null = all, the start included.")


class Contrast(Config):
    """A claim written down before the run: `better` exceeds `worse` under a measure."""

    name: str = Field(min_length=1, description="What is claimed, in words.")
    better: str = Field(description="A row.")
    worse: str = Field(description="Another row, or 'start'.")
    measure: Measure = Field(default="success", description="success_at: at least one of the samples succeeds.")
    protocol: str | None = Field(default=None, description="For success: a key of `protocols`; null: the first one.")
    worse_protocol: str | None = Field(
        default=None, description="Another protocol for `worse`, as a lower temperature; null: the same."
    )

    def sides(self, first: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """(row, protocol) of `better` and of `worse`; `first` is the comparison's first protocol."""
        protocol = self.protocol or first
        return (self.better, protocol), (self.worse, self.worse_protocol or protocol)


class Probe(Config):
    """Delegations of tasks that no training uses, to judge the trained writer on; agents and scorer as configured."""

    config: str = Field(description="Collect config; the cell's policy becomes its writer.")
    tasks: str = Field(description="Task file.")
    overrides: tuple[str, ...] = Field(default=(), alias="set", description="Overrides of the collect config.")

    model_config = {**Config.model_config, "populate_by_name": True}


class Snapshot(Config):
    """Train every row from one sealed epoch instead of in loops."""

    store: str = Field(description="A store.")
    epoch: int | None = Field(default=None, ge=0, description="Its collect epoch; null: the newest.")


class CompareConfig(Config):
    """A comparison. `loop` gives start policy, collect and learn settings of every row, so that budgets are equal."""

    name: str = Field(default="compare", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="Name of the comparison.")
    loop: str = Field(description="Loop config that every row starts from; its method is the row's.")
    snapshot: Snapshot | None = Field(
        default=None,
        description="Train from stored rows only: one learn phase a cell. null: collect and learn in turn.",
    )
    rows: dict[str, Row] = Field(description="Methods by key.")
    seeds: tuple[int, ...] = Field(default=(1, 2, 3, 4, 5), min_length=1, description="One cell per row and seed.")
    tasks: str = Field(description="Task file of the evaluations, of worlds that no training uses.")
    evaluation: str | None = Field(default=None, description="Collect config of the evaluations; null: defaults.")
    protocols: dict[str, Measured] = Field(description="Evaluations by key.")
    probe: Probe | None = Field(default=None, description="Held-out delegations for rubric figures; null: none.")
    contrasts: tuple[Contrast, ...] = Field(default=(), description="Claims, corrected by Holm over all of them.")
    resamples: int = Field(default=10_000, ge=100, le=1_000_000, description="Draws of each bootstrap.")

    @field_validator("rows", "protocols")
    @classmethod
    def _named(cls, value: dict[str, Any]) -> dict[str, Any]:
        bad = [key for key in value if not NAME.match(key) or key == START]
        if bad or not value:
            what = f"got {bad[0]!r}" if bad else "got none"
            msg = f"want one or more keys of a-z, 0-9, - and _ (not '{START}', which is always there), {what}"
            raise ValueError(msg)
        return value

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value) or min(value) < 0:
            msg = f"want distinct seeds of 0 or more, got {list(value)}"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _known(self) -> Self:
        rows = {*self.rows, START}
        for key, protocol in self.protocols.items():
            for row in protocol.rows or ():
                _require(row, rows, f"protocols.{key}.rows")
        for contrast in self.contrasts:
            self._measured(contrast, rows)
        return self

    def _measured(self, contrast: Contrast, rows: set[str]) -> None:
        """Refuse a claim about rows, protocols or a probe that are not there."""
        where = f"contrast {contrast.name!r}"
        for row, protocol in contrast.sides(next(iter(self.protocols))):
            _require(row, rows, where)
            _require(protocol, set(self.protocols), where)
            asked = self.protocols[protocol].rows
            if contrast.measure not in PROBE_MEASURES and asked and row not in asked:
                msg = f"{where} compares rows that its protocol does not measure"
                raise ValueError(msg)
        if contrast.measure in PROBE_MEASURES and self.probe is None:
            msg = f"{where} measures {contrast.measure}, but there is no probe"
            raise ValueError(msg)


def _require(name: str, allowed: set[str], where: str) -> None:
    if name not in allowed:
        msg = f"{where} names {name!r}; allowed: {', '.join(sorted(allowed))}"
        raise ValueError(msg)
