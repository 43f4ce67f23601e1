"""A store as a Hugging Face dataset: its sealed directories as they are, and a card with one config per table.

Invariant: the folder is still a store. Every sealed file keeps its bytes, so its recorded hash holds after any journey,
and `datasets.load_dataset(FOLDER, "nodes")` reads it through the card's globs. Unsealed shards are never in it.

Run: ``sera data export STORE FOLDER --to hf``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from schemas import SCHEMA_VERSION, TABLES
from sera_data.errors import StoreError
from sera_data.layout import SEAL, shard_plan
from sera_data.listing import seal_source
from sera_data.queries import query

if TYPE_CHECKING:
    import polars as pl

    from sera_data.losses import Losses
    from sera_data.store import Store

CARD = "README.md"
DEFAULT = "nodes"
UNSEALED = "committed shards that no seal holds (sera data seal STORE seals complete plans)"


def write_folder(store: Store, path: Path, *, losses: Losses) -> dict[str, int]:
    """Copy a store's sealed part into a new folder and write its card; rows per table."""
    names = store.sealed_names()
    if not names:
        msg = f"store {store.path} has no sealed epoch to publish"
        raise StoreError(msg, hint=f"sera data seal {store.path}")
    losses.add(UNSEALED, n=sum(shard_plan(shard) not in set(names) for shard in store.shard_ids()))
    path.mkdir()
    for file in published_files(store):
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        with (store.path / file).open("rb") as source, (path / file).open("wb") as copy:
            shutil.copyfileobj(source, copy, 2**22)
    (path / CARD).write_text(card(store), encoding="utf-8")
    listing = store.listing(view="sealed")
    return {name: listing.rows(name) for name in TABLES}


def published_files(store: Store) -> list[str]:
    """Files that make the sealed part of a store, as relative POSIX paths, sorted."""
    layout, names = store.layout, store.sealed_names()
    found = [layout.store_file, *(layout.plan_file(name) for name in names)]
    for name in names:
        found += [layout.epochs / name / SEAL, *(path for _, path, _, _ in seal_source(store, name).files)]
    if layout.snapshots.is_dir():
        found += sorted(layout.snapshots.glob("*.json"))
    return sorted(str(file).removeprefix(f"{store.path}/") for file in found)


def card(store: Store, *, repo: str = "REPO") -> str:
    """The dataset card: configs for the loaders, then what is in it for people."""
    listing = store.listing(view="sealed")
    rows = {name: listing.rows(name) for name in TABLES}
    configs: list[dict[str, Any]] = [
        {
            "config_name": name,
            "data_files": f"epochs/*/{name}*.parquet",
            **({"default": True} if name == DEFAULT else {}),
        }
        for name in TABLES
        if rows[name]
    ]
    head = {"tags": ["agents", "trajectories", "reinforcement-learning", "sera-data"], "configs": configs}
    connection = store.connect(view="sealed")
    size = f"{rows['nodes']:,} agents in {_trees(connection)} trees"
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n",
        "# Trajectories of recursive agents\n",
        f"{size} with turns, delegations, rubrics, scores, labels; schema {SCHEMA_VERSION}. Configs are tables:\n",
        _table(["config", "rows", "holds"], [[name, f"{rows[name]:,}", _holds(name)] for name in TABLES]),
        _READING.replace("REPO", repo),
        "## What the trees are of\n",
        _frame(connection.sql(query("card_worlds")).pl()),
        "## Who wrote them\n",
        _frame(connection.sql(query("card_runs")).pl()),
        "## Columns\n",
        *(_columns(name) for name in TABLES if rows[name]),
    ]
    return "\n".join(parts) + "\n"


_READING = """
Tables with 0 rows have no config. The files are a store of the Python package `sera-data`: a download of this
repository can be verified, asked in SQL, audited and trained from.

```python
datasets.load_dataset("REPO", "nodes", split="train")
```

```
sera data pull REPO store && sera data sql store "from trees limit 5"
```
"""


def _trees(connection: Any) -> str:
    ((n,),) = connection.sql("from trees").aggregate("count(*)").fetchall()
    return f"{n:,}"


def _holds(name: str) -> str:
    return TABLES[name].doc.partition("\n")[0].partition("`: ")[2].rstrip(".")


def _columns(name: str) -> str:
    rows = [[c.name, str(c.type), c.doc] for c in TABLES[name].columns]
    return f"### {name}\n\n" + _table(["column", "type", "meaning"], rows)


def _frame(frame: pl.DataFrame) -> str:
    cells = [["" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in row] for row in frame.rows()]
    return _table(frame.columns, cells)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [
        head,
        ["---"] * len(head),
        *([cell.replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
