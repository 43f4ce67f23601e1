"""Lost trees: units of an evaluation that infrastructure errors struck are held back until the job has ended.

Invariant: a unit with a lost tree is committed only when few trees of the process were lost, so an engine that died
leaves nothing behind: the same command plays those tasks again. Too many losses stop the job at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from collect.dealing import WorkUnit
from collect.services import TreeResult
from collect.shard import InfrastructureError


class LostTrees:
    """Holds units back. `n_trees` is the number of trees of this process's part, committed ones included."""

    def __init__(self, n_trees: int, *, limit: float) -> None:
        self.n_trees = n_trees
        self.limit = limit
        self.lost = 0
        self.units: list[tuple[WorkUnit, list[TreeResult]]] = []

    def holds(self, unit: WorkUnit, results: list[TreeResult]) -> bool:
        """True when the unit lost a tree and is kept here; InfrastructureError when too many are lost."""
        lost = [result for result in results if result.root.outcome == "infra_error"]
        if not lost:
            return False
        self.lost += len(lost)
        self.units.append((unit, results))
        if self.lost > self.limit * self.n_trees:
            msg = (
                f"{self.lost} of {self.n_trees} trees ended in infrastructure errors"
                f" (infra_error_limit {self.limit:g}); the last one: {lost[-1].root.error}"
            )
            raise InfrastructureError(
                msg, hint="mend the policy's engine and run the same command: these tasks are played again"
            )
        return True

    def released(self) -> Sequence[tuple[WorkUnit, list[TreeResult]]]:
        """The units held back, to be committed with their errors."""
        return self.units
