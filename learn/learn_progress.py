"""What a learn phase shows: one bar of updates on stderr while it runs, one table when it is done.

Invariant: it only watches; nothing that is stored depends on it. On a terminal it is a bar, elsewhere one line per
update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from collect.progress_display import ProgressDisplay

if TYPE_CHECKING:
    from learn.record import Result

LOW_ESS = 0.5
SHARES = ("clip_share", "gated_share", "vetoed_share")
COLUMNS = {
    "loss": "loss",
    "grad_norm": "norm",
    "entropy": "entropy",
    "ratio_mean": "ratio",
    "ratio_max": "max",
    "clip_share": "clip",
    "ess": "ess",
    "kl": "kl",
}  # short, so that the table fits a terminal of 80 columns


class LearnProgress(ProgressDisplay):
    """Counts the updates of a phase and shows them."""

    def __init__(self, total: int, *, epoch: int, quiet: bool = False) -> None:
        super().__init__(total, label=f"learn e{epoch:06d}", unit="updates", quiet=quiet)

    def update_done(self, row: Mapping[str, Any]) -> None:
        """Count one row."""
        note = describe(row)
        self.advance(note)
        if not self._on_terminal():
            self.say(f"{self.label}: {note}")
        if row["ess"] is not None and row["ess"] < LOW_ESS:
            advice = "the data are far from these weights: fewer updates per collect, or loss.ratio_max: 2"
            self.say(f"warning: effective sample size {row['ess']:.2f} at version {row['version_in']}; {advice}")


def describe(row: Mapping[str, Any]) -> str:
    """One row in words."""
    head = f"v{row['version_in']} {row['stage']}"
    if row["skip_reason"]:
        return f"{head} skipped: {row['skip_reason']}"
    speed = row["n_tokens"] / max(row["timings"]["total_s"], 1e-9)
    return (
        f"{head}  loss {row['loss']:+.4f}  norm {row['grad_norm']:.3f}  entropy {row['entropy']:.3f}"
        f"  ratio {row['ratio_mean']:.3f}  {row['n_datums']} sequences  {speed:,.0f} tokens/s{_shared(row)}"
    )


def _shared(row: Mapping[str, Any]) -> str:
    """What shared prefixes saved; nothing where every token was computed, or for a row read back from the store."""
    computed = row.get("n_computed_tokens", row["n_tokens"])
    return f"  {computed / row['n_tokens']:.0%} computed" if computed < row["n_tokens"] else ""


def computed_share(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Tokens computed / tokens of the sequences one behind the other; None without a row of this process."""
    mine = [row for row in rows if row["skip_reason"] is None and "n_computed_tokens" in row]
    naive = sum(row["n_tokens"] for row in mine)
    return sum(row["n_computed_tokens"] for row in mine) / naive if naive else None


def summary(result: Result, seconds: float) -> dict[str, Any]:
    """The result as plain JSON values."""
    real = [row for row in result.rows if row["skip_reason"] is None]
    return {
        "run_id": result.run_id,
        "epoch": result.epoch,
        "plan": result.plan,
        "version": result.version,
        "policy": str(result.policy),
        "updates": dict(Counter(row["stage"] for row in real)),
        "skips": [row["skip_reason"] for row in result.rows if row["skip_reason"]],
        "tokens": sum(row["n_tokens"] for row in real),
        "trained_tokens": sum(row["n_trained_tokens"] for row in real),
        "computed_share": computed_share(result.rows),
        "gaps": by_gap(result.rows),
        "gate": gate_word(result.rows),
        "fruitless_in_a_row": result.fruitless,
        "repeated": result.repeated,
        "seconds": round(seconds, 3),
    }


def by_gap(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Figures per stage and version gap over the updates of this process; mismatch at gap 0 is the engine's floor.

    Rows that were read back from the store have no figures per gap; their own columns say what was measured.
    """
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        for part in row.get("gaps") or ():
            found.setdefault((row["stage"], part["gap"]), []).append(part)
    merged = []
    for (stage, gap), parts in sorted(found.items()):
        total = sum(part["tokens"] for part in parts)
        means = {
            name: sum(part[name] * part["tokens"] for part in parts) / total
            for name in ("ratio_mean", *SHARES, "ess", "kl", "mismatch")
        }
        highest = max(part["ratio_max"] for part in parts)
        merged.append({"stage": stage, "gap": gap, "tokens": int(total), "ratio_max": highest, **means})
    return merged


def gate_word(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the sequence gate, or the mask of m2po, did: unused without old data, inert or fired with it."""
    parts = [part for row in rows for part in row.get("gaps") or ()]
    if any(part["gated_share"] for part in parts):
        return "fired"
    return "inert" if any(part["stale"] for part in parts) else "unused"


def print_result(result: Result, seconds: float) -> None:
    """The rows as a table, and where the policy is."""
    console = Console()
    table = Table("v", "stage", "groups", *COLUMNS.values(), box=SIMPLE, pad_edge=False, padding=0)
    table.title = f"learn phase {result.plan}"
    for row in result.rows:
        cells = [f"{row[name]:.3g}" if row[name] is not None else "" for name in COLUMNS]
        table.add_row(str(row["version_in"]), row["stage"], str(len(row["group_ids"])), *cells)
    console.print(table)
    for row in result.rows:
        if row["skip_reason"]:
            console.print(f"skipped at version {row['version_in']}: {row['skip_reason']}", highlight=False)
    gaps = by_gap(result.rows)
    if gaps:
        names = ("tokens", "ratio_mean", "ratio_max", *SHARES, "ess", "kl", "mismatch")
        ages = Table("stage", "version gap", *names, title="by version gap")
        for part in gaps:
            ages.add_row(part["stage"], str(part["gap"]), *(f"{part[name]:.4g}" for name in names))
        console.print(ages)
    if gate_word(result.rows) == "inert":
        console.print("the gate for old data never fired: it is inert here", highlight=False)
    share = computed_share(result.rows)
    if share is not None:
        line = f"tokens computed / tokens of the sequences: {share:.3f} (engine.share_prefixes)"
        console.print(line, highlight=False)
    again = "finished before; " if result.repeated else ""
    console.print(f"{again}policy of version {result.version}: {result.policy}  ({seconds:.1f} s)", highlight=False)
