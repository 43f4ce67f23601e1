"""A method's needs as settings of a collect phase.

Invariant: what a config says itself is never overruled; where it contradicts the method it is refused with both values.
Settings that the config leaves open are set to what the method needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from learn.needs import Needs
from sera_data.errors import ConfigError

if TYPE_CHECKING:
    from collect.config import CollectConfig

EXTERNAL = "SPEC"
"""Stands for the policy that the user has to name."""


def settings(needs: Needs) -> dict[str, Any]:
    """Settings of a collect phase by dotted name."""
    found: dict[str, Any] = {}
    if needs.agents == "single":
        found |= {"budgets.depth": 0, "delegation.mode": "plain"}
    if needs.rubrics:
        found["rubric.purposes"] = tuple(needs.rubrics)
    if needs.writer in ("global", "direct"):
        found["rubric.source"] = needs.writer
    if needs.writer == "external":
        found["policy.roles.writer"] = EXTERNAL
    if needs.scorer in ("external", "frozen"):
        found["policy.roles.scorer"] = EXTERNAL
    if needs.scorer_temperature is not None:
        found["sampling.scorer.temperature"] = needs.scorer_temperature
    if needs.k is not None:
        found["delegation.k"] = needs.k
    if needs.forks == "every_tree":
        found["delegation.fork_share"] = 1.0
    return found


def flags(needs: Needs) -> str:
    """The same as flags of `sera collect`."""
    return " ".join(f"--set {_spelled(name, value)}" for name, value in settings(needs).items()) or "its defaults"


def _spelled(name: str, value: Any) -> str:
    if name == "rubric.purposes":
        return f"rubric.for=[{','.join(value)}]"
    return f"{name}={value}"


def settle(needs: Needs, config: CollectConfig, *, start: Path, method: str) -> CollectConfig:
    """The config with what the method needs; `start` is the policy that a frozen scorer stays.

    Raises ConfigError for a setting that says otherwise, and for another policy that is needed and not named.
    """
    for name, value in settings(needs).items():
        wanted = str(start) if name == "policy.roles.scorer" and needs.scorer == "frozen" else value
        path = name.split(".")
        found, said = _look(config, path)
        if wanted == EXTERNAL:
            if found is None:
                msg = f"method {method!r} needs another {path[-1]} than the acting policy: {name} is not set"
                raise ConfigError(msg, hint=f"set collect.{name} to the policy that serves it")
            continue
        if name == "rubric.purposes" and said:
            _require_purposes(found, wanted, method)
        elif said and found != wanted:
            msg = f"method {method!r} needs {name}={wanted}, the config says {found}"
            raise ConfigError(msg, hint=f"leave collect.{name} out, or take another method; sera methods lists them")
        else:
            config = _with(config, path, wanted)
    return config


def _require_purposes(found: Any, wanted: Any, method: str) -> None:
    """More rubrics than needed do no harm."""
    missing = [purpose for purpose in wanted if purpose not in found]
    if missing:
        msg = f"method {method!r} needs rubrics in {missing[0]} groups, rubric.for says {', '.join(found) or 'none'}"
        raise ConfigError(msg, hint="leave collect.rubric.for out, or add the purpose")


def _look(config: Any, path: list[str]) -> tuple[Any, bool]:
    """The value at a path, and whether the config says it itself."""
    said = True
    for name in path:
        said = said and name in config.model_fields_set
        config = getattr(config, name)
    if path[:2] == ["policy", "roles"]:
        config = getattr(config, "model", config)  # a role with options of its own
    return config, said


def _with(config: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    inner = _with(getattr(config, head), rest, value) if rest else value
    return config.model_copy(update={head: inner})
