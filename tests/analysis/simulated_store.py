"""Calibrated scored branches in any number, made by DuckDB, with one fault planted or none.

Use: ``connection(tasks=60, seed=3, plant="leak")`` for the audit's tables in memory, ``sealed_store(path, ...)`` for a
store of sealed directories, which holds the same rows.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

import sera_data as sd
from schemas import SCHEMA_VERSION, TABLES
from sera_data.canonical import canonical_json
from sera_data.duck import RAW, connect, connect_empty, duckdb_type
from sera_data.listing import Listing
from sera_data.medium import Staging
from sera_data.sealing import write_table

SQL = (Path(__file__).parent / "simulated_store.sql").read_text(encoding="utf-8")
TURNS = (Path(__file__).parent / "simulated_turns.sql").read_text(encoding="utf-8")
MADE = ("tasks", "nodes", "branches", "rubrics", "labels", "scores")
PLANTS = (
    "late rubric", "ties", "inflation", "timid", "lottery", "easy tasks", "slice", "drift", "coin judge",
    "constant item", "leak", "length",
)  # fmt: skip


def simulate(con: duckdb.DuckDBPyConnection, *, tasks, epochs, launches, seed, plant) -> None:
    """Tables sim_* of `tasks` x `epochs` trees with `launches` delegations of 8 branches each."""
    values = {"tasks": tasks, "epochs": epochs, "launches": launches, "seed": seed, "plant": plant or "none"}
    for statement in duckdb.extract_statements(SQL):
        con.execute(statement, {k: v for k, v in values.items() if k in statement.named_parameters})


def connection(*, tasks=60, epochs=2, launches=4, seed=0, plant=None) -> duckdb.DuckDBPyConnection:
    """All views of an empty store, over simulated tables in place of the files."""
    con = connect(Listing(Path("nowhere")))
    simulate(con, tasks=tasks, epochs=epochs, launches=launches, seed=seed, plant=plant)
    for name in MADE:
        con.execute(f"create or replace view {RAW.get(name, name)} as {_completed(con, name)}")
    return con


def sealed_store(path: Path, *, tasks=60, epochs=2, launches=4, seed=0, plant=None, turns=0) -> sd.Store:
    """A store whose epochs are sealed directories as `sera data seal` writes them, without shards behind them.

    With `turns`, every node has that many turns with tokens.
    """
    store = sd.create(path)
    con = connect_empty()
    simulate(con, tasks=tasks, epochs=epochs, launches=launches, seed=seed, plant=plant)
    made = MADE
    if turns:
        con.execute(TURNS, {"turns": turns})
        made = (*MADE, "turns")
    con.execute("create schema fresh")
    for epoch in range(epochs):
        for name, table in TABLES.items():
            rows = f"({_completed(con, name)}) where epoch = {epoch}" if name in made else f"({_no_rows(table)})"
            con.execute(f"create or replace view fresh.{name} as select * from {rows}")
        directory = store.layout.epochs / f"e{epoch:06d}"
        directory.mkdir()
        tables = {name: write_table(con, table, Staging(directory)) for name, table in TABLES.items()}
        body = {
            "name": directory.name, "epoch": epoch, "addition": None, "run_id": "sim-0", "phase": "collect",
            "policy_hash": "b" * 64, "config_hash": "c" * 64, "schema_version": SCHEMA_VERSION, "shards": [],
            "commits": {}, "partial": False, "missing": [], "tables": tables, "content_hash": "0" * 64,
            "sealed_at": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        (directory / "seal.json").write_bytes(canonical_json(body).encode())
    con.close()
    return store


def _completed(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Every column of the schema, in order: the simulated one, else null, else an empty value of its type."""
    have = {row[0] for row in con.execute(f"describe sim_{name}").fetchall()}
    return f"select {', '.join(_column(c, have) for c in TABLES[name].columns)} from sim_{name}"


def _column(column, have: set[str]) -> str:
    kind = duckdb_type(column.type)
    empty = (
        "null" if column.nullable else {"VARCHAR": "''", "BOOLEAN": "false"}.get(kind, "[]" if "[]" in kind else "0")
    )
    value = f'coalesce("{column.name}", {empty})' if column.name in have else empty
    return f'({value})::{kind} as "{column.name}"'


def _no_rows(table) -> str:
    return f"select {', '.join(_column(c, set()) for c in table.columns)} where false"
