"""`sera data describe`: the tables and views, what each column means, and what a store holds of them.

Invariant: it changes nothing; without a store it describes the schema of this release.

Run: ``sera data describe STORE --table turns``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sera_data.place import place
from sera_data.printing import print_json, print_table
from sera_data.store_argument import Json, open_path


def describe(
    store: Annotated[
        Path | None, typer.Argument(parser=place, metavar="[STORE]", help="Count its rows and bytes too.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only this table or view.")] = None,
    as_json: Json = False,
) -> None:
    """Print the tables and views, what each column means, and (with a store) rows and bytes.

    Example: sera data describe runs/demo/store --table turns
    """
    from schemas import SCHEMA_VERSION, TABLES
    from sera_data.catalogue import require_relation, table_facts, view_facts
    from sera_data.duck import VIEWS

    if table is not None and table not in TABLES:
        require_relation(table)
    listing = None if store is None else open_path(store).listing()
    tables = [table_facts(name, listing) for name in TABLES if table in (None, name)]
    views = view_facts([name for name in VIEWS if table in (None, name) and name != "tasks"], listing)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "tables": tables, "views": views})
        return
    print(f"schema {SCHEMA_VERSION}")
    if listing is not None and table is None:
        files, size = sum(t["files"] for t in tables), sum(t["bytes"] for t in tables)
        print(f"store {store}: {len(listing.sources)} directories, {files} files with rows, {size} bytes")
    for fact in tables:
        _print_table_facts(fact)
    for fact in views:
        counts = "" if listing is None else f" · {fact['rows']} rows"
        print(f"\nview {fact['view']}{counts}\n  {fact['doc']}\n")
        print_table(("column", "type", "meaning"), [[c["column"], c["type"], c["doc"]] for c in fact["columns"]])


def _print_table_facts(fact: dict[str, Any]) -> None:
    counts = f" · {fact['rows']} rows · {fact['bytes']} bytes · {fact['files']} files" if "rows" in fact else ""
    print(f"\n{fact['table']}{counts}\n  {fact['doc']}\n  key: {', '.join(fact['key'])}\n")
    print_table(
        ("column", "type", "null", "meaning"),
        [[c["column"], c["type"], "yes" if c["nullable"] else "", c["doc"]] for c in fact["columns"]],
    )
