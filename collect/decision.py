"""One decision of an agent, as typed data: act, delegate, finish, a cell of code, or invalid with the reason.

Invariant: a decision is validated once, where the text is parsed, and never parsed back from text; every launch
carries the character span of the text that asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from collect.world import Action

DecisionKind = Literal["act", "delegate", "finish", "cell", "invalid"]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch asked for: raw targets (the world checks them), context, half-open span in the completion's text."""

    targets: Any
    context: str | None
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True)
class Decision:
    """kind; for act: action; delegate: launches; finish: message; cell: cell (its code); invalid: reason.

    `action` is also set for delegate and finish (tool `delegate` / `finish` with plain arguments). An invalid reply
    that tried to delegate keeps its span in `launches`, so that the attempt is stored.
    """

    kind: DecisionKind
    action: Action | None = None
    launches: tuple[Launch, ...] = ()
    message: str | None = None
    reason: str | None = None
    cell: str | None = None
