"""Which replica a task goes to.

Invariant: all requests of one task go to one replica, so that its trees and branches find their prefixes in that
replica's cache; every process chooses alike. A replica that failed passes its tasks on and keeps those of no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def ranked(group: str, replicas: Sequence[str]) -> list[str]:
    """Replicas in the order in which a group prefers them (highest random weight)."""
    return sorted(replicas, key=lambda name: hashlib.sha256(f"{group}\n{name}".encode()).digest())


class Replicas:
    """Chooses among replicas by name; those that failed are left out until all have."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._failed: set[str] = set()

    def of(self, group: str) -> str:
        """The replica of a group."""
        return next(name for name in ranked(group, self.names) if name not in self._failed)

    def failed(self, name: str) -> None:
        """Send its groups elsewhere; when none is left all are tried again."""
        self._failed.add(name)
        if len(self._failed) == len(self.names):
            self._failed.clear()
