"""Log-probabilities computed again by the trainer: claim additions, compute unit by unit, commit each as a shard, seal.

Invariant: a unit is visible when all of it is there, so a run that was killed at any moment is continued by the same
command, alone or beside others. Token ids are those that are stored; the forward pass is the learner's own, in packed
micro-batches, by the weights that sampled. One unit and one set of weights are in memory, whatever the store holds.

Run: ``sera refresh logprobs STORE --policy behaviour``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sera_data
from collect.addition import claim_additions, owed_units, own_additions, seal_complete
from collect.job import Share
from collect.policy_directory import PolicyDirectory
from collect.progress_display import ProgressDisplay
from collect.shard import Provenance, runs_row
from learn.behaviour import BEHAVIOUR, find_weights
from learn.config import EngineConfig
from learn.forward import Forward
from learn.logprobs_config import LogprobsConfig
from learn.logprobs_selection import Owed, Selection
from learn.sequence import Trajectory, Turn, paths
from sera_data.canonical import sha256_json
from sera_data.plan import Plan
from sera_data.store import Store

ENGINE = "trainer"
COPIED = ("turn_id", "tree_id", "task_id", "policy", "policy_version", "weights_sha256", "temperature")
Row = dict[str, Any]


@dataclass(slots=True)
class Recomputed:
    """What one process did."""

    run_id: str
    plans: list[str] = field(default_factory=list)
    sealed: list[str] = field(default_factory=list)
    turns: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """Token ids with the turns that are asked for: (row of the turn, position of its completion's first token)."""

    ids: NDArray[np.int32]
    turns: tuple[tuple[Row, int], ...]


def recompute(
    store: Store,
    config: LogprobsConfig,
    *,
    places: Sequence[str] = (BEHAVIOUR,),
    part: Share | None = None,
    quiet: bool = False,
) -> Recomputed:
    """Compute what is owed under `config`; a stop keeps the committed units."""
    job = _Job(store, config, places, part or Share(), quiet=quiet)
    while job.look():
        pass
    return job.done


class _Job:
    def __init__(
        self, store: Store, config: LogprobsConfig, places: Sequence[str], part: Share, *, quiet: bool
    ) -> None:
        self.store, self.config, self.places, self.part, self.quiet = store, config, places, part, quiet
        self.done = Recomputed(config.run_id)
        self.loaded: tuple[str, Forward] | None = None
        self.directories: dict[str, PolicyDirectory] = {}

    def look(self) -> bool:
        """Finish what this run has begun, or else begin what it owes; True when more may be owed now."""
        with Selection(self.store, self.config) as selection:
            owed = selection.owed()
            if any(sampler.weights_sha256 not in self.directories for sampler in owed.samplers):
                configs = selection.configs()
                self.directories = find_weights(self.store, owed.samplers, places=self.places, configs=configs)
            own = own_additions(self.store, self.config, "open")
            begun = [plan for plan in own if plan.name not in self.done.plans]
            if not begun and self.store.sealed_names() != selection.sealed:
                return True  # another process ended meanwhile
            for plan in begun or self._claim(owed):
                self._finish(plan, selection)
            return bool(begun)

    def _claim(self, owed: Owed) -> list[Plan]:
        def sampled_by(epoch: int) -> str:
            return sha256_json(sorted({str(s.weights_sha256) for s in owed.samplers if epoch in s.epochs}))

        return claim_additions(self.store, owed.units, settings=self.config, phase="refresh", policy_hash=sampled_by)

    def _finish(self, plan: Plan, selection: Selection) -> None:
        """Compute what is missing of a plan and seal it when all its units are there."""
        self.done.plans.append(plan.name)
        units = owed_units(plan, self.part)
        label = f"logprobs {plan.name}"
        with ProgressDisplay(len(units), label=label, unit="units", quiet=self.quiet) as progress:
            for count, unit in enumerate(units, 1):
                started = datetime.now(UTC)
                rows = self._rows(selection.of_unit(unit))
                self._commit(plan, unit["unit_id"], rows, started)
                note = f"{self.done.turns:,} turns  {self.done.tokens:,} tokens"
                progress.advance(note)
                progress.line(count, note)
        if seal_complete(plan):
            self.done.sealed.append(plan.name)

    def _commit(self, plan: Plan, unit_id: str, rows: Sequence[tuple[Row, Row]], started: datetime) -> None:
        policies = {(turn["role"], turn["weights_sha256"]): turn for turn, _ in rows}
        served = [self._served(role, weights) for role, weights in sorted(policies)]
        provenance = Provenance(identity=self.config, phase="refresh", policies=served, started_at=started)
        with sera_data.ShardWriter(self.store, plan, unit_id) as writer:
            writer.add("runs", runs_row(provenance))
            writer.extend("logprobs", (row for _, row in rows))
            writer.commit()
        self.done.turns += len(rows)
        self.done.tokens += sum(row["n_tokens"] for _, row in rows)

    def _served(self, role: str, weights: str) -> Row:
        found = self.directories[weights].identity(engine=ENGINE)
        return {
            "role": role,
            "name": found.name,
            "weights_sha256": found.weights_sha256,
            "tokenizer_sha256": found.tokenizer_sha256,
            "template_sha256": found.template_sha256,
            "engine": found.engine,
            "version": found.version,
        }

    def _rows(self, turns: Sequence[Row]) -> list[tuple[Row, Row]]:
        """(turn, its row of `logprobs`) of what a unit owes, in order of the turns; the loaded weights come first."""
        held = self.loaded[0] if self.loaded else None
        groups: dict[tuple[str, float], list[Asked]] = {}
        for sequence in sequences(turns):
            for key, own in groupby(sorted(sequence.turns, key=_sampled_by), key=_sampled_by):
                groups.setdefault(key, []).append(Asked(sequence.ids, tuple(own)))
        found: list[tuple[Row, Row]] = []
        for (weights, temperature), group in sorted(groups.items(), key=lambda item: (item[0][0] != held, item[0])):
            found += self._of_group(weights, temperature, group)
        return sorted(found, key=lambda pair: str(pair[0]["turn_id"]))

    def _of_group(self, weights: str, temperature: float, group: Sequence[Asked]) -> list[tuple[Row, Row]]:
        forward = self._forward(weights, max(len(sequence.ids) for sequence in group))
        started = time.perf_counter()
        values = forward.logprobs([(s.ids, positions(s)) for s in group], temperature=temperature)
        seconds, ended = time.perf_counter() - started, datetime.now(UTC)
        total = sum(map(len, values))
        found = []
        for sequence, logprobs in zip(group, values, strict=True):
            sizes = [len(turn["completion_ids"]) for turn, _ in sequence.turns]
            parts = np.split(logprobs, np.cumsum(sizes)[:-1])
            for (turn, _), own in zip(sequence.turns, parts, strict=True):
                row = {name: turn[name] for name in COPIED}
                row |= {"engine": ENGINE, "dtype": self.config.dtype, "logprobs_mode": "processed_logprobs"}
                row |= {"logprobs": own.tolist(), "n_tokens": len(own)}
                row |= {"seconds": seconds * len(own) / total, "computed_at": ended}
                found.append((turn, row))
        return found

    def _forward(self, weights: str, longest: int) -> Forward:
        import torch

        config = self.config
        if self.loaded is None or self.loaded[0] != weights:
            torch.set_num_threads(config.threads)
            self.loaded = None  # before the next is loaded
            path = self.directories[weights].path
            self.loaded = (weights, Forward(path, dtype=config.dtype, device=config.device, share="auto"))
        forward = self.loaded[1]
        engine = EngineConfig(tokens_per_micro_batch=config.tokens_per_micro_batch)
        forward.budget = engine.budget(config.device, longest)
        return forward


def sequences(turns: Sequence[Row]) -> Iterator[Asked]:
    """Turns of nodes as sequences by the token rule; see `logprobs_turns.sql` for the rows, which come node by node."""
    for (node, kind), group in groupby(turns, key=lambda row: (row["node_id"], row["kind"])):
        rows = {row["turn_id"]: row for row in group}
        asked = Trajectory(node, kind, "", 0)
        for name, row in rows.items():
            if row["tree_id"] is not None:
                asked.spans[name].append((0, len(row["completion_ids"]), 0.0))
        for path, owned in paths([_turn(row) for row in rows.values()], asked):
            ids = [part for turn in path for part in (turn.prompt_ids, turn.completion_ids)]
            starts = np.cumsum([0, *map(len, ids)])[1::2]
            places = zip(path, starts.tolist(), strict=True)
            named = tuple((rows[turn.turn_id], start) for turn, start in places if turn.turn_id in owned)
            yield Asked(np.concatenate(ids), named)


def _sampled_by(asked: tuple[Row, int]) -> tuple[str, float]:
    """Weights and temperature, which one forward pass has in common."""
    return asked[0]["weights_sha256"], asked[0]["temperature"]


def positions(sequence: Asked) -> NDArray[np.int64]:
    """Where the asked tokens lie in a sequence, ascending."""
    return np.concatenate([start + np.arange(len(turn["completion_ids"])) for turn, start in sequence.turns])


def _turn(row: Mapping[str, Any]) -> Turn:
    prompt, completion = (np.asarray(row[name] or (), dtype=np.int32) for name in ("prompt_ids", "completion_ids"))
    none = np.empty(0, np.float32)  # what the engine said is not asked for
    return Turn(row["turn_id"], row["base_turn"], prompt, completion, none, row["policy_version"])
