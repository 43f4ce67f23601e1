"""The figures of a comparison, read back from the stores that its cells wrote.

Invariant: nothing is remembered from a run; a figure of a cell counts when the step that made it is done, so a partial
table says with how many seeds. What a method spends on labels is what its credit reads, not what a world gave for free.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sera_data
from learn.compare_config import PROBE_MEASURES, CompareConfig, Contrast, Measure
from learn.comparison import Cell, cells, read_cell
from learn.contrast import Cells, Difference, difference, holm
from learn.loop_report import MARGIN
from learn.method import open_method
from learn.registered import query
from learn.rule import Method
from sera_data.queries import query as store_query

PAID_BY_LABEL = ("verdict", "program", "judge")
NO_SEED = 0
SPENT = ("labels", "tokens", "turns", "updates", "minutes")


@dataclass(slots=True)
class Figures:
    """Values by row, seed and task; `curves`: one list of epochs per cell.

    success, success_at: by protocol. probe: by measure. spent: by cell, totals of `SPENT`, null where not known.
    """

    success: dict[str, dict[str, dict[int, dict[str, float]]]] = field(default_factory=dict)
    success_at: dict[str, dict[str, dict[int, dict[str, float]]]] = field(default_factory=dict)
    probe: dict[str, dict[str, dict[int, dict[str, float]]]] = field(default_factory=dict)
    curves: list[dict[str, Any]] = field(default_factory=list)
    spent: dict[str, dict[int, dict[str, float | None]]] = field(default_factory=dict)

    def of(self, measure: Measure, protocol: str, row: str) -> Cells:
        """Cells of a row under a measure; empty when none is done."""
        if measure in PROBE_MEASURES:
            return self.probe.get(measure, {}).get(row, {})
        table = self.success if measure == "success" else self.success_at
        return table.get(protocol, {}).get(row, {})


def read_figures(config: CompareConfig, out: Path) -> Figures:
    """Everything that is there now."""
    figures = Figures()
    for cell in cells(config):
        done = read_cell(out, cell)
        seed = NO_SEED if cell.seed is None else cell.seed
        _success(figures, config, cell, out, seed, done)
        if "probe" in done:
            rows = _rows(out / cell.name / "probe", query("compare_pairs"), {"margin": MARGIN})
            for measure in PROBE_MEASURES:
                by_task = {row["task_id"]: float(row[measure]) for row in rows}
                figures.probe.setdefault(measure, {}).setdefault(cell.row, {})[seed] = by_task
        if "train" in done:
            _spending(figures, config, cell, out, seed, done["train"])
    return figures


def _success(figures: Figures, config: CompareConfig, cell: Cell, out: Path, seed: int, done: dict[str, Any]) -> None:
    for protocol in config.protocols:
        if f"eval {protocol}" not in done:
            continue
        rows = _rows(out / cell.name / "evals", query("compare_success"), {"protocol": protocol})
        for name, table in (("success", figures.success), ("success_at", figures.success_at)):
            by_task = {row["task_id"]: float(row[name]) for row in rows}
            table.setdefault(protocol, {}).setdefault(cell.row, {})[seed] = by_task


def _spending(figures: Figures, config: CompareConfig, cell: Cell, out: Path, seed: int, train: dict[str, Any]) -> None:
    spent: dict[str, float | None] = dict.fromkeys(SPENT)
    if config.snapshot is None:
        store = out / cell.name / "loop" / "store"
        reads = labels_read(open_method(config.rows[cell.row].method))
        bound = {"purposes": [purpose for purpose, _ in reads], "nodes": [which for _, which in reads]}
        curve = _rows(store, query("compare_curve"), bound)
        times = _rows(store, store_query("cost_time"), None)
        by_epoch = {
            row["epoch"]: row["elapsed_s"] for row in times if (row["level"], row["phase"]) == ("epoch", "together")
        }
        passed = 0.0
        for row in curve:
            passed += float(by_epoch.get(row["epoch"], 0.0)) / 60
            figures.curves.append({"row": cell.row, "seed": seed, **row, "minutes": passed})
        if figures.curves and curve:
            spent |= {name: float(figures.curves[-1][name]) for name in SPENT}
    else:
        spent["minutes"] = float(train.get("passed_s", 0.0)) / 60
        spent["updates"] = float(sum(train["updates"].values()))
    figures.spent.setdefault(cell.row, {})[seed] = spent


def labels_read(method: Method) -> list[tuple[str, str]]:
    """Which labels a method's credit reads: (purpose of the groups, 'path' | 'all' | 'roots' | 'branches')."""
    found: list[tuple[str, str]] = []
    for rule in method.rules:
        params = dict(rule.params)
        match rule.path.stem:
            case "execution":
                verified = params.get("reward") in PAID_BY_LABEL
                every = params.get("branches", "factual") != "factual"
                which = ("all" if every else "path") if verified else "roots"
                found.append((str(params.get("purpose", "execution")), which))
            case "delegation":
                found.append(("delegation", "roots"))
            case "rubric" | "scorer":
                found.append(("rubric", "branches"))
            case _:  # a user's own rule: it may read any label
                found += [(purpose, "all") for purpose in ("execution", "delegation", "rubric")]
    return sorted(set(found))


def contrasts(config: CompareConfig, figures: Figures) -> list[tuple[Contrast, Difference | None]]:
    """Each claim with its difference (None before there is anything to compare), Holm-corrected over all claims."""
    first = next(iter(config.protocols))
    found = []
    for contrast in config.contrasts:
        better, worse = (figures.of(contrast.measure, protocol, row) for row, protocol in contrast.sides(first))
        known = difference(better, worse, resamples=config.resamples) if better and worse else None
        found.append((contrast, known))
    adjusted = iter(holm([known.p for _, known in found if known is not None]))
    return [(c, None if d is None else replace(d, adjusted=next(adjusted))) for c, d in found]


def _rows(store: Path, statement: str, parameters: dict[str, Any] | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sera_data.open(store).sql(statement, parameters).pl().to_dicts()
    return found
