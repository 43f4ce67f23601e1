"""A report of evaluations as titled tables and sentences, for the terminal, Markdown and HTML alike.

Invariant: pure functions of the report; every rate stands beside its interval and its number of errors, and ours and
published figures are in different rows with their source. Cells are plain text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collect.overlap import overlap_words
from collect.sharding import band_key

DASH = "–"
AXIS_TITLES: Mapping[str, str] = {
    "difficulty": "By band",
    "family": "By family",
    "true_depth": "By true depth (longest chain of steps that the task needs)",
    "depth_used": "By depth used (deepest agent of the tree; 0 = nothing was delegated)",
}

FAILURES: Mapping[str, str] = {
    "failed": "failed",
    "root_spent": "root used all turns",
    "helper_spent": "a helper did",
    "deepest_spent": "one at last depth did",
    "truncated": "cut by tokens",
    "loop": "loop",
    "timeout": "out of time",
    "refused": "launch refused",
    "ended_early": "root ended early",
}
"""What is counted of trees that failed, and how it is called."""


@dataclass(frozen=True, slots=True)
class Table:
    """Head and rows of plain text, notes below; `bars` holds (low, value, high) of a row or None, for drawings."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[tuple[float, float, float] | None, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """What is said of evaluations that differ in the seed only."""

    title: str
    lead: str
    words: tuple[str, ...]
    tables: tuple[Table, ...]


def sections(body: Mapping[str, Any]) -> list[Section]:
    """One section per protocol and policy, in the order of the report."""
    return [_section(group) for group in body["groups"]]


def overview(body: Mapping[str, Any]) -> Table:
    """One row per protocol and policy."""
    head = ("protocol", "policy", "dialect", "held out", "tasks", "seeds", "success", "errors as failures", "errors")
    rows, bars = [], []
    for group in body["groups"]:
        pooled, seeds = group["pooled"], group["seeds"]
        rows.append(
            (
                group["protocol"], policy_name(group), group["dialect"] or DASH, _held_out(group),
                f"{group['tasks']:,}", str(seeds["runs"]), percent(pooled["success"]),
                percent(pooled["benchmark_success"]), str(pooled["errors"]),
            )
        )  # fmt: skip
        bars.append(_bar(pooled))
    return Table("Overview", head, tuple(rows), tuple(bars))


def percent(value: float | None) -> str:
    """71.3 %, or a dash."""
    return DASH if value is None else f"{100 * value:.1f} %"


def between(interval: Sequence[float | None] | None) -> str:
    """61.0 to 72.4 %, or a dash."""
    if interval is None or None in interval:
        return DASH
    low, high = (100 * (value or 0.0) for value in interval)
    return f"{low:.1f} to {high:.1f} %"


def policy_name(group: Mapping[str, Any]) -> str:
    """Name, version and first digits of the weights."""
    weights = group["weights_sha256"]
    return f"{group['policy']} v{group['policy_version']}" + (f" ({weights[:8]})" if weights else "")


def _section(group: Mapping[str, Any]) -> Section:
    seeds, pooled = group["seeds"], group["pooled"]
    lead = f"{percent(pooled['success'])} of {pooled['trees']:,} trees succeeded"
    if seeds["runs"] > 1 and seeds["success"]["sd"] is not None:
        lead = (
            f"{percent(seeds['success']['mean'])} ± {100 * seeds['success']['sd']:.2f} over {seeds['runs']} seeds"
            f" (95 % interval {between(seeds['success']['interval'])})"
        )
    if pooled["errors"]:
        lead += f"; {pooled['errors']} trees were lost to infrastructure and are not counted in it"
    pending = sum(run["pending"] for run in group["runs"])
    if pending:
        lead += f"; {pending} trees are pending, so this is no final figure"
    tables = [_runs(group), *_beside(group), *_breakdowns(group), *_at_k(group), *_failures(group), _endings(group)]
    title = f"{group['protocol']}: {policy_name(group)}"
    return Section(title, lead + ".", tuple(_words(group)), tuple(tables))


def _words(group: Mapping[str, Any]) -> Iterator[str]:
    if group["title"]:
        yield f"{group['title']}. {group['measures']}"
        held_out = (
            "no training of this toolkit plays these worlds" if group["held_out"] else "the world is a training world"
        )
        yield f"Held-out worlds: {_held_out(group)} ({held_out}). Figures are reported and not used to choose anything."
    if group["source"] == "published":
        yield "Tasks: the published ones, inventories included."
    elif group["source"] == "same goals":
        yield "Tasks: the published goals with inventories of our own, so single tasks cannot be compared."
    elif group["published_tasks"]:
        yield "Tasks: our own in the published numbers per band, so figures are only roughly comparable."
    if group["published_tasks"] not in (None, group["tasks"]):
        few = f"Only {group['tasks']} of the {group['published_tasks']} tasks were played"
        yield f"{few}: not comparable with the published figures."
    if group["changed"]:
        yield f"Not the protocol as it is: {'; '.join(group['changed'])}."
    yield overlap_words(group["overlap"])
    if group["differences"]:
        yield f"Differences from the published evaluation: {group['differences']}"
    versions = sorted({run["code_version"] or "unknown" for run in group["runs"]})
    yield f"Dialect {group['dialect']}, selection {_selection(group)}, code {', '.join(versions)}."
    for error, n in group["errors"].items():
        yield f"Infrastructure error ({n} trees): {error}"


def _runs(group: Mapping[str, Any]) -> Table:
    head = (
        "run",
        "seed",
        "trees",
        "success",
        "Wilson 95 %",
        "errors as failures",
        "Wilson 95 %",
        "errors",
        "retried",
        "pending",
    )
    rows: list[tuple[str, ...]] = []
    bars = []
    for run in group["runs"]:
        rows.append(
            (
                run["run_id"], str(run["seed"]), f"{run['trees']:,}", percent(run["success"]), between(run["wilson"]),
                percent(run["benchmark_success"]), between(run["benchmark_wilson"]), str(run["errors"]),
                str(run["retried"]), str(run["pending"]),
            )
        )  # fmt: skip
        bars.append(_bar(run))
    seeds = group["seeds"]
    if seeds["runs"] > 1:
        for name, text in (("mean", _mean), ("sd", _sd), ("95 % over seeds", _interval)):
            rows.append(
                (name, "", "", text(seeds["success"]), "", text(seeds["benchmark_success"]), "", "", "", "")
            )  # fmt: skip
            bars.append(None)
    rows.append(("95 % over tasks", "", "", between(seeds["bootstrap"]), "", "", "", "", "", ""))
    bars.append(None)
    return Table("Success", head, tuple(rows), tuple(bars))


def _mean(spread: Mapping[str, Any]) -> str:
    return percent(spread["mean"])


def _sd(spread: Mapping[str, Any]) -> str:
    return DASH if spread["sd"] is None else f"{100 * spread['sd']:.2f}"


def _interval(spread: Mapping[str, Any]) -> str:
    return between(spread["interval"])


def _beside(group: Mapping[str, Any]) -> list[Table]:
    """Our rate with errors as failures, as published rates are counted, over the published rows."""
    if not group["published"]:
        return []
    bands = sorted({band for row in group["published"] for band in row["by_difficulty"]}, key=band_key)
    ours = group["by_difficulty"]
    own = [percent(ours[band]["benchmark_success"]) if band in ours else DASH for band in bands]
    rows = [
        (f"here: {policy_name(group)}", group["dialect"] or DASH, percent(group["pooled"]["benchmark_success"]),
         _sd(group["seeds"]["benchmark_success"]), *own, "here")
    ]  # fmt: skip
    bars: list[tuple[float, float, float] | None] = [_bar(group["pooled"], "benchmark_")]
    sources = list(dict.fromkeys(row["source"] for row in group["published"]))
    for row in group["published"]:
        own = [percent(row["by_difficulty"].get(band)) for band in bands]
        sd = DASH if row["sd"] is None else f"{100 * row['sd']:.2f}"
        rows.append(
            (row["system"], row["dialect"], percent(row["success"]), sd, *own, f"[{sources.index(row['source']) + 1}]")
        )
        bars.append((row["success"], row["success"], row["success"]))
    head = ("system", "dialect", "success", "sd", *bands, "source")
    notes = [f"[{number}] {source}" for number, source in enumerate(sources, 1)]
    notes.append("here: this report, errors counted as failures, as the published tables count them")
    return [Table("Beside the published figures", head, tuple(rows), tuple(bars), tuple(notes))]


def _breakdowns(group: Mapping[str, Any]) -> Iterator[Table]:
    head = ("", "tasks", "trees", "success", "Wilson 95 %", "errors as failures", "errors")
    for axis, title in AXIS_TITLES.items():
        levels = group[f"by_{axis}"]
        if not levels or (axis == "family" and len(levels) < 2):
            continue
        rows = tuple(
            (
                level, f"{cell['tasks']:,}", f"{cell['trees']:,}", percent(cell["success"]), between(cell["wilson"]),
                percent(cell["benchmark_success"]), str(cell["errors"]),
            )
            for level, cell in levels.items()
        )  # fmt: skip
        yield Table(title, head, rows, tuple(_bar(cell) for cell in levels.values()))


def _at_k(group: Mapping[str, Any]) -> list[Table]:
    found = group["success_at"]
    if len(found) < 2:
        return []
    rows = tuple((f"success@{k}", percent(value)) for k, value in found.items())
    bars = tuple((value, value, value) for value in found.values())
    return [Table("At least one of k samples (unbiased, over all samples and seeds)", ("", "success"), rows, bars)]


def _failures(group: Mapping[str, Any]) -> list[Table]:
    """Which limits the trees that failed had met."""
    found = group["failures"]
    if not found:
        return []
    rows = [(band, *(f"{counts[name]:,}" for name in FAILURES)) for band, counts in found.items()]
    return [Table("Why trees failed (trees; one may count in several columns)", ("", *FAILURES.values()), tuple(rows))]


def _endings(group: Mapping[str, Any]) -> Table:
    run = group["runs"][0]
    sizes = (
        ("turns per tree", run["turns_per_tree"]),
        ("agents per tree", run["nodes_per_tree"]),
        ("delegations per tree", run["delegations_per_tree"]),
        ("completion tokens per tree", run["completion_tokens_per_tree"]),
    )
    rows = [(f"outcome {name}", f"{n:,}") for name, n in group["outcomes"].items()]
    rows += [(name, DASH if value is None else f"{value:,.1f}") for name, value in sizes]
    return Table("How trees ended, and their size (first run)", ("", ""), tuple(rows))


def _held_out(group: Mapping[str, Any]) -> str:
    return {True: "yes", False: "no"}.get(group["held_out"], DASH)


def _bar(cell: Mapping[str, Any], kind: str = "") -> tuple[float, float, float] | None:
    value = cell[f"{kind}success"]
    if value is None:
        return None
    low, high = cell[f"{kind}wilson"]
    return low, value, high


def _selection(group: Mapping[str, Any]) -> str:
    """How candidates were chosen, with their number where there were any."""
    name = group["selection"] or "none"
    return name if name == "none" else f"{name} of {group['candidates']}"
