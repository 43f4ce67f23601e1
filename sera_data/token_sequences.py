"""Agents of a store as token sequences with labels: exactly the ids that the engine saw, nothing re-tokenised.

Invariant: turns that extend each other share one sequence; a completion is trained (label = its id) in exactly one and
only when its turn is ok, everything else has label -100, the value that losses ignore.

Run: ``token_rows(turns)`` with the act turns of one agent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

IGNORED = -100


@dataclass(slots=True)
class Sequence:
    """One training sequence: ids and labels of equal length; last_turn: the turn whose completion ends it."""

    input_ids: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    last_turn: str = ""

    def extend(self, ids: list[int], *, trained: bool) -> None:
        """Append ids, with themselves as labels or with none."""
        self.input_ids += ids
        self.labels += ids if trained else [IGNORED] * len(ids)


def token_rows(turns: list[dict[str, Any]]) -> list[Sequence]:
    """Sequences of one agent's act turns, in order of step; turns without ids give none."""
    sequences: list[Sequence] = []
    ends: dict[str, list[int]] = {}
    for turn in turns:
        if turn["prompt_ids"] is None or turn["completion_ids"] is None:
            continue
        base = turn["base_turn"]
        sequence = next((s for s in sequences if base is not None and s.last_turn == base), None)
        if sequence is None:
            sequence = Sequence()
            sequence.extend(list(ends.get(base, [])), trained=False)
            sequences.append(sequence)
        sequence.extend(turn["prompt_ids"], trained=False)
        sequence.extend(turn["completion_ids"], trained=turn["ok"])
        sequence.last_turn = turn["turn_id"]
        ends[turn["turn_id"]] = list(sequence.input_ids)
    return [s for s in sequences if any(label != IGNORED for label in s.labels)]
