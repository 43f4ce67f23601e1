"""What the tree explorer asks of a store: lists over all trees, and everything about one.

Invariant: no table is loaded. A small row per tree and per delegation is made once by a query; a tree is opened by
point reads (sealed files are sorted by tree_id and record their range) into tables that hide the store's, so that the
store's own views answer for it.
Every statement is a file `sql/explorer_*.sql`; Python binds parameters.
Run: ``ExplorerStore(sd.open("examples/store")).trees("failed")``
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from analysis.explorer_listing import files_of_tree
from analysis.query import rows, statement
from schemas import TABLES
from sera_data.errors import UsageError

if TYPE_CHECKING:
    import duckdb

    from sera_data.store import Store

Filter = Literal["worst", "failed", "mixed", "loops", "infra", "all"]
FILTERS: tuple[Filter, ...] = get_args(Filter)
PAGE = 25
BY_TREE = ("tasks", "nodes", "turns", "rubrics", "branches", "labels", "scores")
"""Tables of which a tree needs its own rows only."""
KEPT = ("verdict_scopes", "scored")
"""Views that many others read: their rows for the open tree are computed once and kept."""
CREDIT_COLUMNS = ("turn_id", "stage", "token_start", "token_end", "reward", "baseline", "advantage", "trajectory_id")
RATIO_COLUMNS = ("turn_id", "ratios")

Row = dict[str, Any]


class ExplorerStore:
    """Queries on one listing of a store, with an optional credit file and an optional file of ratios."""

    def __init__(self, store: Store, *, credit: Path | None = None, ratios: Path | None = None) -> None:
        from sera_data.duck import VIEWS, connect, connect_tables, view_sql

        listing = store.listing()
        self.path = store.path
        self._store, self._listing = store, listing
        self._whole = connect(listing)
        self._tree = connect_tables(listing)
        script(self._tree, "explorer_one_tree")
        for name in VIEWS:
            self._tree.execute(f"create view {name} as {view_sql(name)}")
            if name in KEPT:  # the views that follow read the table of that name
                script(self._tree, f"explorer_keep_{name}")
        self.has_credit, self.has_ratios = credit is not None, ratios is not None
        _attach(self._tree, credit, name="credit", columns=CREDIT_COLUMNS)
        _attach(self._tree, ratios, name="ratios", columns=RATIO_COLUMNS)
        self._opened: str | None = None
        self._listed: Row = {}
        self._nodes: list[Row] = []
        self._launches: list[Row] = []
        for name in ("explorer_index_trees", "explorer_index_delegations"):
            rows(self._whole, name)
        self.counts: Row = rows(self._whole, "explorer_counts")[0]

    def trees(self, which: Filter, *, epoch: int | None = None, text: str = "", first: int = 0) -> list[Row]:
        """A page of trees; each row's `total` counts all that pass."""
        values = {"filter": which, "epoch": epoch, "text": text, "size": PAGE, "first": first}
        return rows(self._whole, "explorer_list_trees", **values)

    def delegations(self, *, epoch: int | None = None, text: str = "", first: int = 0) -> list[Row]:
        """A page of delegations with pairs, worst ranked first; `total` counts all that pass."""
        values = {"epoch": epoch, "text": text, "size": PAGE, "first": first}
        return rows(self._whole, "explorer_list_delegations", **values)

    def tree(self, tree_id: str) -> Row | None:
        """The listed row of a tree with its sister samples and the updates that consumed its group; None if unknown."""
        root = self._root(tree_id)
        if root is None:
            return None
        group = {name: root[name] for name in ("run_id", "epoch", "task_id")}
        updates = rows(self._whole, "explorer_updates", epoch=root["epoch"], task_id=root["task_id"])
        return root | {"samples": rows(self._whole, "explorer_samples", **group), "updates": updates}

    def nodes(self, tree_id: str) -> list[Row]:
        """Every node of a tree, parents before children."""
        self._open(tree_id)
        return self._nodes

    def launches(self, tree_id: str) -> list[Row]:
        """Every delegation of a tree."""
        self._open(tree_id)
        return self._launches

    def node(self, node_id: str) -> Row | None:
        """One node with `labels`, `turns`, `credit` and `ratios` (lists of rows); None if it is unknown."""
        found = self._ask("explorer_node", node_id, node_id=node_id)
        if not found:
            return None
        parts = {
            name: self._ask(f"explorer_{name}", node_id, node_id=node_id) for name in ("labels", "turns", "credit")
        }
        ratios = self._ask("explorer_ratios", node_id, node_id=node_id)
        return found[0] | parts | {"ratios": {row["turn_id"]: row["ratios"] for row in ratios}}

    def delegation(self, delegation_id: str) -> Row | None:
        """The `branches`, `rubrics` and `scores` of one delegation; None if there is none of that name."""
        parts = {
            name: self._ask(f"explorer_{name}", delegation_id, delegation_id=delegation_id)
            for name in ("branches", "rubrics", "scores")
        }
        return {"delegation_id": delegation_id, **parts} if parts["branches"] else None

    def tokenizer_hashes(self) -> list[str]:
        """Hashes of the tokenizers that the store's runs used, most used first."""
        return [row["sha256"] for row in rows(self._whole, "explorer_tokenizers")]

    def _ask(self, name: str, place: str, **values: Any) -> list[Row]:
        """Rows about the tree that `place` (an id of a tree, node or delegation) lies in; it is opened first."""
        self._open(tree_of(place))
        return rows(self._tree, name, **values)

    def _root(self, tree_id: str) -> Row | None:
        if tree_id != self._listed.get("tree_id"):
            found = rows(self._whole, "explorer_root", tree_id=tree_id)
            self._listed = found[0] if found else {}
        return self._listed or None

    def _open(self, tree_id: str) -> None:
        if tree_id == self._opened:
            return
        from sera_data.duck import RAW, select_table

        self._opened = None  # should a read fail half-way, the next one starts anew
        root = self._root(tree_id) or {"epoch": -1, "task_id": ""}
        files = files_of_tree(self._store, self._listing, tree_id=tree_id, epoch=root["epoch"])
        for name in BY_TREE:
            stored = f"stored_{RAW.get(name, name)}"
            self._tree.execute(f"create or replace view {stored} as {select_table(TABLES[name], files)}")
        script(self._tree, "explorer_open_tree", tree_id=tree_id, task_id=root["task_id"])
        self._nodes = rows(self._tree, "explorer_nodes")
        self._launches = rows(self._tree, "explorer_launches")
        self._opened = tree_id


