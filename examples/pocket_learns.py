"""The result of `examples/pocket_learns.sh`: tables, paired differences and curves.

Invariant: every figure is computed from the stores that the experiment wrote; nothing is chosen. Differences are paired
by task with a bootstrap over tasks; pair accuracy is compared on the same delegations, because no agent sees a rubric.
A chain that is not finished is left out, and named.

Run: ``python examples/pocket_learns.py runs/pocket_learns`` writes learns.md and learns.svg there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import vl_convert

import sera_data
from collect.evaluation import compare
from collect.intervals import bootstrap_mean, paired_difference
from learn.loop_report import MARGIN
from learn.registered import query

CHAINS = {
    "seed1": "verdict, seed 1",
    "seed2": "verdict, seed 2",
    "control": "verdict, shuffled credit",
    "untrained1": "own rubrics, untrained, seed 1",
    "untrained2": "own rubrics, untrained, seed 2",
    "trained1": "rubrics of the trained writer, seed 1",
    "trained2": "rubrics of the trained writer, seed 2",
}
LAST = 20
PROTOCOLS = {"t1": "temperature 1", "greedy": "greedy", "at8": "temperature 1, 8 samples"}


def evals(out: Path, name: str, protocol: str) -> list[dict[str, Any]]:
    """The `evals` rows of one chain under one protocol."""
    store = sera_data.open(out / "evals" / name)
    return store.sql("select * from evals where protocol = $p", {"p": protocol}).pl().to_dicts()


def interval(body: dict[str, float]) -> str:
    """A difference with its 95 % interval, in points."""
    return f"{100 * body['value']:+.1f} [{100 * body['low']:+.1f}, {100 * body['high']:+.1f}]"


def success_table(out: Path, chains: dict[str, str]) -> list[str]:
    """Success of every chain and its difference from the shipped weights."""
    lines = ["| chain | protocol | tasks x samples | success | difference in points [95 %] |", "|---|---|---|---|---|"]
    for protocol, title in PROTOCOLS.items():
        before = evals(out, "base", protocol)
        lines.append(f"| shipped weights | {title} | {shape(before)} | {rate(before):.3f} | |")
        for name, chain in chains.items():
            after = evals(out, name, protocol)
            body = compare(before, after)
            key = "difference_at_8" if protocol == "at8" else "difference"
            what = "success@8 " if protocol == "at8" else ""
            lines.append(f"| {chain} | {title} | {shape(after)} | {rate(after):.3f} | {what}{interval(body[key])} |")
    return lines


def shape(rows: list[dict[str, Any]]) -> str:
    """Tasks x samples of an evaluation."""
    tasks = len({row["task_id"] for row in rows})
    return f"{tasks} x {len(rows) // tasks}"


def rate(rows: list[dict[str, Any]]) -> float:
    """Mean success over judged trees."""
    judged = [bool(row["success"]) for row in rows if row["success"] is not None]
    return sum(judged) / len(judged)


def pair_table(out: Path) -> list[str]:
    """Pair accuracy and hinge of the shipped writer and the trained one, paired by task."""
    found = {
        n: sera_data.open(out / "probe" / n).sql(query("compare_pairs"), {"margin": MARGIN}).pl().to_dicts()
        for n in ("base", "rubric")
    }
    lines = ["| writer | tasks with pairs | pair accuracy | hinge |", "|---|---|---|---|"]
    for name, title in (("base", "shipped weights"), ("rubric", "after 12 rubric updates")):
        accuracy, hinge = (bootstrap_mean([row[key] for row in found[name]]) for key in ("pair_accuracy", "hinge"))
        lines.append(f"| {title} | {accuracy.n} | {accuracy.value:.3f} | {hinge.value:.3f} |")
    cells = []
    for key in ("pair_accuracy", "hinge"):
        before, after = ({row["task_id"]: row[key] for row in found[name]} for name in ("base", "rubric"))
        change = paired_difference(before, after)
        cells.append(f"{change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}]")
    lines.append(f"| difference [95 %] | | {cells[0]} | {cells[1]} |")
    return lines


def curve(out: Path, chains: dict[str, str]) -> pl.DataFrame:
    """Success on the held-out tasks by version, of the chains whose policies on the way were measured."""
    sql = "select distinct protocol from evals where regexp_full_match(protocol, 'v[0-9]{6}') order by protocol"
    points = []
    for name, title in chains.items():
        on_the_way = [row[0] for row in sera_data.open(out / "evals" / name).sql(sql).fetchall()]
        if on_the_way:
            known = {0: rate(evals(out, "base", "t1")), LAST: rate(evals(out, name, "t1"))}
            known |= {int(protocol[1:]): rate(evals(out, name, protocol)) for protocol in on_the_way}
            points += [{"chain": title, "version": v, "success": success} for v, success in sorted(known.items())]
    return pl.DataFrame(points, schema={"chain": pl.String, "version": pl.Int64, "success": pl.Float64})


def draw(frame: pl.DataFrame, path: Path) -> None:
    """The curve as SVG."""
    chart = (
        alt.Chart(alt.Data(values=frame.to_dicts()))
        .mark_line(point=True)
        .encode(
            x=alt.X("version:Q", title="optimizer updates"),
            y=alt.Y("success:Q", title="success at temperature 1, held-out worlds", scale=alt.Scale(zero=False)),
            color=alt.Color("chain:N", title=None),
        )
        .properties(width=520, height=260)
    )
    path.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")


def finished(out: Path) -> dict[str, str]:
    """Chains whose last measurement is there."""
    return {
        name: title
        for name, title in CHAINS.items()
        if (text := out / f"{name}.at8.json").exists() and text.stat().st_size
    }


def main(out: Path) -> None:
    """Write and print the result."""
    chains = finished(out)
    minutes = {n: json.loads((out / f"{n}.loop.json").read_text())["seconds"] / 60 for n in [*chains, "rubric"]}
    lines = [
        *success_table(out, chains), "", *pair_table(out), "",
        "minutes of training: " + ", ".join(f"{name} {value:.1f}" for name, value in minutes.items()),
    ]  # fmt: skip
    if missing := [name for name in CHAINS if name not in chains]:
        lines.append("not finished: " + ", ".join(missing))
    (out / "learns.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(curve(out, chains), out / "learns.svg")
    print("\n".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/pocket_learns"))
