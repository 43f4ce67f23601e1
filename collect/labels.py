"""Labellers: whatever gives verdicts on nodes, opened by spec through the entry-point group `sera.labellers`.

Invariant: every opinion is one row of `labels`; one without a verdict has a reason and no value.
Spec: 'NAME' or 'NAME:ARGUMENT', for example 'program', 'rule:finish' or 'openai:qwen3-32b@http://localhost:8000/v1'.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from collect.judge_config import JudgeConfig, JudgeSettings
from collect.records import Row
from collect.subject import Subject
from collect.world import World
from schemas.words import LabelKind, LabelUse
from sera_data.errors import SeraError, UsageError

GROUP = "sera.labellers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One vote. value: 1 success, 0 failure, None with `error` saying why there is none.

    details and params are sorted JSON. prompt_tokens, completion_tokens: as the endpoint counts them.
    """

    value: float | None
    error: str | None = None
    details: str | None = None
    raw_text: str | None = None
    prompt_sha256: str | None = None
    params: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_s: float | None = None


class LabellerRefused(SeraError):
    """A labeller that cannot work at all as it is set up (wrong key, unknown model): nothing was labelled by it."""


class Labeller(Protocol):
    """Gives opinions on nodes; many may be in flight, at most `concurrency`."""

    kind: LabelKind
    concurrency: int

    def signature(self, world: World[Any]) -> tuple[str, str]:
        """Source and version of its labels on nodes of a world; votes of equal signature are repetitions."""

    async def label(self, subject: Subject, *, attempt: int) -> Opinion:
        """One vote on a node. Raises LabellerRefused when no node can be labelled."""

    async def close(self) -> None:
        """Free what it holds."""


@dataclass(frozen=True, slots=True)
class InlineJudge:
    """The judge of a collect phase and how it is used."""

    labeller: Labeller
    config: JudgeConfig


def labellers() -> dict[str, EntryPoint]:
    """Registered labellers by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def open_labeller(spec: str, *, settings: JudgeSettings) -> Labeller:
    """The labeller of a spec; UsageError with the allowed names for an unknown one."""
    name, _, argument = spec.partition(":")
    table = labellers()
    if name not in table:
        msg = f"no labeller {spec!r}; allowed: {', '.join(table)}, as NAME or NAME:ARGUMENT"
        raise UsageError(msg, hint="for example program, rule:finish, or openai:MODEL@http://localhost:8000/v1")
    labeller: Labeller = table[name].load()(argument, settings=settings)
    return labeller


def open_judge(spec: str, *, settings: JudgeSettings) -> Labeller:
    """The same, but a labeller of kind judge only."""
    labeller = open_labeller(spec, settings=settings)
    if labeller.kind != "judge":
        msg = f"{spec!r} is a labeller of kind {labeller.kind}, not a judge"
        raise UsageError(msg, hint=f"sera label STORE --labeller {spec}")
    return labeller


def open_inline_judge(config: JudgeConfig | None) -> InlineJudge | None:
    """The judge that a phase names, or None."""
    return None if config is None else InlineJudge(open_judge(config.spec, settings=config), config)


def served_by(labeller: Labeller | None) -> list[dict[str, Any]]:
    """The `runs.policies` element of a judge, whose hashes nobody knows; [] for other labellers."""
    name = getattr(getattr(labeller, "engine", None), "name", None)
    if labeller is None or labeller.kind != "judge" or not isinstance(name, str):
        return []
    hashes = dict.fromkeys(("weights_sha256", "tokenizer_sha256", "template_sha256"))
    return [{"role": "judge", "name": name, **hashes, "engine": "judge", "version": 0}]


def label_row(
    opinion: Opinion,
    *,
    node_id: str,
    signature: tuple[str, str],
    kind: LabelKind,
    attempt: int,
    use: LabelUse,
    inclusion_probability: float,
) -> Row:
    """Row of `labels` without provenance, tree and task."""
    source, version = signature
    return {
        "node_id": node_id,
        "source": source,
        "version": version,
        "attempt": attempt,
        "kind": kind,
        "use": use,
        "inclusion_probability": inclusion_probability,
        "valid": opinion.value is not None,
        "value": opinion.value,
        "error": None if opinion.value is not None else opinion.error or "no reason given",
        "details": opinion.details,
        "raw_text": opinion.raw_text,
        "prompt_sha256": opinion.prompt_sha256,
        "params": opinion.params,
        "prompt_tokens": opinion.prompt_tokens,
        "completion_tokens": opinion.completion_tokens,
        "latency_s": opinion.latency_s,
    }
