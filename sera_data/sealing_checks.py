"""What a seal checks before it writes: keys, foreign keys, groups, branches, order stamps, the token rule, overlays.

Invariant: each check is one query in `checks/*.sql` that returns (id, fault) rows and returns none on sound data. It
reads `fresh.<table>` (the plan's shards) and `known.<table>` (fresh + what earlier seals hold of the plan's epoch,
of `tasks` and `evals` what they hold of any).
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from schemas import TABLES
from sera_data.damage import require_sound_files
from sera_data.duck import connect_empty, reach, select_table
from sera_data.errors import StoreError
from sera_data.layout import parse_plan_name
from sera_data.listing import Listing, Source, require_whole, seal_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from sera_data.plan import Plan
    from sera_data.store import Store

CHECKS = ("runs", "references", "groups", "nodes", "branches", "order_stamps", "token_rule", "logprobs")
OF_OVERLAYS = ("logprobs",)
"""Checks of an overlay, which would read all turns for nothing where the plan has no rows of it."""
ACROSS_EPOCHS = ("tasks", "evals")
"""Tables that are compared with all earlier seals; the ids of the others hold the epoch, so its own seals suffice."""
IN_MEMORY_BYTES = 32 * 2**20
"""Plans up to this size are read once, larger ones are read from their files by every check."""
SHOWN = 5


def checked_connection(store: Store, plan: Plan, sources: Sequence[Source]) -> duckdb.DuckDBPyConnection:
    """A connection with `fresh` and `known`, after every check passed; StoreError lists what did not."""
    seals = [seal_source(store, name) for name in store.sealed_names()]
    same_epoch = [seal for seal in seals if parse_plan_name(seal.name)[0] == plan.epoch]
    fresh = Listing(store.path, tuple(sources))
    before = {name: Listing(store.path, tuple(seals if name in ACROSS_EPOCHS else same_epoch)) for name in TABLES}
    require_whole(fresh)
    require_sound_files(fresh)  # a bit that fell over since the commit must not be sealed as if it were data
    require_whole(before["nodes"])
    kind = "table" if sum(fresh.bytes(name) for name in TABLES) <= IN_MEMORY_BYTES else "view"
    connection = connect_empty()
    reach(connection, Listing(store.path, (*sources, *seals)))
    connection.execute("create schema fresh; create schema earlier; create schema known")
    for name, table in TABLES.items():
        rows = select_table(table, fresh)
        connection.execute(f"create {kind} fresh.{name} as {_without_copies(rows) if name == 'tasks' else rows}")
        connection.execute(f"create view earlier.{name} as {select_table(table, before[name])}")
        connection.execute(f"create view known.{name} as from fresh.{name} union all from earlier.{name}")
    faults = _key_faults(connection)
    for check in CHECKS:
        if check in OF_OVERLAYS and not fresh.rows(check):
            continue
        sql = files("sera_data").joinpath("checks", f"{check}.sql").read_text(encoding="utf-8")
        faults += [f"{check}: {name}: {fault}" for name, fault in connection.sql(sql).fetchall()]
    faults += _place_faults(connection, plan)
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        msg = f"plan {plan.name} cannot be sealed: {'; '.join(faults[:SHOWN])}{more}"
        raise StoreError(msg, hint="the shards are kept as they are; the rows that break a rule come from their writer")
    return connection


def _without_copies(rows: str) -> str:
    """Identical task rows of several shards count once; different rows of one key stay and fail the key check."""
    others = ", ".join(f'"{c.name}"' for c in TABLES["tasks"].columns if c.name != "shard_id")
    return f"select distinct on ({others}) * from ({rows}) order by {others}, shard_id"


def _key_faults(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Keys that are twice in the plan, or were sealed before."""
    parts = []
    for name, table in TABLES.items():
        key = ", ".join(table.key)
        label = " || '/' || ".join(f"{part}::varchar" for part in table.key)
        start = f"select '{name}' as name, {label} as label, '({key})' as key"
        parts.append(f"{start}, 'is twice in the plan' as fault from fresh.{name} group by {key} having count(*) > 1")
        if name != "tasks":
            parts.append(f"{start}, 'was sealed before' from fresh.{name} semi join earlier.{name} using ({key})")
    rows = connection.sql(" union all ".join(parts) + " order by all").fetchall()
    return [f"keys: {name} {label}: the key {key} {fault}" for name, label, key, fault in rows]


def _place_faults(connection: duckdb.DuckDBPyConnection, plan: Plan) -> list[str]:
    """Rows of another epoch than the plan's."""
    parts = [f"select distinct '{name}' as name, shard_id, epoch from fresh.{name}" for name in TABLES]
    query = f"from ({' union all '.join(parts)}) where epoch <> {plan.epoch} order by all"
    return [f"epoch: shard {s}: {name} has epoch {e}" for name, s, e in connection.sql(query).fetchall()]
