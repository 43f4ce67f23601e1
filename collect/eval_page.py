"""A report of evaluations on paper: Markdown, the terminal, and one self-contained HTML page.

Invariant: all three show the same tables (`collect.eval_tables`); the page loads nothing from anywhere, works in light
and dark, and escapes every text that came out of a store. Files appear whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from collect.eval_tables import Section, Table, overview, sections
from sera_data.output import write_output

TITLE = "Evaluations"
FILE_WIDTH = 140
"""Characters of a line where the output is no terminal."""
ABOUT = (
    "Success leaves out trees that were lost to infrastructure; 'errors as failures' counts them, as published tables"
    " do. Intervals are Wilson's for trees, a bootstrap over tasks, and Student's t over seeds."
)


def write(path: Path, text: str) -> None:
    """Write a file; a reader never sees half of it."""
    write_output(path, text)


def markdown(body: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    parts = [f"# {TITLE}", ABOUT, _markdown_table(overview(body))]
    for section in sections(body):
        parts += [f"## {_cell(section.title)}", f"**{_cell(section.lead)}**"]
        parts += ["\n".join(f"* {_cell(words)}" for words in section.words)]
        for table in section.tables:
            parts += [f"### {table.title}", _markdown_table(table), *map(_cell, table.notes)]
    return "\n\n".join(parts) + "\n"


def print_report(body: Mapping[str, Any]) -> None:
    """The report on the terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = FILE_WIDTH
    for section in sections(body):
        console.print(f"\n[bold]{_plain(section.title)}[/bold]\n{_plain(section.lead)}")
        for words in section.words:
            console.print(f"  {_plain(words)}", style="dim")
        for table in section.tables:
            console.print(_rich_table(table))
            for note in table.notes:
                console.print(f"  {_plain(note)}", style="dim")


def page(body: Mapping[str, Any]) -> str:
    """The report as one HTML page."""
    style = files("collect").joinpath("eval_page.css").read_text(encoding="utf-8")
    found = sections(body)
    content = "\n".join([_html_table(overview(body)), *map(_html_section, found)])
    stores = escape(", ".join(body["stores"]))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}: {stores}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f'<p class="quiet">{stores}</p>\n<h1>{TITLE}</h1>\n<p class="quiet">{escape(ABOUT)}</p>\n'
        f"{content}\n</main>\n</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    words = "".join(f"<li>{escape(text)}</li>" for text in section.words)
    tables = "\n".join(map(_html_table, section.tables))
    return (
        f'<section>\n<h2>{escape(section.title)}</h2>\n<p class="lead">{escape(section.lead)}</p>\n'
        f"<ul>{words}</ul>\n{tables}\n</section>"
    )


def _html_table(table: Table) -> str:
    drawn = any(bar is not None for bar in table.bars)
    head = "".join(f"<th>{escape(text)}</th>" for text in table.head) + ("<th></th>" if drawn else "")
    lines = []
    for index, row in enumerate(table.rows):
        bar = table.bars[index] if index < len(table.bars) else None
        cells = "".join(f"<td>{escape(text)}</td>" for text in row)
        lines.append(f"<tr>{cells}{_html_bar(bar) if drawn else ''}</tr>")
    notes = "".join(f'<p class="quiet">{escape(note)}</p>' for note in table.notes)
    return (
        f'<h3>{escape(table.title)}</h3>\n<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{''.join(lines)}</tbody></table>{notes}</div>"
    )


def _html_bar(bar: tuple[float, float, float] | None) -> str:
    """A strip from 0 to 100 % with the interval as a band and the value as a mark."""
    if bar is None:
        return "<td></td>"
    low, value, high = (100 * number for number in bar)
    label = f"{value:.1f} percent, interval {low:.1f} to {high:.1f}"
    return (
        f'<td><div class="strip" role="img" aria-label="{label}">'
        f'<i style="left:{low:.2f}%;width:{max(high - low, 0):.2f}%"></i><b style="left:{value:.2f}%"></b></div></td>'
    )


def _markdown_table(table: Table) -> str:
    rule = "|" + "---|" * len(table.head)
    lines = [[_cell(text) for text in row] for row in (table.head, *table.rows)]
    texts = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([texts[0], rule, *texts[1:]])


def _rich_table(table: Table) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    made = RichTable(title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 0))
    for index, text in enumerate(table.head):
        word = max(map(len, text.split()), default=0)  # no word of a head is broken, however narrow the terminal
        justify: Literal["left", "right"] = "left" if index == 0 else "right"
        made.add_column(_plain(text), justify=justify, overflow="fold", min_width=word)
    for row in table.rows:
        made.add_row(*map(_plain, row))
    return made


def _cell(text: str) -> str:
    """Text that is no markup of Markdown and stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _plain(text: str) -> str:
    from rich.markup import escape as rich_escape

    return rich_escape(text)
