"""When an episode counts as a success, given what the world's program says of its work.

Invariant: one rule for nodes that are running and for nodes read back from a store.
"""

from __future__ import annotations

from collect.world import Verdict
from schemas.words import Outcome

LOOP_DECIDED = "verdict"


def counts_as_success(
    verdict: Verdict, *, outcome: Outcome, called_finish: bool, message: str | None, loop: str = "failure"
) -> bool:
    """Success needs an explicit finish with a message, or that the world ended in success while the agent worked.

    An outcome `finished` without a call of finish is such an end of the world. A loop is a failure, unless `loop` is
    'verdict': then the program's verdict alone decides.
    """
    if outcome == "loop":
        return verdict.success and loop == LOOP_DECIDED
    if outcome != "finished":
        return False
    return verdict.success and (not called_finish or bool((message or "").strip()))
