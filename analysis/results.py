"""What an audit found, as frozen models; `Audit.model_dump_json()` is the output of ``sera audit --json``.

Invariant: an undefined number is null and says why in `note`; nothing here is NaN or infinite.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Status = Literal["pass", "warn", "fail", "too few"]


class Result(BaseModel):
    """Base: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Estimate(Result):
    """A metric with its 95 % task-clustered interval and standard error (`spread`). `n` counts `unit`."""

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    n: int = 0
    unit: Literal["pairs", "groups", "scores", "nodes", "repeats", "votes", "changes", "rubrics"]
    tasks: int = 0
    note: str | None = None


class Slice(Result):
    """All metrics on one part of the data, for example depth 2."""

    slice: str
    level: str
    scores: int
    score_tasks: int
    pairs: int
    groups: int
    pair_tasks: int
    metrics: dict[str, Estimate]


class Agreement(Result):
    """A judge (or people) against the program on one part of the data.

    nodes: with verdicts of both. repeats: with two valid votes or more. votes, invalid: given in all.
    """

    kind: str
    source: str
    version: str
    slice: str
    level: str
    nodes: int
    repeats: int
    votes: int
    invalid: int
    metrics: dict[str, Estimate]


class ReliabilityRow(Result):
    """Success rate at one score (or mean score of a bin)."""

    score: float
    n: int
    success_rate: float
    low: float | None
    high: float | None


class Check(Result):
    """One integrity check: `found` faults in `looked_at` rows."""

    check: str
    meaning: str
    found: int
    looked_at: int


class WorstSlice(Result):
    """The slice with the lowest pair accuracy among those with enough pairs, or why there is none."""

    slice: str | None = None
    level: str | None = None
    text: str


class StageUpdates(Result):
    """Optimizer steps of one stage in one epoch."""

    updates: int
    skipped: int
    skip_reasons: str | None = None
    version_in: int | None = None
    version_out: int | None = None
    datums: int | None = None
    trained_tokens: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    ratio_mean: float | None = None
    kl: float | None = None


class Epoch(Result):
    """One row of the learning table. Success leaves infrastructure errors out."""

    epoch: int
    trees: int = 0
    tasks: int = 0
    infra_errors: int = 0
    success: float | None = None
    success_execution: float | None = None
    delegations_per_tree: float | None = None
    turns_per_tree: float | None = None
    tokens_per_tree: float | None = None
    forked: int = 0
    mixed: int = 0
    mixed_share: float | None = None
    pairs: int = 0
    pair_accuracy: Estimate
    mean_hinge: Estimate
    calibration_error: Estimate
    updates: dict[str, StageUpdates]


class Item(Result):
    """One rubric criterion by name, over all rubrics that have it, beside the verdict of the nodes.

    phi: correlation with success; lift: success rate where it passes (0.5 or more) minus elsewhere; bits: mutual
    information of pass and success; saturated: passes in more than 95 % or less than 5 % of nodes, or never varies.
    """

    name: str
    n: int
    mean_score: float | None
    pass_rate: float | None
    phi: float | None
    phi_low: float | None
    phi_high: float | None
    lift: float | None
    bits: float | None
    saturated: bool


class Items(Result):
    """What rubric criteria tell: by name, by place in the rubric, and pairs that say the same."""

    saturated: float | None
    table: list[Item]
    positions: list[dict[str, Any]]
    redundant: list[dict[str, Any]]


class Texts(Result):
    """Rubric texts that name what they must not know."""

    rubrics: int
    with_words: int
    with_ids: int
    revealing: int
    words: str
    distinct_texts: int


class DriftStep(Result):
    """The same tasks in one epoch and the next."""

    step: str
    drift: Estimate
    score_change: Estimate
    success_change: Estimate


class Recalibration(Result):
    """Brier score of an epoch with its scores as they are, and mapped by the epoch before; gain = the difference."""

    epoch: int
    next_epoch: int
    n: int
    brier: float
    brier_mapped: float
    gain: float
    low: float | None
    high: float | None


class Divergence(Result):
    """Score minus label over the last three epochs; `rising`: twice, and the whole rise above 0 for sure."""

    epochs: list[int]
    biases: list[float]
    rise: float
    low: float | None
    high: float | None
    rising: bool


class SectionResult(Result):
    """One section: its headline over usable rows, and with unusable scores counted as worst; its gates' verdict.

    status: the worst of its gates; 'pass' without any that could be judged is 'too few'.
    """

    number: int
    key: str
    title: str
    question: str
    status: Status
    headline: Estimate | None
    worst: Estimate | None
    text: str


class Change(Result):
    """A headline now and in an older audit; interval of the difference, paired by tasks when both are at hand."""

    metric: str
    before: float | None
    now: float | None
    change: float | None
    low: float | None
    high: float | None


class Comparison(Result):
    """This audit against an older one. matches: whether it was measured for the same; differences: in words."""

    against: str
    matches: bool
    differences: list[str]
    changes: list[Change]


class Gate(Result):
    """One gate after judging: what was measured, the thresholds, and the verdict in words.

    p_warn, p_fail: Holm-corrected p of "not beyond the threshold"; null for exact counts and without replicates.
    """

    section: str
    metric: str
    slice: str
    level: str
    value: float | None
    n: int
    min_n: int
    side: Literal["below", "above", "away"]
    warn: float | None
    fail: float | None
    p_warn: float | None = None
    p_fail: float | None = None
    status: Status
    text: str


class Agent(Result):
    """A writer or scorer that the audited rows come from; `n` rubrics written or scores given."""

    role: str
    name: str
    version: int
    n: int


class Identity(Result):
    """What the numbers were measured for; a calibration result holds for this and nothing else.

    snapshot_hash: one hash over the seals and shards audited; rubric_prompts: one over the audited rubrics' prompts;
    held_out: the share of tasks kept from training that alone was audited, or null for all tasks.
    """

    path: str
    view: str
    snapshot: str | None
    snapshot_sha256: str | None
    epochs: list[int] | None
    held_out: float | None = None
    format_version: str | None
    schema_version: str | None
    seals: dict[str, str]
    unsealed_shards: int
    snapshot_hash: str
    rubric_prompts: str
    agents: list[Agent]
    policies: list[dict[str, Any]]


class Audit(Result):
    """Everything that the report shows."""

    format: Literal[2] = 2
    identity: Identity
    reps: int
    seed: int
    margin: float
    coverage: dict[str, int]
    shares: dict[str, float | None]
    integrity: list[Check]
    sections: list[SectionResult]
    headline: dict[str, Estimate]
    worst: dict[str, Estimate]
    checks: dict[str, Estimate]
    reliability: list[ReliabilityRow]
    reliability_rule: str
    score_histogram: list[dict[str, Any]]
    gap_histogram: list[dict[str, Any]]
    slices: list[Slice]
    worst_slice: WorstSlice
    epochs: list[Epoch]
    rows: dict[str, int]
    bytes: dict[str, int]
    drift: list[DriftStep]
    recalibration: list[Recalibration]
    divergence: Divergence | None
    agreement: list[Agreement]
    repeat_sd: float | None
    repeats: int
    items: Items
    texts: Texts
    comparison: Comparison | None = None
    gates: list[Gate]
    summary: list[str]
    html: str | None = None
