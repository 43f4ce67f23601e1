"""The schedule: which stage each update trains, as a pure function of the policy version.

Invariant: the only clock is the number of completed optimizer steps. Skipped batches, dropped groups and restarts do
not move it; asking twice for a version gives the same answer.

The text form is 'execution:16,delegation:2,rubric:2': stages in order, each with its number of updates per cycle. One
stage alone, such as 'rubric:1', is allowed (the paper's public code insists on an execution stage). Stages joined by +,
'execution+delegation+rubric:1', train together in every update, each with a loss of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import NoReturn, get_args

from schemas.words import STAGES, Stage
from sera_data.errors import ConfigError

DEFAULT = "execution:16,delegation:2,rubric:2"


@dataclass(frozen=True, slots=True)
class Position:
    """Where a version stands: its stage, the cycle, and the update within the stage's run in that cycle."""

    version: int
    stage: Stage
    cycle: int
    step_in_stage: int
    stage_steps: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Stages in order with their updates per cycle; `stage_at(v)` repeats the cycle without end.

    joint: every update trains all stages; the cycle is then one update long.
    """

    items: tuple[tuple[Stage, int], ...]
    joint: bool = False

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages in order."""
        return tuple(stage for stage, _ in self.items)

    @property
    def cycle_length(self) -> int:
        """Updates per cycle."""
        return 1 if self.joint else sum(steps for _, steps in self.items)

    def position(self, version: int) -> Position:
        """Position of the update that takes `version` to `version + 1`."""
        if version < 0:
            msg = f"a policy version is 0 or more, got {version}"
            raise ValueError(msg)
        cycle, offset = divmod(version, self.cycle_length)
        for stage, steps in self.items:
            if offset < steps:
                return Position(version, stage, cycle, offset, steps)
            offset -= steps
        msg = f"schedule {self} has no place for offset {offset}"
        raise AssertionError(msg)

    def stage_at(self, version: int) -> Stage:
        """Stage of the update that takes `version` to `version + 1`; the first of a joint one."""
        return self.position(version).stage

    def stages_at(self, version: int) -> tuple[Stage, ...]:
        """All stages of the update that takes `version` to `version + 1`: one, or those of a joint update."""
        return self.stages if self.joint else (self.stage_at(version),)

    def updates(self, version: int, n_updates: int) -> dict[Stage, int]:
        """How many of the updates `version .. version + n_updates - 1` train each stage; absent = none."""
        return dict(Counter(stage for v in range(version, version + n_updates) for stage in self.stages_at(v)))

    def deal(self, version: int, n_updates: int, groups_per_update: int) -> dict[Stage, int]:
        """Groups to collect for each stage at `version`, so that each of the next updates gets its groups."""
        return {stage: n * groups_per_update for stage, n in self.updates(version, n_updates).items()}

    def __str__(self) -> str:
        if self.joint:
            return "+".join(self.stages) + ":1"
        return ",".join(f"{stage}:{steps}" for stage, steps in self.items)


def parse_schedule(text: str) -> Schedule:
    """Read the text form; raises ConfigError that names the faulty part and what is allowed."""
    if "+" in text:
        return _parse_joint(text)
    items: list[tuple[Stage, int]] = []
    for part in text.split(","):
        name, _, steps = part.strip().partition(":")
        stage: Stage | None = next((s for s in get_args(Stage) if s == name.strip()), None)
        if stage is None:
            _refuse(text, f"unknown stage {name.strip()!r}; allowed: {', '.join(STAGES)}")
        if not re.fullmatch(r"[0-9]{1,6}", steps.strip()) or int(steps) == 0:
            _refuse(text, f"stage {stage!r} needs a whole number of updates above 0, below a million, got {steps!r}")
        if stage in (s for s, _ in items):
            _refuse(text, f"stage {stage!r} is named twice")
        items.append((stage, int(steps)))
    return Schedule(tuple(items))


def _parse_joint(text: str) -> Schedule:
    names, _, steps = text.partition(":")
    stages = parse_schedule(",".join(f"{name}:1" for name in names.split("+"))).stages
    if steps.strip() != "1":
        _refuse(text, f"stages joined by + train in every update, so ':1' must follow them, got {steps!r}")
    return Schedule(tuple((stage, 1) for stage in stages), joint=True)


def _refuse(text: str, fault: str) -> NoReturn:
    msg = f"schedule {text!r}: {fault}"
    raise ConfigError(msg, hint=f"write it like {DEFAULT!r}")
