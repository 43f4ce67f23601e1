"""What a seal checks before it writes: keys, foreign keys, groups, branches, order stamps, the token rule.

Invariant: each check is one query in `checks/*.sql` that returns (id, fault) rows and returns none on sound data. It
reads `fresh.<table>` (the plan's shards) and `known.<table>` (fresh + everything sealed earlier).
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from schemas import TABLES
from sera_data.duck import connect_empty, select_table
from sera_data.errors import StoreError
from sera_data.layout import parse_plan_name
from sera_data.listing import Listing, Source, seal_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from sera_data.plan import Plan
    from sera_data.store import Store

CHECKS = ("runs", "references", "groups", "nodes", "branches", "order_stamps", "token_rule")
SHOWN = 5


def checked_connection(store: Store, plan: Plan, sources: Sequence[Source]) -> duckdb.DuckDBPyConnection:
    """A connection with `fresh` and `known`, after every check passed; StoreError lists what did not."""
    earlier = [seal_source(store, name) for name in store.sealed_names()]
    connection = connect_empty()
    connection.execute("create schema fresh; create schema earlier; create schema known")
    fresh, before = Listing(store.path, tuple(sources)), Listing(store.path, tuple(earlier))
    for name, table in TABLES.items():
        rows = select_table(table, fresh)
        connection.execute(f"create view fresh.{name} as {_without_copies(rows) if name == 'tasks' else rows}")
        connection.execute(f"create view earlier.{name} as {select_table(table, before)}")
        connection.execute(f"create view known.{name} as from fresh.{name} union all from earlier.{name}")
    faults = _key_faults(connection)
    for check in CHECKS:
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
    faults = []
    for name, table in TABLES.items():
        key = ", ".join(table.key)
        label = " || '/' || ".join(f"{part}::varchar" for part in table.key)
        twice = f"select {label} from fresh.{name} group by {key} having count(*) > 1 order by all"
        faults += [
            f"keys: {name} {row[0]}: the key ({key}) is twice in the plan" for row in connection.sql(twice).fetchall()
        ]
        if name == "tasks":
            continue
        again = f"select {label} from fresh.{name} semi join earlier.{name} using ({key}) order by all"
        faults += [
            f"keys: {name} {row[0]}: the key ({key}) was sealed before" for row in connection.sql(again).fetchall()
        ]
    return faults


def _place_faults(connection: duckdb.DuckDBPyConnection, plan: Plan) -> list[str]:
    """Rows of another epoch than the plan's."""
    epoch, _ = parse_plan_name(plan.name)
    faults = []
    for name in TABLES:
        query = f"select distinct shard_id, epoch from fresh.{name} where epoch <> {epoch} order by all"
        faults += [f"epoch: shard {s}: {name} has epoch {e}" for s, e in connection.sql(query).fetchall()]
    return faults
