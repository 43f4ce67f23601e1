"""Credited turns without token ids: what hosted models, scripts and imported texts said.

Invariant: they are refused by name before an update, never left out in silence; a stage that is not trained may hold
as many of them as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from learn.credit import ZERO, Credit
from learn.registered import query
from schemas.words import Stage
from sera_data.errors import StoreError


@dataclass(frozen=True, slots=True)
class Untrainable:
    """Turns of one policy in one role that a stage would train, and the first of them."""

    stage: str
    role: str
    policy: str
    n_turns: int
    n_groups: int
    first_turn: str

    def __str__(self) -> str:
        turns = "turn" if self.n_turns == 1 else "turns"
        groups = "group" if self.n_groups == 1 else "groups"
        return (
            f"stage {self.stage} credits {self.n_turns} {turns} in {self.n_groups} {groups} that {self.policy!r} spoke"
            f" as {self.role} without token ids, the first is {self.first_turn}"
        )


def untrainable(credit: Credit) -> list[Untrainable]:
    """All of them, by stage, role and policy."""
    rows = credit.connection.sql(query("untrainable"), params={"zero": ZERO}).fetchall()
    return [Untrainable(*row) for row in rows]


def require_trainable(credit: Credit, stages: Sequence[Stage]) -> None:
    """Refuse to train stages whose credited turns have no token ids; StoreError names who, where and what to do."""
    found = [one for one in untrainable(credit) if one.stage in stages]
    if found:
        msg = "; ".join(map(str, found)) + ": they have no log-probabilities and cannot be trained"
        others = sorted(set(stages) - {one.stage for one in found})
        train = f"train another stage (--stage {others[0]}), " if others else ""
        raise StoreError(
            msg, hint=f"{train}collect with a trained policy in that role, or leave these turns out with --where"
        )
