"""A comparison on paper: Markdown, the terminal, one self-contained HTML page, and its curves.

Invariant: all show the same tables (`learn.comparison_table`); the page loads nothing and escapes every text.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from learn.comparison_table import SPENT_TITLES, Table, markdown, tables
from sera_data.output import write_output

ABOUT = (
    "Success in percent on tasks of worlds that no training used. Differences are in points; intervals are 95 % of a"
    " bootstrap over training seeds and tasks, drawn independently and paired by task. p is two-sided, corrected by"
    " Holm over all claims. 'at n' counts a task as solved when any of its n samples is."
)
AXES = {**SPENT_TITLES, "updates_before": "updates before the epoch was played"}
SHOWN = ("updates_before", "labels", "tokens", "turns", "minutes")


def write_report(body: dict[str, Any], out: Path) -> Path:
    """Write `compare.md` and `compare.html` below `out`; returns the page's path."""
    found = tables(body)
    note = missing(body)
    text = f"# {body['name']}\n\n{ABOUT}\n\n{note}{markdown(found)}"
    write_output(out / "compare.md", text)
    write_output(out / "compare.html", page(body, found))
    return out / "compare.html"


def missing(body: dict[str, Any]) -> str:
    """A sentence about what is not there yet, or nothing."""
    wanted = len(body["seeds"])
    fewer = []
    for row in body["rows"]:
        n = max((f["n_seeds"] for f in row["success"].values() if f), default=0)
        if n < wanted and row["row"] != "start":
            fewer.append(f"{row['title']} {n}")
    return f"Partial: {wanted} seeds are planned; done are {', '.join(fewer)}.\n\n" if fewer else ""


def print_tables(body: dict[str, Any]) -> None:
    """The tables on the terminal."""
    from rich.console import Console
    from rich.markup import escape as plain
    from rich.table import Table as RichTable

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    for title, heads, rows in tables(body):
        made = RichTable(*map(plain, heads), title=title, title_justify="left")
        for row in rows:
            made.add_row(*map(plain, row))
        console.print(made)
    if note := missing(body):
        console.print(note.strip())


def page(body: dict[str, Any], found: list[Table]) -> str:
    """The whole page."""
    style = files("collect").joinpath("eval_page.css").read_text(encoding="utf-8")
    name, note = escape(body["name"]), escape(missing(body))
    parts = [_table(table) for table in found] + _curves(body["curves"])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Comparison: {name}</title>\n<style>\n{style}svg{{max-width:100%;height:auto}}</style>\n</head>\n"
        f'<body>\n<main>\n<h1>{name}</h1>\n<p class="quiet">{escape(ABOUT)}</p>\n<p class="lead">{note}</p>\n'
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    title, heads, rows = table
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>\n" for row in rows)
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{lines}</tbody></table></div>\n</section>"
    )


def _curves(curves: list[dict[str, Any]]) -> list[str]:
    if not curves:
        return []
    words = "Success of each collect epoch on its own training tasks, mean of the seeds, against what was spent."
    figures = "\n".join(f"<figure>{curve_svg(curves, axis)}</figure>" for axis in SHOWN)
    return [f"<section>\n<h2>Curves</h2>\n<p>{words}</p>\n{figures}\n</section>"]


def curve_svg(curves: list[dict[str, Any]], axis: str) -> str:
    """One chart: mean success of a row's seeds at each epoch against `axis`, as SVG text."""
    import altair as alt
    import vl_convert

    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for point in curves:
        if point["success"] is not None:
            groups.setdefault((point["row"], point["epoch"]), []).append(point)
    values = [
        {
            "row": row,
            "spent": sum(float(p[axis]) for p in points) / len(points),
            "success": sum(p["success"] for p in points) / len(points),
        }
        for (row, _), points in sorted(groups.items())
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_line(point=True)
        .encode(
            x=alt.X("spent:Q", title=AXES[axis]),
            y=alt.Y("success:Q", title="success, training tasks", scale=alt.Scale(zero=False)),
            color=alt.Color("row:N", title=None),
        )
        .properties(width=460, height=220)
    )
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return svg
