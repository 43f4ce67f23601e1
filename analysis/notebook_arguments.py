"""What a notebook was started with: arguments after `--` in marimo, the environment in Jupyter.

Invariant: an argument comes before the environment; Jupyter passes none, so there only `SERA_STORE` names a store.
"""

from __future__ import annotations

import builtins
import os


def arguments() -> dict[str, str]:
    """Arguments by name; `store` falls back to the environment variable SERA_STORE."""
    import marimo

    given = {} if hasattr(builtins, "__IPYTHON__") else marimo.cli_args().to_dict()
    found = {key: str(value) for key, value in given.items()}
    if "store" not in found and os.environ.get("SERA_STORE"):
        found["store"] = os.environ["SERA_STORE"]
    return found
