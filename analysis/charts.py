"""The charts of the audit as Altair objects, and their SVG text.

Invariant: a chart draws rows of an `Audit` and computes nothing; its colours are those of `COLOURS`, which the page
swaps for the dark scheme. `figures` gives every chart that the data allows, in the order of the report.
Run: ``analysis.charts.reliability(audit)`` in a notebook.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import altair as alt

from analysis.results import Audit, Epoch, Estimate

INK, MUTED, GRID, GREY = "#1d2733", "#5f6b78", "#e2e7ec", "#98a3ae"
BLUE, LIGHT_BLUE, ORANGE = "#2b6cb0", "#90bbe4", "#d97a28"
WIDTH, HEIGHT = 390, 250
KINDS = {
    "wrong order": ORANGE,
    "tie": GREY,
    "right, below margin": LIGHT_BLUE,
    "right, margin kept": BLUE,
}


@dataclass(frozen=True)
class Figure:
    """A chart with the words around it: what it shows, and how to read it."""

    name: str
    section: str
    title: str
    about: str
    chart: Any


def figures(audit: Audit) -> list[Figure]:
    """Every chart that the data allows."""
    made: list[Figure] = []
    if audit.gap_histogram:
        made.append(
            Figure(
                "gaps",
                "ranking",
                "Score gaps inside a delegation",
                "Score of the successful branch minus score of the failed one, over all pairs. Blue is ranked right,"
                " orange wrong, grey tied: a useful rubric has its mass right of zero.",
                gaps(audit),
            )
        )
    if any(part.metrics["pair_accuracy"].value is not None for part in audit.slices if part.slice != "length"):
        made.append(
            Figure(
                "slices",
                "ranking",
                "Pair accuracy by slice",
                "Each dot is a part of the data with its 95 % interval; the dashed line at 50 % is guessing. An"
                " interval that crosses it says nothing yet.",
                slices(audit),
            )
        )
    if audit.reliability:
        made.append(
            Figure(
                "reliability",
                "calibration",
                "Success rate at each score",
                "Dots on the dashed line mean what they say: of nodes scored 0.7, 70 % succeed. Below the line scores"
                " are too generous, above too strict; the dot's area is the number of nodes.",
                reliability(audit),
            )
        )
        made.append(
            Figure(
                "scores",
                "calibration",
                "Scores of successes and failures",
                "Share of each group at each score, in steps of 0.1. The further apart the two colours, the more a"
                " score tells; equal shapes mean that it tells nothing.",
                scores(audit),
            )
        )
    if len(audit.epochs) > 1:
        made += [
            Figure(f"epochs-{name}", "learning", title, about, _panel(rows, percent=name != "hinge"))
            for name, title, about, rows in _panels(audit.epochs)
        ]
    return made


def reliability(audit: Audit) -> Any:
    """Reliability diagram with intervals."""
    data = alt.Data(values=[row.model_dump() for row in audit.reliability])
    ends = alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}])
    x = alt.X("score:Q", title="score", scale=alt.Scale(domain=[0, 1]))
    diagonal = alt.Chart(ends).mark_line(color=GREY, strokeDash=[4, 4]).encode(x="x:Q", y="y:Q")
    bars = (
        alt.Chart(data)
        .mark_rule(color=BLUE, strokeWidth=1.5, opacity=0.7)
        .encode(x=x, y=alt.Y("low:Q", title="success rate", scale=alt.Scale(domain=[0, 1])), y2="high:Q")
    )
    size = alt.Size("n:Q", legend=None, scale=alt.Scale(range=[25, 420]))
    dots = alt.Chart(data).mark_circle(color=BLUE, opacity=0.9).encode(x=x, y="success_rate:Q", size=size)
    return _styled((diagonal + bars + dots).properties(width=WIDTH, height=HEIGHT))


def scores(audit: Audit) -> Any:
    """Score histogram, successes and failures side by side."""
    names = {True: "success", False: "failure"}
    values = [
        {"score": f"{r['score']:.1f}", "share": r["share"], "was": names[r["success"]]} for r in audit.score_histogram
    ]
    steps = [f"{i / 10:.1f}" for i in range(11)]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(opacity=0.9)
        .encode(
            x=alt.X("score:N", title="score", scale=alt.Scale(domain=steps), axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("was:N", sort=["failure", "success"]),
            y=alt.Y("share:Q", title="share of group", axis=alt.Axis(format="%", tickCount=5)),
            color=_colour("was:N", {"failure": ORANGE, "success": BLUE}),
        )
    )
    return _styled(chart.properties(width=WIDTH, height=HEIGHT))


def gaps(audit: Audit) -> Any:
    """Histogram of score gaps over pairs, coloured by what they mean."""
    order = list(KINDS)
    values = [{**row, "order": order.index(row["kind"])} for row in audit.gap_histogram]
    reach = max([0.5, *(abs(row["gap"]) for row in values)]) + 0.1
    chart = (
        alt.Chart(alt.Data(values=values))
        .transform_calculate(left="datum.gap - 0.045", right="datum.gap + 0.045")
        .mark_bar(opacity=0.95)
        .encode(
            x=alt.X(
                "left:Q",
                bin="binned",
                title="score of success − score of failure",
                scale=alt.Scale(domain=[-reach, reach]),
                axis=alt.Axis(tickCount=10, labelOverlap=True),
            ),
            x2="right:Q",
            y=alt.Y("n:Q", title="pairs", stack="zero", axis=alt.Axis(tickCount=5, format="~s")),
            color=_colour("kind:N", KINDS, columns=2),
            order="order:O",
        )
    )
    return _styled(chart.properties(width=WIDTH, height=HEIGHT))


def slices(audit: Audit) -> Any:
    """Pair accuracy of every slice with its interval."""
    whole = _interval_row("all", audit.headline["pair_accuracy"])
    parts = [
        _interval_row(f"{part.slice} {part.level}", part.metrics["pair_accuracy"])
        for part in audit.slices
        if part.metrics["pair_accuracy"].value is not None and part.slice != "length"
    ]
    values = [whole, *parts]
    data = alt.Data(values=values)
    y = alt.Y("name:N", sort=[row["name"] for row in values], title=None, axis=alt.Axis(labelLimit=240, minExtent=128))
    x = alt.X("low:Q", title="pair accuracy", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    guess = alt.Chart(alt.Data(values=[{"x": 0.5}])).mark_rule(color=GREY, strokeDash=[4, 4]).encode(x="x:Q")
    bars = alt.Chart(data).mark_rule(color=BLUE, strokeWidth=2, opacity=0.6).encode(y=y, x=x, x2="high:Q")
    dots = alt.Chart(data).mark_circle(color=BLUE, size=75, opacity=1).encode(y=y, x="value:Q")
    return _styled((guess + bars + dots).properties(width=WIDTH - 90, height=max(120, 24 * len(values))))


def _panels(epochs: Sequence[Epoch]) -> list[tuple[str, str, str, list[dict[str, Any]]]]:
    return [
        (
            "success",
            "Success of trees",
            "Share of root tasks that were solved.",
            [_plain_row(e.epoch, e.success) for e in epochs],
        ),
        (
            "mixed",
            "Mixed delegations",
            "Share of forked delegations with success and failure.",
            [_plain_row(e.epoch, e.mixed_share) for e in epochs],
        ),
        (
            "accuracy",
            "Pair accuracy",
            "Share of pairs ranked right; guessing is 50 %.",
            [_interval_row(e.epoch, e.pair_accuracy) for e in epochs],
        ),
        (
            "hinge",
            "Mean hinge",
            "The loss of rubric training; lower is better.",
            [_interval_row(e.epoch, e.mean_hinge) for e in epochs],
        ),
    ]


def _panel(rows: list[dict[str, Any]], *, percent: bool) -> Any:
    data = alt.Data(values=[row for row in rows if row["value"] is not None])
    x = alt.X("name:O", title="epoch", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    scale = alt.Scale(domain=[0, 1]) if percent else alt.Scale(zero=True, domainMin=0)
    axis = alt.Axis(format="%", tickCount=4) if percent else alt.Axis(tickCount=4)
    line = (
        alt.Chart(data)
        .mark_line(color=BLUE, point=alt.OverlayMarkDef(color=BLUE, size=50))
        .encode(x=x, y=alt.Y("value:Q", title=None, scale=scale, axis=axis))
    )
    bars = alt.Chart(data).mark_rule(color=BLUE, opacity=0.5, strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q")
    return _styled((bars + line).properties(width=185, height=130))


def _plain_row(name: Any, value: float | None) -> dict[str, Any]:
    return {"name": name, "value": value, "low": value, "high": value}


def _interval_row(name: Any, estimate: Estimate) -> dict[str, Any]:
    value = estimate.value
    low = value if estimate.low is None else estimate.low
    high = value if estimate.high is None else estimate.high
    return {"name": name, "value": value, "low": low, "high": high}


def _colour(field: str, colours: dict[str, str], *, columns: int = 4) -> Any:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    legend = alt.Legend(
        orient="top", title=None, direction="horizontal", columns=columns, columnPadding=34, labelLimit=240
    )
    return alt.Color(field, scale=scale, legend=legend)


def _styled(chart: Any) -> Any:
    axis = {
        "labelColor": MUTED, "titleColor": MUTED, "gridColor": GRID, "domainColor": GREY, "tickColor": GREY,
        "labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal", "titlePadding": 8,
    }  # fmt: skip
    return (
        chart.configure(background="transparent", font="sans-serif", padding=4)
        .configure_axis(**axis)
        .configure_view(stroke=None)
        .configure_legend(labelColor=INK, labelFontSize=13, symbolType="square", rowPadding=4)
        .configure_title(color=INK, fontSize=12, fontWeight="normal", anchor="start")
    )


def svg(chart: Any, *, name: str, label: str) -> str:
    """Inline SVG: no namespace addresses, ids of its own, scales with the page, `label` for screen readers."""
    import vl_convert

    text = vl_convert.vegalite_to_svg(chart.to_dict())
    head, _, body = text.partition(">")
    size = re.search(r'viewBox="([^"]+)"', head)
    box = size.group(1) if size else f"0 0 {WIDTH} {HEIGHT}"
    width = box.split()[2]
    body = re.sub(r'\s(?:xmlns(?::\w+)?|aria-label|aria-roledescription|role)="[^"]*"', "", body)
    body = re.sub(r'(id="|url\(#)', rf"\1{name}-", body)
    return f'<svg role="img" aria-label="{escape(label)}" viewBox="{box}" style="max-width:{width}px">{body}'
