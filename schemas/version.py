"""The version of the table schemas.

Invariant: within one major version columns are only added, and added columns are nullable; a rename
or a change of type is a new major version with a named loader for the old one (`sera data migrate`).
Readers refuse a store of a newer major version and say which release reads it.
1.1 added what a hosted policy costs: `turns.n_completion`, `turns.served_model`, `turns.cost`, `labels.cost`.
"""

SCHEMA_VERSION = "1.1"


def major(version: str) -> int:
    """Major number of a version string such as ``"1.0"``; raises ValueError for anything else."""
    head, _, tail = version.partition(".")
    if not head.isdigit() or not tail.isdigit():
        msg = f"schema version {version!r} is not of the form MAJOR.MINOR, for example {SCHEMA_VERSION!r}"
        raise ValueError(msg)
    return int(head)
