"""The tables of a comparison, as plain values: methods, contrasts and what each method spent.

Invariant: every figure carries its number of seeds and tasks; a row that is not done yet is there with dashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learn.compare_config import PROBE_MEASURES, START, CompareConfig, Measure
from learn.comparison_figures import SPENT, Figures, contrasts
from learn.contrast import Cells, Difference, difference, mean

SPENT_TITLES = {
    "labels": "labels read",
    "tokens": "tokens sampled",
    "turns": "environment steps",
    "updates": "updates",
    "minutes": "minutes of training",
}


def compare_body(config: CompareConfig, figures: Figures) -> dict[str, Any]:
    """The whole result as JSON values."""
    return {
        "name": config.name,
        "seeds": list(config.seeds),
        "rows": [_row(config, figures, row) for row in [START, *config.rows]],
        "contrasts": [
            {**contrast.resolved(), "difference": _plain(known)} for contrast, known in contrasts(config, figures)
        ],
        "curves": figures.curves,
    }


def _row(config: CompareConfig, figures: Figures, row: str) -> dict[str, Any]:
    title = "start weights" if row == START else config.rows[row].title or row
    body: dict[str, Any] = {"row": row, "title": title, "success": {}, "probe": {}, "spent": _spent(figures, row)}
    for protocol, measured in config.protocols.items():
        if measured.rows is not None and row not in measured.rows:
            continue
        body["success"][protocol] = _figure(config, figures, "success", protocol, row)
        if measured.samples > 1:
            body["success"][f"{protocol} at {measured.samples}"] = _figure(config, figures, "success_at", protocol, row)
    if config.probe is not None:
        body["probe"] = {measure: _figure(config, figures, measure, "", row) for measure in PROBE_MEASURES}
    return body


def _figure(
    config: CompareConfig, figures: Figures, measure: Measure, protocol: str, row: str
) -> dict[str, Any] | None:
    """Mean with its interval, and the difference from the start weights."""
    found: Cells = figures.of(measure, protocol, row)
    if not found:
        return None
    start = figures.of(measure, protocol, START)
    change = difference(found, start, resamples=config.resamples) if start and row != START else None
    return {**(_plain(mean(found, resamples=config.resamples)) or {}), "from_start": _plain(change)}


def _spent(figures: Figures, row: str) -> dict[str, float | None]:
    """Means over seeds."""
    by_seed = list(figures.spent.get(row, {}).values())
    known = {name: [spent[name] for spent in by_seed if spent[name] is not None] for name in SPENT}
    return {
        name: sum(v for v in values if v is not None) / len(values) if values else None
        for name, values in known.items()
    }


def _plain(known: Difference | None) -> dict[str, Any] | None:
    if known is None:
        return None
    body = {name: getattr(known, name) for name in Difference.__slots__}
    return {name: value for name, value in body.items() if value == value}  # NaN: not corrected


Table = tuple[str, list[str], list[list[str]]]
"""Title, heads, rows."""


def tables(body: dict[str, Any]) -> list[Table]:
    """The result as tables of text; success has one for each protocol."""
    found = [*_success_tables(body), _probe_table(body), _contrast_table(body), _spent_table(body)]
    return [table for table in found if table[2]]


def _success_tables(body: dict[str, Any]) -> list[Table]:
    names = list(dict.fromkeys(key for row in body["rows"] for key in row["success"]))
    return [
        _success_table(body, name, [n for n in names if n == name or n.startswith(f"{name} at ")])
        for name in names
        if " " not in name
    ]


def _success_table(body: dict[str, Any], protocol: str, columns: Sequence[str]) -> Table:
    """One protocol: success of a sample, and of at least one of several."""
    heads = ["method", "seeds", *(part for name in columns for part in (name, "from start"))]
    rows = []
    for row in body["rows"]:
        if protocol not in row["success"]:
            continue
        figures = [row["success"].get(name) for name in columns]
        seeds = max((f["n_seeds"] for f in figures if f), default=0)
        cells = [part for figure in figures for part in _pair(figure)]
        rows.append([row["title"], "-" if row["row"] == START else str(seeds), *cells])
    return f"Success: {protocol}", heads, rows


def _pair(figure: dict[str, Any] | None) -> tuple[str, str]:
    if figure is None:
        return "-", ""
    change = figure["from_start"]
    return f"{100 * figure['value']:.1f}", points(change) if change else ""


def points(change: dict[str, Any]) -> str:
    """A difference in points with its 95 % interval."""
    return f"{100 * change['value']:+.1f} [{100 * change['low']:+.1f}, {100 * change['high']:+.1f}]"


def _probe_table(body: dict[str, Any]) -> Table:
    rows = []
    for row in body["rows"]:
        if not any(row["probe"].values()):
            continue
        figures = [row["probe"][measure] for measure in PROBE_MEASURES]
        cells = [part for f in figures for part in (f"{f['value']:.3f}" if f else "-", _plus(f))]
        rows.append([row["title"], str(next(f["n_seeds"] for f in figures if f)), *cells])
    heads = ["method", "seeds", *(part for m in PROBE_MEASURES for part in (m.replace("_", " "), "from start"))]
    return "Rubrics on held-out delegations", heads, rows


def _plus(figure: dict[str, Any] | None) -> str:
    change = figure["from_start"] if figure else None
    return f"{change['value']:+.3f} [{change['low']:+.3f}, {change['high']:+.3f}]" if change else ""


def _contrast_table(body: dict[str, Any]) -> Table:
    rows = []
    for contrast in body["contrasts"]:
        known = contrast["difference"]
        if known is None:
            rows.append([contrast["name"], "-", "-", "-", "-"])
            continue
        seeds = f"{known['positive']} of {known['n_seeds']}"
        rows.append([contrast["name"], points(known), seeds, f"{known['p']:.4f}", f"{known['adjusted']:.4f}"])
    return "Contrasts", ["claim", "difference in points [95 %]", "seeds above 0", "p", "p (Holm)"], rows


def _spent_table(body: dict[str, Any]) -> Table:
    rows = []
    for row in body["rows"]:
        if row["row"] == START or not any(v is not None for v in row["spent"].values()):
            continue
        rows.append([row["title"], *(_amount(row["spent"][name]) for name in SPENT)])
    return "Spent (mean of the seeds)", ["method", *SPENT_TITLES.values()], rows


def _amount(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def markdown(found: Sequence[Table]) -> str:
    """The tables as Markdown."""
    parts = []
    for title, heads, rows in found:
        lines = [f"## {title}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        parts.append("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]))
    return "\n\n".join(parts) + "\n"
