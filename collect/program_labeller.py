"""The labeller `program`: the world's own verdict, computed again from the stored states.

Invariant: it says exactly what collecting says, by the same rule: an explicit finish with a message, and the world's
verdict on the node's own state change. A goal that the world cannot check is an invalid label with that reason.

Run: ``sera label STORE --labeller program`` after the world's checker got a new version, or for nodes without labels.
"""

from __future__ import annotations

from typing import Any

from collect.asking import InfrastructureFault
from collect.context import in_world
from collect.judge_config import JudgeSettings
from collect.labels import Opinion
from collect.subject import Subject
from collect.success import counts_as_success
from collect.workload import label_details
from collect.world import World
from schemas.words import LabelKind
from sera_data.errors import UsageError


class ProgramLabeller:
    """Verdicts of the worlds' programs."""

    kind: LabelKind = "program"
    concurrency = 1

    def signature(self, world: World[Any]) -> tuple[str, str]:
        """Name of the world and version of its checker, as in labels made while collecting."""
        return world.name, world.version

    async def label(self, subject: Subject, *, attempt: int) -> Opinion:
        """The world's verdict on a stored node."""
        world = subject.world
        try:
            verdict = in_world(
                lambda: world.verdict(subject.start, subject.end, subject.targets, changes=subject.changes)
            )
        except InfrastructureFault as fault:
            return Opinion(value=None, error=str(fault))
        if verdict is None:
            return Opinion(value=None, error="the world cannot check this goal")
        success = counts_as_success(
            verdict,
            outcome=subject.outcome,
            called_finish=subject.called_finish,
            message=subject.message,
            loop=subject.loop,
        )
        details = label_details(world, verdict, start=subject.start, targets=subject.targets)
        return Opinion(value=float(success), details=details)

    async def close(self) -> None:
        """Nothing to free."""


def open_program(argument: str, *, settings: JudgeSettings) -> ProgramLabeller:
    """`program`; it takes no argument."""
    if argument:
        msg = f"the labeller 'program' takes no argument, got {argument!r}"
        raise UsageError(msg)
    return ProgramLabeller()
