"""The tree explorer: what is open, and the panels that show it.

Invariant: `answer` is all there is to a click: a request in, the panels that changed out; it asks the store by point
reads and keeps only names. An id that is not in the store is answered in words, never with a fault.
Run: ``Explorer(ExplorerStore(store)).answer({"open": "delegation:r1/t1d0"})``
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from analysis.explorer_delegation import delegation_panel
from analysis.explorer_list import list_panel
from analysis.explorer_node import node_panel
from analysis.explorer_store import FILTERS, ExplorerStore, Filter, tree_of
from analysis.explorer_tokens import Decode
from analysis.explorer_tree import tree_panel

WELCOME = (
    '<div class="welcome"><h3>Pick an entry on the left</h3><p>A delegation opens with its rubric and its '
    "branches side by side, a tree with its root. In the drawing the arrow keys walk and Enter opens.</p></div>"
)
NOTHING = (
    '<div class="welcome"><h3>Nothing to pick yet</h3><p>Trees appear here once <code>sera collect</code> has written '
    "its first work unit; open the notebook again then.</p></div>"
)

Panels = dict[str, str]


class Explorer:
    """One reader's place in a store."""

    def __init__(self, store: ExplorerStore, *, decode: Decode | None = None) -> None:
        self.store, self.decode = store, decode
        self.which: Filter = "worst" if store.counts["worst"] else "failed" if store.counts["failed"] else "all"
        self.epoch: int | None = None
        self.text, self.first = "", 0
        self.tree_id, self.top = "", ""

    def start(self) -> Panels:
        """The panels before anything was picked."""
        return {
            "list": self._list(),
            "tree": WELCOME if self.store.counts["trees"] else NOTHING,
            "detail": "",
            "selected": "",
        }

    def answer(self, request: Mapping[str, Any]) -> Panels:
        """Panels that a request changes.

        Requests: {"filter", "epoch", "text"} of the form, {"page": first entry}, or {"open": "node:ID"}; what can be
        opened is a node, a delegation, a turn (its node with its tokens) and `focus` (draw the tree from a node).
        """
        if "open" in request:
            what, _, place = str(request["open"]).partition(":")
            return self._open(what, place)
        if "page" in request:
            self.first = max(0, _whole(request["page"]) or 0)
        else:
            which = request.get("filter", self.which)
            self.which = which if which in FILTERS else self.which
            self.epoch, self.text = _whole(request.get("epoch")), str(request.get("text", "")).strip()
            self.first = 0
        return {"list": self._list()}

    def _list(self) -> str:
        if self.which == "worst":
            entries = self.store.delegations(epoch=self.epoch, text=self.text, first=self.first)
        else:
            entries = self.store.trees(self.which, epoch=self.epoch, text=self.text, first=self.first)
        return list_panel(
            entries, self.store.counts, which=self.which, epoch=self.epoch, text=self.text, first=self.first
        )

    def _open(self, what: str, place: str) -> Panels:
        tree_id = tree_of(place)
        panels: Panels = {"selected": f"{what}:{place}"}
        top = place if what == "focus" else self.top if tree_id == self.tree_id else tree_id
        if (tree_id, top) != (self.tree_id, self.top):
            root = self.store.tree(tree_id)
            if root is None:
                return {"detail": f'<p class="empty">No tree {escape(tree_id)} in this store.</p>', "selected": ""}
            self.tree_id, self.top = tree_id, top
            panels["tree"] = tree_panel(root, self.store.nodes(tree_id), self.store.launches(tree_id), top=top)
        if what == "delegation":
            panels["detail"] = self._delegation(place)
        else:
            node_id = place.partition("#")[0]
            panels["detail"] = self._node(node_id, wanted=place if what == "turn" else "")
            panels["selected"] = f"node:{node_id}"
        return panels

    def _delegation(self, delegation_id: str) -> str:
        delegation = self.store.delegation(delegation_id)
        if delegation is None:
            return f'<p class="empty">No delegation {escape(delegation_id)} in this store.</p>'
        launches = self.store.launches(tree_of(delegation_id))
        launch = next((row for row in launches if row["delegation_id"] == delegation_id), None)
        return delegation_panel(delegation, launch=launch)

    def _node(self, node_id: str, *, wanted: str) -> str:
        node = self.store.node(node_id)
        if node is None:
            return f'<p class="empty">No node {escape(node_id)} in this store.</p>'
        return node_panel(node, decode=self.decode, has_credit=self.store.has_credit, wanted=wanted)


def _whole(value: Any) -> int | None:
    text = str(value if value is not None else "")
    return int(text) if text.isdigit() else None
