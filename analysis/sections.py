"""The eleven sections of the audit: what each asks, the number it leads with, and the metrics that it shows.

Invariant: a gate belongs to exactly one section, by its metric; the order here is that of every form of the report.
Run: ``sera audit STORE`` prints one line per section.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """One section.

    short: name and headline for narrow tables. lead: the metric it leads with; metrics: all it shows. rooms: prefixes
    of gates that belong here.
    """

    number: int
    key: str
    short: str
    title: str
    question: str
    lead: str | None
    metrics: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()


SECTIONS: tuple[Section, ...] = (
    Section(
        0,
        "coverage",
        "Coverage: mixed delegations",
        "Coverage and integrity",
        "What do the numbers rest on, and is it sound?",
        None,
        rooms=("coverage", "integrity"),
    ),
    Section(
        1,
        "ranking",
        "Ranking: pair accuracy",
        "Ranking inside a delegation",
        "Does the rubric rank success above failure?",
        "pair_accuracy",
        (
            "pair_accuracy",
            "pair_accuracy_strict",
            "group_accuracy_strict",
            "tie_rate",
            "margin_violation",
            "mean_gap",
            "mean_hinge",
            "group_hinge",
        ),
    ),
    Section(
        2,
        "bias",
        "Level: bias",
        "Level of the scores",
        "Are scores too generous or too strict?",
        "bias",
        ("bias", "mean_score", "success_rate"),
    ),
    Section(
        3,
        "curve",
        "Curve: calibration error",
        "Calibration curve",
        "Does a score mean its success rate everywhere?",
        "calibration_error",
        ("calibration_error", "curve_error", "ece", "ece_bins", "max_gap"),
    ),
    Section(
        4,
        "proper",
        "Proper score: Brier skill",
        "Proper score",
        "Do scores predict better than the base rate?",
        "skill",
        ("skill", "brier", "reliability", "resolution", "uncertainty"),
    ),
    Section(
        5,
        "rank",
        "Rank: AUROC within group",
        "Global and within-group rank",
        "Do scores tell good work from bad, or easy tasks from hard?",
        "auroc_within",
        ("auroc_within", "auroc", "auroc_gap", "spearman_within", "spearman", "kendall_within", "kendall"),
    ),
    Section(6, "slices", "Slices: worst pair accuracy", "Slices", "Does it hold everywhere?", None),
    Section(
        7,
        "drift",
        "Drift: score minus success",
        "Drift",
        "Do scores rise without success?",
        "drift",
        ("drift", "score_change", "success_change"),
    ),
    Section(
        8,
        "agreement",
        "Agreement: kappa at 0.5",
        "Agreement",
        "Does the verdict of scores and judges agree with the program's?",
        "score_kappa",
        ("score_kappa", "score_agreement", "score_rate", "score_sensitivity", "score_specificity"),
        rooms=("judge",),
    ),
    Section(
        9, "items", "Criteria: saturated", "Rubric criteria", "Which criteria carry signal?", None, rooms=("items",)
    ),
    Section(
        10,
        "cheating",
        "Cheating: label leak",
        "Leaks and hacking",
        "Are scores made of the work alone?",
        "label_leak",
        ("label_leak", "length_partial", "idle_score", "top_share", "self_preference"),
        rooms=("rubrics",),
    ),
)

BY_METRIC = {name: section.key for section in SECTIONS for name in section.metrics}
BY_ROOM = {room: section.key for section in SECTIONS for room in section.rooms}
HOME = {"coverage.rubrics_distinct": "cheating"}


def section_of(metric: str, part: str) -> str:
    """Key of the section that a gate on `metric` over `part` belongs to."""
    if metric in HOME:
        return HOME[metric]
    room, _, _ = metric.rpartition(".")
    if room:
        return BY_ROOM[room]
    return BY_METRIC[metric] if part in ("all", "worst") else "slices"
