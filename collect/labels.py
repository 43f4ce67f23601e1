"""Labellers: whatever gives verdicts on nodes, opened by spec through the entry-point group `sera.labellers`.

Invariant: every opinion is one row of `labels`; one without a verdict has a reason and no value.
Spec: 'NAME' or 'NAME:ARGUMENT', for example 'program', 'rule:finish' or 'openai:qwen3-32b@http://localhost:8000/v1'.
A judge may also be any policy, for example 'transformers:DIR'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

from collect.judge_config import JudgeConfig, JudgeSettings
from collect.policy import Policy
from collect.records import Row
from collect.subject import Subject
from collect.world import World
from schemas.words import LabelKind, LabelUse
from sera_data.errors import SeraError, UsageError

GROUP = "sera.labellers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One vote. value: 1 success, 0 failure, None with `error` saying why there is none.

    details and params are sorted JSON. prompt_tokens (cached_tokens of them from a cache), completion_tokens: as the
    endpoint counts them. cost: price of the vote, None without a price file.
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
    cached_tokens: int | None = None
    cost: float | None = None


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


def open_judge(
    spec: str, *, settings: JudgeSettings, options: Mapping[str, Any] | None = None, shared: Policy | None = None
) -> Labeller:
    """A labeller of kind judge, or any policy as a judge.

    options: of its engine. shared: the policy of that spec and options when it is open for another role already.
    """
    if _names_policy(spec):
        from collect.judge_labeller import open_policy_judge
        from collect.policies import open_policy

        policy = shared or open_policy(spec, options=options)
        return open_policy_judge(policy, settings=settings, owned=shared is None)
    if options:
        spec, settings = _with_options(spec, settings, options)
    labeller = open_labeller(spec, settings=settings)
    if labeller.kind != "judge":
        msg = f"{spec!r} is a labeller of kind {labeller.kind}, not a judge"
        raise UsageError(msg, hint=f"sera label STORE --labeller {spec}")
    return labeller


def _names_policy(spec: str) -> bool:
    """Whether a judge's spec names a policy and no labeller; UsageError when it names neither."""
    from collect.policies import engines
    from collect.policy_directory import is_policy_directory

    name, known = spec.partition(":")[0], labellers()
    if name in known:
        return False
    if name in engines() or is_policy_directory(Path(spec)):
        return True
    found = f"labellers: {', '.join(known)}; policies: {', '.join(engines())}"
    msg = f"no labeller {spec!r} and no policy of that name; {found}"
    raise UsageError(msg, hint="for example openai:MODEL@http://localhost:8000/v1, rule:finish, or a policy directory")


def _with_options(spec: str, settings: JudgeSettings, options: Mapping[str, Any]) -> tuple[str, JudgeSettings]:
    """A judge's spec and settings with the options of its engine, as the policy `openai` takes them."""
    from collect.openai_policy import ENGINE, read_options, read_policy_address

    name, _, argument = spec.partition(":")
    if name != ENGINE:
        msg = f"judge {spec!r} takes no options, got {', '.join(sorted(options))}"
        raise UsageError(msg, hint="options belong to policies; a judge is set up in the section judge")
    given = read_options(options)
    address = read_policy_address(argument, given)
    own = {key: getattr(given, key) for key in given.model_fields_set if key != "base_url"}
    return f"{name}:{address.model}@{address.url}", settings.model_copy(update=own)


def open_inline_judge(
    config: JudgeConfig | None, *, options: Mapping[str, Any] | None = None, shared: Policy | None = None
) -> InlineJudge | None:
    """The judge that a phase names, or None."""
    if config is None:
        return None
    assert config.spec is not None  # CollectConfig refuses a section that names nobody
    return InlineJudge(open_judge(config.spec, settings=config, options=options, shared=shared), config)


def require_judge(config: JudgeConfig | None, *, options: Mapping[str, Any] | None = None) -> None:
    """Refuse a judge that cannot be opened, without loading a model for it."""
    if config is None or config.spec is None:
        return
    if not _names_policy(config.spec):
        open_judge(config.spec, settings=config, options=options)


def served_by(labeller: Labeller | None) -> list[dict[str, Any]]:
    """The `runs.policies` element of a judge; [] for other labellers. Nobody knows the hashes of a hosted one."""
    engine = getattr(labeller, "engine", None)
    name, identity = getattr(engine, "name", None), getattr(engine, "identity", None)
    if labeller is None or labeller.kind != "judge" or not isinstance(name, str):
        return []
    hashes = {key: getattr(identity, key, None) for key in ("weights_sha256", "tokenizer_sha256", "template_sha256")}
    version = getattr(identity, "version", 0)
    return [
        {"role": "judge", "name": name, **hashes, "engine": getattr(identity, "engine", "judge"), "version": version}
    ]


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
        "cost": opinion.cost,
    }
