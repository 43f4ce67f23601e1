"""Seeds of a tree: derived from names, so that runs with equal seeds draw the same whatever they are called.

Invariant: a seed depends on the run's seed, the policy version, the task, the sample, the node path (node id without
the tree id), the turn, the role, k and the attempt; on nothing else, above all not on the order of execution.
"""

from __future__ import annotations

from dataclasses import dataclass

from sera_data.canonical import derive_seed


@dataclass(frozen=True, slots=True)
class Seeds:
    """Names shared by all seeds of a tree."""

    run_seed: int
    policy_version: int
    task_id: str
    sample: int
    tree_id: str

    def of(self, item_id: str, *, role: str, turn: int = 0, k: int = 0, attempt: int = 0) -> int:
        """Seed of one completion, node or draw; `item_id` is the id of a node or delegation of the tree."""
        path = item_id.removeprefix(self.tree_id)
        return derive_seed(self.run_seed, self.policy_version, self.task_id, self.sample, path, turn, role, k, attempt)
