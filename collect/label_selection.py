"""Which votes are missing: stored nodes that match, less the votes they have or that an open plan will give.

Invariant: the same settings choose the same nodes whenever they are asked (a node's draw depends on seed and id only),
so a repeated command adds nothing; every node carries the probability with which it was chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from collect.addition import State, additions, given_units, sealed_epochs
from collect.label_config import LabelConfig
from collect.labels import Labeller
from collect.world import World
from collect.worlds import open_world
from sera_data.errors import UsageError
from sera_data.plan import Plan
from sera_data.store import Store

if TYPE_CHECKING:
    import duckdb

LAST_ATTEMPT = 127
Signature = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be labelled. matching: nodes under the filters; chosen: those drawn; units: by epoch, votes missing.

    A unit is what the plan stores: {unit_id, world, profile, source, version, use, inclusion_probability,
    votes: [[node_id, first attempt, number], ...]}.
    """

    matching: int
    chosen: int
    units: Mapping[int, list[dict[str, Any]]]

    @property
    def votes(self) -> int:
        """Votes to give."""
        return sum(count for units in self.units.values() for unit in units for _, _, count in unit["votes"])

    @property
    def nodes(self) -> int:
        """Nodes that get one."""
        return sum(len(unit["votes"]) for units in self.units.values() for unit in units)


def select(store: Store, config: LabelConfig, labeller: Labeller) -> Selection:
    """The votes that are missing now."""
    epochs = sealed_epochs(store, config.epochs)
    con = store.connect(queries=[query("label_pool"), query("label_votes"), config.where or ""])
    try:
        pool = _pool(con, config, epochs)
        chosen, probability = _draw(pool, config)
        have = _votes(con, labeller.kind, epochs)
    finally:
        con.close()
    for plan in label_plans(store, "open"):
        _add_planned(have, plan)
    signatures = _signatures(chosen, labeller)
    units: dict[int, list[dict[str, Any]]] = {}
    groups: dict[tuple[Any, ...], list[list[Any]]] = {}
    for node in chosen:
        place = (node["world"], node["profile"])
        missing = _missing(have, node["node_id"], signatures[place], config)
        if missing is not None:
            groups.setdefault((node["epoch"], *place), []).append([node["node_id"], *missing])
    for (epoch, world, profile), votes in groups.items():
        source, version = signatures[world, profile]
        about = {"world": world, "profile": profile, "source": source, "version": version, "use": config.use}
        into = units.setdefault(epoch, [])
        for start in range(0, len(votes), config.nodes_per_unit):
            part = votes[start : start + config.nodes_per_unit]
            unit = {"unit_id": f"u{len(into):04d}", **about, "inclusion_probability": probability, "votes": part}
            into.append(unit)
    return Selection(matching=len(pool), chosen=len(chosen), units=dict(sorted(units.items())))


def label_plans(store: Store, state: State, *, epoch: int | None = None) -> list[Plan]:
    """Plans of phase label, in order: `open` ones or `all`."""
    plans = (plan for plan in additions(store, epoch=epoch) if plan.phase == "label")
    return [plan for plan in plans if state == "all" or not plan.sealed()]


def planned_keys(plans: Iterable[Plan]) -> set[tuple[str, str, str, int]]:
    """(node, source, version, attempt) of every vote that these plans give; plans made by hand may name none."""
    return {
        (node, unit["source"], unit["version"], attempt)
        for plan in plans
        for unit in given_units(plan)
        for node, first, count in unit.get("votes", ())
        for attempt in range(first, first + count)
    }


@cache
def stored_world(name: str, profile: str) -> World[Any]:
    """The world that stored nodes were played in, opened once per process."""
    return open_world(name, profile=profile)


