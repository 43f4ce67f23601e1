"""Behaviour policies: where the very weights lie that sampled what is stored.

Invariant: weights are known by their hash alone, as `runs.policies` recorded it; a directory of the right name or
version with other weights is never taken, and what is taken is hashed file by file before it is loaded. What is not at
hand is refused by name, with the places that were looked at.

Run: ``sera refresh logprobs STORE --policy behaviour``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect.model_argument import SHIPPED, split_argument
from collect.policy_directory import PolicyDirectory, is_policy_directory, read_policy_directory
from sera_data.errors import StoreError, UsageError
from sera_data.store import Store

BEHAVIOUR = "behaviour"
EXPORTS = ("policies/*", "*/policies/*")
"""Where a run's exports lie below its directory; those of a loop are in learn/policies."""
SHOWN = 6
LONGEST_NAME = 255
"""Of a file; longer texts, such as SQL, are no paths and are not asked for."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Weights that sampled owed turns: name and version of their policy, and what they sampled."""

    name: str
    version: int
    weights_sha256: str | None
    epochs: tuple[int, ...]
    roles: tuple[str, ...]
    n_turns: int
    n_tokens: int
    first_turn: str

    def __str__(self) -> str:
        weights = "weights that runs does not name" if self.weights_sha256 is None else self.weights_sha256[:12]
        turns, epochs = "turn" if self.n_turns == 1 else "turns", ", ".join(map(str, self.epochs))
        return (
            f"{self.name!r} version {self.version} ({weights}), which sampled {self.n_turns} {turns} as"
            f" {' and '.join(self.roles)} in epoch {epochs}, the first is {self.first_turn}"
        )


def find_weights(
    store: Store, samplers: Sequence[Sampler], *, places: Sequence[str], configs: Iterable[str]
) -> dict[str, PolicyDirectory]:
    """The policy directory of all samplers by the hash of their weights; StoreError names those that are not at hand.

    places: `behaviour` for the runs beside the store and what the stored `configs` (JSON) name, or directories: a
    policy, or a run with policies/ in it.
    """
    looked: dict[Path, PolicyDirectory] = {}
    for place in places:
        found = _known(store, configs) if place == BEHAVIOUR else _below(Path(place))
        looked |= {path: read_policy_directory(path, verify=False) for path in found}
    by_hash = {directory.weights_sha256: directory for directory in reversed(looked.values())}
    missing = [sampler for sampler in samplers if sampler.weights_sha256 not in by_hash]
    if missing:
        raise _refusal(missing, looked, places)
    wanted = {str(sampler.weights_sha256) for sampler in samplers}
    return {name: read_policy_directory(by_hash[name].path) for name in sorted(wanted)}


def _known(store: Store, configs: Iterable[str]) -> Iterator[Path]:
    """Policies beside the store, those that the configs of its runs name, and those that come with the package."""
    if isinstance(store.path, Path):
        yield from _exports(store.path.resolve().parent)
    for text in configs:
        yield from _named(json.loads(text))
    yield from SHIPPED.values()


def _named(value: Any) -> Iterator[Path]:
    """Policy directories that a text anywhere in a config names, as a path or as ENGINE:PATH."""
    parts: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _named(part)
    for text in (value, value.partition(":")[2]) if isinstance(value, str) else ():
        directory, _ = split_argument(text)
        if text and max(map(len, directory.parts), default=0) <= LONGEST_NAME and is_policy_directory(directory):
            yield directory


def _below(directory: Path) -> Iterator[Path]:
    """The directory itself where it is a policy, else the exports in it."""
    found = [directory] if is_policy_directory(directory) else list(_exports(directory))
    found += [path for path in sorted(directory.glob("*")) if not found and is_policy_directory(path)]
    if not found:
        msg = f"{directory} is neither a policy directory nor holds policies, as the directory of a run does"
        raise UsageError(msg, hint=f"give the one that sampled, or {BEHAVIOUR!r} to look for it beside the store")
    yield from found


def _exports(root: Path) -> Iterator[Path]:
    for pattern in EXPORTS:
        yield from (path for path in sorted(root.glob(pattern)) if is_policy_directory(path))


def _refusal(missing: Sequence[Sampler], looked: Mapping[Path, PolicyDirectory], places: Sequence[str]) -> StoreError:
    shown = "; ".join(map(str, missing[:SHOWN])) + (f"; and {len(missing) - SHOWN} more" if missing[SHOWN:] else "")
    there = [f"{path} (version {found.version}, {found.weights_sha256[:12]})" for path, found in looked.items()]
    more = f" and {len(there) - SHOWN} more" if there[SHOWN:] else ""
    msg = (
        f"the weights of {shown} are not at hand; looked at {', '.join(places)}, which has"
        f" {', '.join(there[:SHOWN]) or 'no policy'}{more}"
    )
    return StoreError(
        msg,
        hint="give the policy or the run's directory that holds them with --policy, or leave these turns out with"
        " --epoch or --where",
    )
