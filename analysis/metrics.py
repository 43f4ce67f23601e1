"""The metrics of the audit: title, unit, direction and how the interval is made.

Invariant: each name is a column of one SQL file (or derived from one, `calibration_error`); nothing is computed here.
Run: ``sera audit STORE`` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["pairs", "groups", "scores", "nodes", "repeats", "votes", "changes", "rubrics"]
Better = Literal["higher", "lower", "zero"]
Interval = Literal["percentile", "centred"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    unit: what n counts. better: where good values lie. low, high: possible range. interval: `percentile` takes
    the bootstrap range as it is; `centred` moves it so that the replicates' mean is the estimate, for errors that
    grow when noise is added. percent: shown as a percentage. about: how to read it, one sentence.
    """

    name: str
    title: str
    unit: Unit
    better: Better
    low: float
    high: float
    about: str
    interval: Interval = "percentile"
    percent: bool = False


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "pair_accuracy",
            "Pair accuracy",
            "pairs",
            "higher",
            0,
            1,
            "Share of success/failure pairs of one delegation that the rubric ranks right; a tie counts half,"
            " 50 % is guessing.",
            percent=True,
        ),
        Metric(
            "mean_hinge",
            "Mean hinge",
            "pairs",
            "lower",
            0,
            2,
            "Mean of max(0, margin - gap) over those pairs: the loss that rubric training lowers; guessing with equal"
            " scores costs the margin.",
        ),
        Metric(
            "calibration_error",
            "Calibration error, debiased",
            "scores",
            "lower",
            0,
            1,
            "Typical distance between a score and the success rate at that score (root mean square, sampling noise"
            " taken out).",
        ),
        Metric(
            "pair_accuracy_strict",
            "Pair accuracy, ties wrong",
            "pairs",
            "higher",
            0,
            1,
            "The same share with ties counted as wrong.",
            percent=True,
        ),
        Metric(
            "group_accuracy_strict",
            "Group accuracy, ties wrong",
            "groups",
            "higher",
            0,
            1,
            "Ties wrong, and every mixed delegation counts once however many pairs it has: the published figure.",
            percent=True,
        ),
        Metric(
            "tie_rate",
            "Tie rate",
            "pairs",
            "lower",
            0,
            1,
            "Share of pairs in which success and failure got the same score.",
            percent=True,
        ),
        Metric(
            "margin_violation",
            "Margin violations",
            "pairs",
            "lower",
            0,
            1,
            "Share of pairs whose gap is below the margin of the training loss.",
            percent=True,
        ),
        Metric("mean_gap", "Mean gap", "pairs", "higher", -1, 1, "Mean score of success minus failure over pairs."),
        Metric("group_hinge", "Hinge per group", "groups", "lower", 0, 2, "Mean hinge, every mixed delegation once."),
        Metric(
            "bias",
            "Bias",
            "scores",
            "zero",
            -1,
            1,
            "Mean score minus success rate: above 0 the scorer is too generous, below 0 too strict.",
        ),
        Metric("mean_score", "Mean score", "scores", "zero", 0, 1, "Mean score of the scored nodes."),
        Metric(
            "success_rate",
            "Success rate",
            "scores",
            "zero",
            0,
            1,
            "Share of the scored nodes that succeeded.",
            percent=True,
        ),
        Metric(
            "ece",
            "ECE",
            "scores",
            "lower",
            0,
            1,
            "Mean distance between score and success rate on distinct scores; biased up when a score is rare.",
            interval="centred",
        ),
        Metric(
            "ece_bins",
            "ECE, equal-mass bins",
            "scores",
            "lower",
            0,
            1,
            "The same on ceil(n^(1/3)) bins of equal mass that never split ties.",
            interval="centred",
        ),
        Metric(
            "max_gap",
            "Largest gap",
            "scores",
            "lower",
            0,
            1,
            "Largest distance between a score and the success rate at it; noisy when that score is rare.",
            interval="centred",
        ),
        Metric(
            "l2_squared",
            "Squared calibration error, debiased",
            "scores",
            "lower",
            -1,
            1,
            "Square of the calibration error on distinct scores; slightly below 0 when nothing is wrong.",
            interval="centred",
        ),
        Metric(
            "l2_squared_bins",
            "Squared calibration error, debiased, bins",
            "scores",
            "lower",
            -1,
            1,
            "The same on equal-mass bins.",
            interval="centred",
        ),
        Metric(
            "curve_squared",
            "Squared curve error",
            "scores",
            "lower",
            -1,
            1,
            "Squared calibration error that is left when a constant is taken off all scores.",
            interval="centred",
        ),
        Metric(
            "curve_squared_bins",
            "Squared curve error, bins",
            "scores",
            "lower",
            -1,
            1,
            "The same on equal-mass bins.",
            interval="centred",
        ),
        Metric(
            "curve_error",
            "Curve error, debiased",
            "scores",
            "lower",
            0,
            1,
            "Calibration error beyond the bias: how far the curve bends when all scores are moved to the right level.",
        ),
        Metric(
            "repeated",
            "Scores that repeat",
            "scores",
            "higher",
            0,
            1,
            "Share of nodes whose score occurs more than once; the rest cannot be debiased.",
            percent=True,
        ),
        Metric("brier", "Brier score", "scores", "lower", 0, 1, "Mean squared distance between score and success."),
        Metric(
            "reliability",
            "Brier: reliability",
            "scores",
            "lower",
            0,
            1,
            "Part of the Brier score lost to miscalibration.",
            interval="centred",
        ),
        Metric(
            "resolution",
            "Brier: resolution",
            "scores",
            "higher",
            0,
            1,
            "Part gained by telling successes from failures.",
            interval="centred",
        ),
        Metric(
            "uncertainty",
            "Brier: uncertainty",
            "scores",
            "zero",
            0,
            0.25,
            "Brier score of always answering the base rate.",
        ),
        Metric(
            "skill",
            "Brier skill",
            "scores",
            "higher",
            float("-inf"),
            1,
            "Above 0: scores predict success better than the base rate does.",
        ),
        Metric(
            "auroc",
            "AUROC, pooled",
            "scores",
            "higher",
            0,
            1,
            "Ranking over all scored nodes; also rewards knowing which tasks are easy.",
        ),
        Metric(
            "auroc_within",
            "AUROC, within group",
            "groups",
            "higher",
            0,
            1,
            "Mean ranking inside a mixed delegation, every delegation once; difficulty cannot help here.",
        ),
        Metric(
            "spearman_within",
            "Spearman, within group",
            "groups",
            "higher",
            -1,
            1,
            "Mean over mixed delegations of the rank correlation inside one; equal scores count 0.",
        ),
        Metric(
            "kendall_within",
            "Kendall tau-b, within group",
            "groups",
            "higher",
            -1,
            1,
            "Mean over mixed delegations of the pair concordance inside one; equal scores count 0.",
        ),
        Metric(
            "auroc_gap",
            "AUROC, pooled minus within",
            "groups",
            "lower",
            -1,
            1,
            "What merely knowing the task adds: far above 0, scores tell easy tasks from hard, not good work from bad.",
        ),
        Metric("spearman", "Spearman", "scores", "higher", -1, 1, "Rank correlation of score and success, pooled."),
        Metric("kendall", "Kendall tau-b", "scores", "higher", -1, 1, "Pair concordance with ties, pooled."),
        Metric(
            "score_kappa",
            "Cohen's kappa at 0.5",
            "scores",
            "higher",
            -1,
            1,
            "The score as a verdict (success from 0.5 on) against the label, beyond chance; mind the base rate.",
        ),
        Metric(
            "score_agreement",
            "Raw agreement at 0.5",
            "scores",
            "higher",
            0,
            1,
            "Share of scored nodes on which score and label say the same.",
            percent=True,
        ),
        Metric(
            "score_rate",
            "Scores of 0.5 and more",
            "scores",
            "zero",
            0,
            1,
            "Share of the scored nodes that the score calls a success.",
            percent=True,
        ),
        Metric(
            "score_sensitivity",
            "Successes at 0.5 and more",
            "scores",
            "higher",
            0,
            1,
            "Share of successes that the score calls one.",
            percent=True,
        ),
        Metric(
            "score_specificity",
            "Failures below 0.5",
            "scores",
            "higher",
            0,
            1,
            "Share of failures that the score calls one.",
            percent=True,
        ),
    )
}
"""Metrics of every slice."""

