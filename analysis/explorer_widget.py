"""The tree explorer as an anywidget: three panels of HTML, and the clicks that ask for others.

Invariant: the browser holds no data and computes nothing; it sends requests and shows what `Explorer.answer` made. A
request that fails shows its error in the right panel and leaves the rest as it was.
Run: ``explorer_widget.explorer_widget(explorer)`` as the value of a marimo or Jupyter cell.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from analysis.explorer_marks import fault
from sera_data.errors import SeraError

if TYPE_CHECKING:
    from analysis.explorer import Explorer

HERE = files("analysis")


class ExplorerWidget(anywidget.AnyWidget):
    """`request` comes from the browser, with a number that grows; the other traits go to it."""

    _esm = (HERE / "explorer.js").read_text(encoding="utf-8")
    _css = (HERE / "explorer.css").read_text(encoding="utf-8")
    request = traitlets.Dict().tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)
    list = traitlets.Unicode("").tag(sync=True)
    tree = traitlets.Unicode("").tag(sync=True)
    detail = traitlets.Unicode("").tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)


def explorer_widget(explorer: Explorer) -> ExplorerWidget:
    """A widget that shows the explorer."""
    widget = ExplorerWidget(**explorer.start())

    def on_request(change: dict[str, Any]) -> None:
        try:
            panels = explorer.answer(change["new"])
        except SeraError as error:  # a file that was lost while the app is open: say so, keep the app
            panels = {"detail": fault(str(error))}
        with widget.hold_sync():
            for name, value in panels.items():
                setattr(widget, name, value)
            widget.answered = int(change["new"].get("n", 0))

    widget.observe(on_request, names="request")
    return widget