def tree_of(place: str) -> str:
    """The tree of a node, delegation or turn id: `r1/t3d0b0` -> `r1`."""
    return place.partition("/")[0].partition("#")[0]


def script(con: duckdb.DuckDBPyConnection, name: str, **values: Any) -> None:
    """Run a file of several statements; each gets those values that it names."""
    import duckdb

    for part in duckdb.extract_statements(statement(name)):
        con.execute(part, {key: value for key, value in values.items() if key in part.named_parameters})


def _attach(con: duckdb.DuckDBPyConnection, path: Path | None, *, name: str, columns: tuple[str, ...]) -> None:
    """A view on a file of rows by turn, or an empty table when none is named."""
    if path is None:
        rows(con, f"explorer_no_{name}")
        return
    if path.suffix not in (".parquet", ".csv", ".json") or not path.is_file():
        msg = f"--{name} wants an existing .parquet, .csv or .json file, got {path}"
        raise UsageError(msg, hint="sera credit STORE --rows credit.parquet writes one" if name == "credit" else None)
    relation = _relation(con, path)
    missing = [column for column in columns if column not in relation.columns]
    if missing:
        msg = f"--{name} {path} lacks column {missing[0]!r}; it needs {', '.join(columns)}"
        raise UsageError(msg)
    relation.create_view(name)


def _relation(con: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyRelation:
    if path.suffix == ".parquet":
        return con.read_parquet(str(path))
    return con.read_csv(str(path)) if path.suffix == ".csv" else con.read_json(str(path))