CHECKS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "drift",
            "Drift",
            "changes",
            "zero",
            -2,
            2,
            "Change of score minus change of success on the same tasks from one epoch to the next: above 0 scores rise"
            " and success does not follow.",
        ),
        Metric("score_change", "Change of score", "changes", "zero", -1, 1, "Mean change of a task's mean score."),
        Metric(
            "success_change", "Change of success", "changes", "zero", -1, 1, "Mean change of a task's success rate."
        ),
        Metric(
            "label_leak",
            "Label leak",
            "scores",
            "zero",
            -2,
            2,
            "How much more a final score above 0 exceeds its weighted criteria in successes than in failures: above 0"
            " the final score knows something that the criteria do not.",
        ),
        Metric(
            "length_partial",
            "Length, success held fixed",
            "scores",
            "zero",
            -1,
            1,
            "Correlation of score and log length among nodes of one verdict: above 0 long work is paid for length.",
        ),
        Metric(
            "idle_score",
            "Score of doing nothing",
            "scores",
            "lower",
            0,
            1,
            "Mean score of failures that left the world as they found it.",
        ),
        Metric(
            "top_share",
            "Full scores",
            "scores",
            "zero",
            0,
            1,
            "Share of scores of at least 0.95; when it nears 1 the scorer has stopped judging.",
            percent=True,
        ),
        Metric(
            "self_preference",
            "Self-preference",
            "scores",
            "zero",
            -2,
            2,
            "Score minus success where the scorer's own policy version acted, minus the same elsewhere.",
        ),
    )
}
"""Metrics of the whole only."""

HEADLINES: tuple[str, ...] = ("pair_accuracy", "mean_hinge", "calibration_error")

SECTIONS: dict[str, tuple[str, ...]] = {
    "Ranking inside a delegation": (
        "pair_accuracy",
        "pair_accuracy_strict",
        "group_accuracy_strict",
        "tie_rate",
        "margin_violation",
        "mean_gap",
        "mean_hinge",
        "group_hinge",
    ),
    "Level of the scores": ("bias", "mean_score", "success_rate"),
    "Calibration curve": ("calibration_error", "curve_error", "ece", "ece_bins", "max_gap"),
    "Proper score": ("skill", "brier", "reliability", "resolution", "uncertainty"),
    "Ranking over all nodes, and inside a delegation": (
        "auroc",
        "auroc_within",
        "auroc_gap",
        "spearman",
        "spearman_within",
        "kendall",
        "kendall_within",
    ),
    "The score as a verdict": (
        "score_kappa",
        "score_agreement",
        "score_rate",
        "score_sensitivity",
        "score_specificity",
    ),
}
"""Metrics of every slice by section of the report."""