def query(name: str) -> str:
    """Text of `collect/sql/NAME.sql`."""
    return files("collect").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def _pool(con: duckdb.DuckDBPyConnection, config: LabelConfig, epochs: list[int]) -> list[dict[str, Any]]:
    import duckdb

    con.execute(
        query("label_pool"),
        {
            "seed": config.seed or 0,
            "epochs": epochs,
            "depths": None if config.depths is None else list(config.depths),
            "purposes": None if config.purposes is None else list(config.purposes),
            "verdict": "any" if config.only == "all" else "missing",
        },
    )
    pool = con.table("label_pool")
    if config.where is not None:
        try:
            pool = pool.filter(config.where)
            rows = pool.order("task_id, tree_id, node_id").fetchall()
        except duckdb.Error as error:
            msg = f"--where {config.where!r}: {' '.join(str(error).split())[:300]}"
            raise UsageError(msg, hint="a condition over nodes and their task, for example: depth > 0") from None
    else:
        rows = pool.order("task_id, tree_id, node_id").fetchall()
    columns = pool.columns
    wanted = ("node_id", "epoch", "world", "profile", "draw")
    places = [columns.index(name) for name in wanted]
    return [dict(zip(wanted, (row[place] for place in places), strict=True)) for row in rows]


def _draw(pool: list[dict[str, Any]], config: LabelConfig) -> tuple[list[dict[str, Any]], float]:
    """The nodes chosen of the pool, in its order, and the probability of each.

    With a cap the chosen are those with the lowest draws: a simple random sample, so that its share is exact.
    """
    chosen = [node for node in pool if node["draw"] < config.share]
    most = None if config.max_labels is None else config.max_labels // config.votes
    if most is None or len(chosen) <= most:
        return chosen, config.share
    limit = sorted(node["draw"] for node in chosen)[most]
    kept = [node for node in chosen if node["draw"] < limit]
    return kept, len(kept) / len(pool)


@dataclass(slots=True)
class _Votes:
    """Votes of one node under one signature: rows and valid ones by use, the next free attempt."""

    rows: dict[str, int]
    valid: dict[str, int]
    following: int = 0


def _votes(con: duckdb.DuckDBPyConnection, kind: str, epochs: list[int]) -> dict[tuple[str, Signature], _Votes]:
    found: dict[tuple[str, Signature], _Votes] = {}
    for node, source, version, use, rows, valid, attempt in con.execute(
        query("label_votes"), {"epochs": epochs, "kind": kind}
    ).fetchall():
        votes = found.setdefault((node, (source, version)), _Votes({}, {}))
        votes.rows[use], votes.valid[use] = rows, valid
        votes.following = max(votes.following, attempt + 1)
    return found


def _add_planned(have: dict[tuple[str, Signature], _Votes], plan: Plan) -> None:
    """Count the votes of an open plan's units that are not committed as there already."""
    committed = plan.committed()
    for unit in plan.units:
        if unit["unit_id"] in committed:
            continue
        for node, first, count in unit.get("votes", ()):
            votes = have.setdefault((node, (unit["source"], unit["version"])), _Votes({}, {}))
            for table in (votes.rows, votes.valid):
                table[unit["use"]] = table.get(unit["use"], 0) + count
            votes.following = max(votes.following, first + count)


def _missing(
    have: Mapping[tuple[str, Signature], _Votes], node: str, signature: Signature, config: LabelConfig
) -> tuple[int, int] | None:
    """First attempt and number of the votes that a node lacks; None when it lacks none."""
    votes = have.get((node, signature), _Votes({}, {}))
    counted = votes.rows if config.again == "none" else votes.valid
    count = config.votes - counted.get(config.use, 0)
    if count <= 0:
        return None
    if votes.following + count - 1 > LAST_ATTEMPT:
        msg = f"node {node} has {votes.following} votes of {signature[0]!r}; a label has attempts 0 to {LAST_ATTEMPT}"
        raise UsageError(msg)
    return votes.following, count


def _signatures(nodes: Iterable[Mapping[str, Any]], labeller: Labeller) -> dict[tuple[str, str], Signature]:
    places = sorted({(node["world"], node["profile"]) for node in nodes})
    return {place: labeller.signature(stored_world(*place)) for place in places}
