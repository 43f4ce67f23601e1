"""A store on disk or in object storage: open or create it, list what is committed, read its tables.

Invariant: reading never changes anything. A view is made from one listing (`epochs/` first, then `shards/`) into
explicit file lists, so all tables of one view show the same moment and a half-written shard is never in it.

Run: ``import sera_data as sd; s = sd.open(path); s.nodes.pl(); s.sql("select count(*) from turns").fetchall()``
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from schemas import SCHEMA_VERSION, TABLES
from sera_data.documents import dump_document, read_document, require_shape
from sera_data.errors import StoreError
from sera_data.layout import COMMIT, FORMAT_VERSION, SEAL, Layout
from sera_data.medium import medium
from sera_data.place import Place, place
from sera_data.version import require_readable

if TYPE_CHECKING:
    import duckdb

    from sera_data.listing import Listing
    from sera_data.readers import TableView

View = Literal["live", "sealed"]
RETAINED_CONNECTIONS = 8


class Store:
    """An open store. Every table is an attribute: `store.nodes.pl()`, `store.turns.arrow()`."""

    def __init__(self, path: Place) -> None:
        self.path = path
        self.layout = Layout(path)
        self.medium = medium(self.layout)
        self.seal_document = cache(self._seal_document)
        self.commit_document = cache(self._commit_document)
        self._connections: list[tuple[Listing, duckdb.DuckDBPyConnection, set[str]]] = []

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    @cached_property
    def store_id(self) -> str:
        """Random id given at creation; a snapshot names the store by it, so that the store can be moved."""
        return str(read_document(self.layout.store_file, kind="store file", hint="")["store_id"])

    def __getattr__(self, name: str) -> TableView:
        if name in TABLES:
            return self.table(name)
        msg = f"Store has no attribute {name!r}; tables: {', '.join(TABLES)}"
        raise AttributeError(msg)

    def table(
        self, name: str, *, view: View = "live", snapshot: str | None = None, epochs: Sequence[int] | None = None
    ) -> TableView:
        """One table of one view, with `.pl()`, `.arrow()`, `.dataset()`, `.hf()` and `.files`."""
        from sera_data.readers import TableView

        if name not in TABLES:
            msg = f"no table {name!r}; allowed: {', '.join(TABLES)}"
            raise StoreError(msg)
        return TableView(TABLES[name], self.listing(view=view, snapshot=snapshot, epochs=epochs))

    def listing(
        self, *, view: View = "live", snapshot: str | None = None, epochs: Sequence[int] | None = None
    ) -> Listing:
        """The files of one view at this moment."""
        from sera_data.listing import list_files

        return list_files(self, view=view, snapshot=snapshot, epochs=epochs)

    def connect(
        self,
        *,
        view: View = "live",
        snapshot: str | None = None,
        epochs: Sequence[int] | None = None,
        files: Literal["any", "own"] = "any",
        held_out: float | None = None,
        queries: Sequence[str] | None = None,
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with the tables and the derived views of one view of the store.

        With `files="own"` its queries can read this view's files and no other file of the machine. `held_out`: only the
        tasks that this share holds out of training (learn's `hold_out`). `queries`: what will be asked, which connects
        faster: only the derived views that it may read are there.
        """
        from sera_data.duck import confine, connect

        listing = self.listing(view=view, snapshot=snapshot, epochs=epochs)
        connection = connect(listing, held_out=held_out, queries=queries)
        if files == "own":
            confine(connection, listing)
        return connection

    def sql(self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation over the live view: use `.pl()`, `.fetchall()` or `.to_arrow_table()` on it, once."""
        import duckdb

        from sera_data.duck import VIEWS, add_views, connect_tables

        listing = self.listing()
        if not self._connections or self._connections[-1][0] != listing:
            self._connections.append((listing, connect_tables(listing), set()))
            del self._connections[:-RETAINED_CONNECTIONS]  # older relations keep working for a while
        _, connection, made = self._connections[-1]
        add_views(connection, query, made)
        try:
            return connection.sql(query, params=params)
        except duckdb.CatalogException:
            if len(made) == len(VIEWS):
                raise
            # a view behind a name that the words do not show, or a slip: then DuckDB's hint should know every name
            add_views(connection, "show", made)
            return connection.sql(query, params=params)

    def sealed_names(self) -> list[str]:
        """Names of the sealed directories, sorted."""
        return self.medium.names(self.layout.epochs)

    def shard_ids(self) -> list[str]:
        """Ids of the committed shards that are still in `shards/`, sealed or not, sorted."""
        return self.medium.names(self.layout.shards)

    def _seal_document(self, name: str) -> dict[str, Any]:
        path = self.layout.epochs / name / SEAL
        body = read_document(path, kind="seal", hint="restore the sealed directory from a copy")
        require_readable(body.get("schema_version"), what="schema version", path=path)
        return require_shape(body, path, kind="seal")

    def _commit_document(self, shard_id: str) -> dict[str, Any]:
        path = self.layout.shards / shard_id / COMMIT
        body = read_document(
            path, kind="commit", hint="restore the shard, or remove its directory and collect it again"
        )
        require_readable(body.get("schema_version"), what="schema version", path=path)
        return require_shape(body, path, kind="commit")


def open_store(path: str | Place) -> Store:
    """Open an existing store, in a directory or under `s3://`; StoreError when there is none or it is too new."""
    store = Store(_readable_name(place(path)))
    file = store.layout.store_file
    if not file.exists():
        missing = "is not a store (it has no store.json)" if store.path.exists() else "does not exist"
        msg = f"store {store.path} {missing}"
        raise StoreError(msg, hint="sera demo makes one, or name the directory that holds store.json")
    body = read_document(file, kind="store file", hint="")
    require_readable(body.get("format_version"), current=FORMAT_VERSION, what="format version", path=file)
    require_readable(body.get("schema_version"), what="schema version", path=file)
    require_shape(body, file, kind="store file")
    _require_directories(store)
    return store


def _require_directories(store: Store) -> None:
    """On disk, all are there; object storage has none."""
    for directory in store.layout.directories():
        if not isinstance(directory, Path) or directory.is_dir():
            continue
        if directory == store.layout.epochs:
            msg = f"store {store.path} lacks its directory {directory.name}/"
            raise StoreError(msg, hint=f"restore it from a copy, or make it if it was empty: mkdir {directory}")
        _restore_empty(directory)


def _readable_name(path: Place) -> Place:
    """The path, if its name is text: no reader of Parquet opens one that is not."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        msg = f"the path of a store must be UTF-8, got {os.fsencode(str(path))!r}"
        raise StoreError(msg, hint="rename the directory, or name it through a link") from None
    return path


def _restore_empty(directory: Path) -> None:
    """Make a directory that git or an object store dropped because it was empty; harmless where nothing is written."""
    with contextlib.suppress(OSError):
        directory.mkdir(exist_ok=True)


def create_store(path: str | Place) -> Store:
    """Create a store, or open the one that is there. `store.json` is written last."""
    store = Store(_readable_name(place(path)))
    if not store.layout.store_file.exists():
        store.medium.prepare()
        body = {
            "format_version": FORMAT_VERSION,
            "schema_version": SCHEMA_VERSION,
            "store_id": uuid.uuid4().hex,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        store.medium.publish_file(store.layout.store_file, dump_document(body))
    return open_store(path)
