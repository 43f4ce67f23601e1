"""What a collect phase brought: trees, success, outcomes, delegations, mixed share and rows, read from the store.

Invariant: read back from committed shards only, those of other processes and earlier tries included, so that it says
what a learner will see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from rich.console import Console
from rich.table import Table

from schemas import TABLES
from sera_data.plan import Plan
from sera_data.store import Store

TRUNCATED_WARNING = 0.2
OUTCOME_KEYS = ("finished", "not_finished", "truncated", "loop", "timeout", "infra_error")


def phase_summary(store: Store, plan: Plan) -> dict[str, Any]:
    """The phase so far, as plain JSON values."""
    names = ("phase_trees", "phase_costs", "phase_forks", "phase_prefixes")
    connection = store.connect(epochs=[plan.epoch], queries=[_sql(name) for name in names])
    try:
        parameters = {"run_id": plan.run_id, "epoch": plan.epoch}
        purposes = connection.sql(_sql("phase_trees"), params=parameters).pl().to_dicts()
        costs = connection.sql(_sql("phase_costs"), params=parameters).pl().to_dicts()
        forked, mixed = connection.execute(_sql("phase_forks"), parameters).fetchone() or (0, 0)
        shared, cached = connection.execute(_sql("phase_prefixes"), parameters).fetchone() or (0, 0)
        rows = {name: _rows(connection, name, parameters) for name in TABLES}
    finally:
        connection.close()
    totals: Counter[str] = Counter()
    for purpose in purposes:
        totals.update({key: value for key, value in purpose.items() if isinstance(value, int)})
    done = plan.committed()
    return {
        "store": str(store.path),
        "run_id": plan.run_id,
        "plan": plan.name,
        "epoch": plan.epoch,
        "units": {"planned": len(plan.unit_ids), "committed": len(done)},
        "trees": totals["trees"],
        "success": _success(purposes),
        "outcomes": {key: totals[key] for key in OUTCOME_KEYS if totals[key]},
        "delegations": totals["delegations"],
        "forked": forked,
        "mixed": mixed,
        "mixed_share": mixed / forked if forked else None,
        "nodes": totals["nodes"],
        "turns": totals["turns"],
        "tokens": totals["tokens"],
        "prefix_tokens": {"shared": shared, "cached": cached, "hit_rate": cached / shared if shared else None},
        "purposes": {
            p["purpose"]: {"trees": p["trees"], "success": p["success"], "delegations": p["delegations"]}
            for p in purposes
        },
        "rows": rows,
        "cost": sum(role["cost"] for role in costs) if costs else None,
        "costs": {role.pop("role"): role for role in costs},
        "warnings": warnings(totals, forked=forked, mixed=mixed),
    }


def warnings(totals: Mapping[str, int], *, forked: int, mixed: int) -> list[str]:
    """What a learner should not be given without a look."""
    found = []
    trees = totals["trees"]
    if trees and totals["truncated"] > TRUNCATED_WARNING * trees:
        found.append(
            f"{totals['truncated']} of {trees} trees were cut off: raise sampling.act.max_tokens,"
            " budgets.tokens or budgets.context"
        )
    if totals["infra_error"]:
        found.append(f"{totals['infra_error']} of {trees} trees were lost to infrastructure errors; they train nothing")
    if forked and not mixed:
        found.append(f"none of {forked} forked delegations has both successes and failures: no rubric can be ranked")
    return found


def print_summary(summary: dict[str, Any], *, seconds: float) -> None:
    """The summary as a small table on stdout."""
    units = summary["units"]
    outcomes = ", ".join(f"{name} {count}" for name, count in summary["outcomes"].items())
    table = Table(title=f"{summary['plan']} of run {summary['run_id']}", show_header=False, title_justify="left")
    table.add_row("units", f"{units['committed']} of {units['planned']} committed")
    table.add_row("trees", f"{summary['trees']} ({outcomes})")
    table.add_row("success", _percent(summary["success"]))
    for purpose, numbers in summary["purposes"].items():
        if len(summary["purposes"]) > 1:
            table.add_row(f"  {purpose}", f"{numbers['trees']} trees, success {_percent(numbers['success'])}")
    table.add_row("delegations", str(summary["delegations"]))
    if summary["forked"]:
        table.add_row("forked", f"{summary['forked']}, mixed {_percent(summary['mixed_share'])}")
    prefix = summary["prefix_tokens"]
    if prefix["shared"]:
        table.add_row("prefix cache", f"{_percent(prefix['hit_rate'])} of {prefix['shared']:,} shared prompt tokens")
    table.add_row("rows", ", ".join(f"{name} {count}" for name, count in summary["rows"].items() if count))
    if summary["cost"] is not None:
        parts = ", ".join(
            f"{role} {part['cost']:.4g} in {part['calls']} calls" for role, part in summary["costs"].items()
        )
        table.add_row("cost", f"{summary['cost']:.4g} ({parts})")
    table.add_row("seconds", f"{seconds:.1f}")
    Console().print(table)
    for warning in summary["warnings"]:
        Console(stderr=True).print(f"warning: {warning}", highlight=False, soft_wrap=True)


def _rows(connection: Any, table: str, parameters: dict[str, Any]) -> int:
    source = "task_rows" if table == "tasks" else table
    query = f"select count(*) from {source} where run_id = $run_id and epoch = $epoch"
    return int(connection.execute(query, parameters).fetchone()[0])


def _success(purposes: list[dict[str, Any]]) -> float | None:
    known = [p for p in purposes if p["success"] is not None]
    judged = sum(p["trees"] - p["infra_error"] for p in known)
    return sum(p["success"] * (p["trees"] - p["infra_error"]) for p in known) / judged if judged else None


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _sql(name: str) -> str:
    return files("collect").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
