"""Which turns a recomputation still owes: those that match, less those that its run has and its open plans will give.

Invariant: the same settings choose the same turns whenever they are asked, so a repeated command adds only what was
sealed since, and what a plan that was sealed in part lacks. A unit is whole trees, in the order of the files, so that
what a node's turns share is computed once and a unit is read from few row groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from collect.addition import own_additions, sealed_epochs
from learn.behaviour import Sampler
from learn.logprobs_config import LogprobsConfig
from learn.registered import query
from learn.where import name_rows
from sera_data.damage import blaming
from sera_data.store import Store

COLUMNS = ("turn_id", "node_id", "tree_id", "group_id")
Unit = Mapping[str, Any]
ENDS = ("", chr(0x10FFFF))
"""Before and after every tree id."""


@dataclass(frozen=True, slots=True)
class Owed:
    """What is to be computed. units: by epoch, {unit_id, trees}; samplers: whose weights that takes."""

    turns: int
    tokens: int
    units: Mapping[int, list[dict[str, Any]]]
    samplers: tuple[Sampler, ...]


class Selection:
    """The sealed epochs of a run on one connection, which holds the table `owed` of what was last asked for."""

    def __init__(self, store: Store, config: LogprobsConfig) -> None:
        self.store, self.config = store, config
        self.sealed = store.sealed_names()
        self.epochs = sealed_epochs(store, config.epochs)
        queries = [query("logprobs_owed"), config.where or ""]
        self.connection = store.connect(view="sealed", epochs=self.epochs, queries=queries, files="own")
        self.column = _choose(self.connection, config.where)

    def __enter__(self) -> Selection:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def owed(self) -> Owed:
        """All that is owed beside the open plans of this run, in epochs without one; `samplers` are of all."""
        self._ask([])
        taken = {plan.epoch for plan in own_additions(self.store, self.config, "open")}
        trees: dict[int, list[tuple[str, int]]] = {}
        turns = tokens = 0
        with blaming(self.connection):
            rows = self.connection.execute(query("logprobs_trees")).fetchall()
            samplers = self.connection.execute(query("logprobs_policies")).fetchall()
        for epoch, tree, n_turns, n_tokens in rows:
            if epoch not in taken:
                trees.setdefault(epoch, []).append((tree, n_tokens))
                turns, tokens = turns + n_turns, tokens + n_tokens
        units = {epoch: _units(found, self.config.tokens_per_unit) for epoch, found in trees.items()}
        return Owed(turns, tokens, units, tuple(_sampler(*row) for row in samplers))

    def of_unit(self, unit: Unit) -> list[dict[str, Any]]:
        """The turns of a unit that are owed, and those whose tokens their prompts are made of: see the query."""
        trees = sorted(unit["trees"])
        ends = {"first": trees[0], "last": trees[-1]}
        self._ask(trees)
        with blaming(self.connection):
            return self.connection.sql(query("logprobs_turns"), params=ends).to_arrow_table().to_pylist()

    def configs(self) -> list[str]:
        """Configurations, as JSON, of the runs that sampled."""
        return [text for (text,) in self.connection.execute(query("logprobs_specs")).fetchall()]

    def _ask(self, trees: Sequence[str]) -> None:
        first, last = (trees[0], trees[-1]) if trees else ENDS
        values = {"epochs": self.epochs, "run_id": self.config.run_id, "column": self.column}
        with blaming(self.connection):
            self.connection.execute(
                query("logprobs_owed"), {**values, "first": first, "last": last, "trees": list(trees)}
            )


def _sampler(
    name: str,
    version: int,
    weights: str | None,
    epochs: list[int],
    roles: list[str],
    turns: int,
    tokens: int,
    first: str,
) -> Sampler:
    return Sampler(name, version, weights, tuple(epochs), tuple(roles), turns, tokens, first)


def _units(trees: Sequence[tuple[str, int]], most: int) -> list[dict[str, Any]]:
    """Consecutive trees with at most `most` tokens together, or one tree that has more."""
    parts: list[list[str]] = []
    held = 0
    for tree, tokens in trees:
        if not parts or held + tokens > most:
            parts.append([])
            held = 0
        parts[-1].append(tree)
        held += tokens
    return [{"unit_id": f"u{index:05d}", "trees": part} for index, part in enumerate(parts)]


def _choose(connection: duckdb.DuckDBPyConnection, where: str | None) -> str:
    """Make the table `chosen` of what a where text names, and return the column that it named; 'all' without one."""
    connection.execute("create temp table chosen (value varchar)")
    if where is None:
        return "all"
    example = "select turn_id from turns where role = 'act'"
    column = name_rows(connection, where, what="--where", columns=COLUMNS, example=example)
    connection.execute("insert into chosen select distinct columns(*)::varchar from where_part")
    connection.execute("drop table where_part")
    return column
