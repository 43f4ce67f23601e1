"""The switches of the shipped credit rules: which parameters take words, and which words.

Invariant: a word that a rule does not know is refused before any SQL runs, because a comparison with it would only be
false everywhere and pay nobody without a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import yaml

from sera_data.errors import ConfigError

RULES = Path(__file__).parent / "rules"
CREDITS = Path(__file__).parent / "credits"


@cache
def switches() -> dict[str, dict[str, list[str]]]:
    """Allowed words by rule and parameter; an empty list: any text."""
    found: dict[str, dict[str, list[str]]] = yaml.safe_load(
        files("learn").joinpath("rules", "switches.yaml").read_text(encoding="utf-8")
    )
    return found


def check_switches(path: Path, params: Mapping[str, float | str]) -> None:
    """Refuse wrong values for the parameters of a shipped rule; a user's own rule may take anything."""
    if path.parent != CREDITS or path.stem not in switches():
        return
    known = switches()[path.stem]
    for name, value in params.items():
        words = known.get(name)
        if words and value not in words:
            msg = f"{name}={value!r} of credit rule {path.stem!r}: allowed are {', '.join(words)}"
            raise ConfigError(msg, hint=f"what they do is said at the head of {path}")
        if words is None and isinstance(value, str) and name in _numbers(path):
            msg = f"{name}={value!r} of credit rule {path.stem!r}: a number is wanted"
            raise ConfigError(msg)


@cache
def _numbers(path: Path) -> frozenset[str]:
    """Parameters of a shipped rule that take numbers."""
    reference = yaml.safe_load((RULES / "reference.yaml").read_text(encoding="utf-8"))
    return frozenset(name for name, value in reference["credits"][path.stem].items() if not isinstance(value, str))
