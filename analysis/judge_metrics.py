"""The metrics of a judge: agreement with the program, with itself, and how often it fails.

Invariant: each name is a column of `judge_metrics.sql`; nothing is computed here.
Run: ``sera audit STORE`` prints them when the store holds labels of a judge or of people.
"""

from __future__ import annotations

from analysis.metrics import Metric

JUDGE_METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "kappa",
            "Cohen's kappa",
            "nodes",
            "higher",
            -1,
            1,
            "Agreement beyond what both rates would give by chance: 0 is chance, 1 is perfect. Read it with the base"
            " rate: when nearly everything succeeds it is low even for a good judge.",
        ),
        Metric(
            "agreement",
            "Raw agreement",
            "nodes",
            "higher",
            0,
            1,
            "Share of nodes on which judge and program say the same.",
            percent=True,
        ),
        Metric(
            "judge_rate",
            "Judge says success",
            "nodes",
            "zero",
            0,
            1,
            "Share of those nodes that the judge calls a success.",
            percent=True,
        ),
        Metric(
            "program_rate",
            "Program says success",
            "nodes",
            "zero",
            0,
            1,
            "The base rate: share of the same nodes that succeeded.",
            percent=True,
        ),
        Metric(
            "sensitivity",
            "Successes recognised",
            "nodes",
            "higher",
            0,
            1,
            "Share of the program's successes that the judge calls one.",
            percent=True,
        ),
        Metric(
            "specificity",
            "Failures recognised",
            "nodes",
            "higher",
            0,
            1,
            "Share of the program's failures that the judge calls one; what is missing is paid for as success.",
            percent=True,
        ),
        Metric(
            "corrected_rate",
            "Success, corrected for the judge's errors",
            "nodes",
            "zero",
            0,
            1,
            "Share of success over all nodes that the judge saw, with the errors taken out that the nodes with both"
            " verdicts show (Rogan and Gladen).",
            percent=True,
        ),
        Metric(
            "repeat_agreement",
            "Repeated votes agree",
            "repeats",
            "higher",
            0,
            1,
            "Share of pairs of votes on one node that agree: a judge that contradicts itself cannot be right.",
            percent=True,
        ),
        Metric(
            "repeat_kappa",
            "Fleiss' kappa of repeated votes",
            "repeats",
            "higher",
            -1,
            1,
            "The same beyond chance.",
        ),
        Metric(
            "invalid_share",
            "Invalid votes",
            "votes",
            "lower",
            0,
            1,
            "Share of votes that reached no verdict; each is stored with its reason.",
            percent=True,
        ),
    )
}
