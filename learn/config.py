"""`LearnConfig` and `LoopConfig`: everything that decides how a learn phase trains and how a loop alternates.

Invariant: ratio bounds are absolute numbers; a config that says epsilon is refused, because libraries mean different
things by it and one of those readings scales every token by 0.2. The learning rate is constant.

Run: ``sera learn --dry-run`` and ``sera loop --dry-run`` print it resolved.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from collect.config import CollectConfig
from learn.schedule import parse_schedule
from schemas.words import FinishReason, Stage
from sera_data.config import COLDEST, HOTTEST, Config

PerStage = float | dict[Stage, float]
Decay = Annotated[float, Field(ge=0, lt=1)]
Brake = Literal["ratio_max", "kl_coef", "stage_scale", "veto", "entropy_floor"]
BRAKES: dict[Brake, float] = {"ratio_max": 5.0, "kl_coef": 0.0, "stage_scale": 1.0, "veto": 0.0, "entropy_floor": 0.0}
"""What each is where nothing is said; the last four are off then."""
BUDGET = {"cpu": 1024, "cuda": 32768}
"""Tokens of a micro-batch where nothing is said. On CPU 2,048 is no faster and needs twice the memory."""
HIGHEST = {"cpu": 2048, "cuda": 32768}
"""As far as it grows for a longer sequence."""


class StaleConfig(Config):
    """What is done with old data; the version gap is the number of updates since they were sampled."""

    fresh_gap: int = Field(default=4, ge=0, description="Highest gap at which the bounds of the loss hold as they are.")
    ratio_max: float = Field(default=2.0, gt=0, description="Highest ratio beyond it, where ratio_max is not lower.")
    gate_min: float = Field(default=0.5, ge=0, description="Beyond it, lowest geometric mean ratio of a sequence.")
    gate_max: float = Field(default=2.0, gt=0, description="Beyond it, highest geometric mean ratio of a sequence.")
    limit: int = Field(default=30, ge=0, description="Highest gap that cispo and grpo train on.")
    beyond: Literal["refuse", "allow"] = Field(
        default="refuse", description="Older data and those of other weights: refuse, or allow (--allow-stale)."
    )
    min_ess: float = Field(
        default=0.1, ge=0, le=1, description="Lowest effective sample size share of an update of cispo or grpo."
    )


class FilterConfig(Config):
    """Which of the data are trained; what a group is paid does not depend on it."""

    max_gap: int | None = Field(
        default=None, ge=0, description="Most updates between a turn's sampling and the start of the phase; null: any."
    )
    finish_reasons: tuple[FinishReason, ...] = Field(
        default=(), description="How a trained turn may have ended, for example [stop]; empty: in any way."
    )
    min_ess: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Tokens of a version gap whose share of effective samples in an update is lower are left out.",
    )


class LossConfig(Config):
    """The loss and its brakes."""

    kind: Literal["cispo", "sft", "topr", "m2po", "grpo"] = Field(
        default="cispo", description="cispo; for old data topr, m2po; or a baseline: sft, grpo (clipped ratio)."
    )
    ratio_min: float = Field(default=0.0, ge=0, description="Lowest ratio pi/mu, absolute; 0 = no lower bound.")
    ratio_max: PerStage = Field(
        default=5.0, description="Highest ratio pi/mu, absolute: a number, or one per stage {rubric: 2.0}, 5 elsewhere."
    )
    kl_coef: PerStage = Field(
        default=0.0, description="Weight of the k3 KL to the start weights of the phase; a number or one per stage."
    )
    stage_scale: dict[Stage, float] = Field(
        default_factory=dict, description="Factor on the learning rate of a stage's updates; 1 where absent."
    )
    veto: PerStage = Field(
        default=0.0,
        description="A token less likely than this now, whose advantage is negative, counts for nothing; 0 = none.",
    )
    entropy_floor: PerStage = Field(
        default=0.0, description="A phase ends where the mean entropy of an update, in nats, is lower; 0 = never."
    )
    m2_bound: float = Field(
        default=0.04, gt=0, description="Of m2po: highest mean square of the log ratios of the tokens that count."
    )
    stale: StaleConfig = Field(default_factory=lambda: StaleConfig(), description="Old data.")
    temperature: float = Field(
        default=1.0, ge=COLDEST, le=HOTTEST, description="Sampling temperature of the data, applied to pi as well."
    )

    @model_validator(mode="before")
    @classmethod
    def _no_epsilon(cls, data: Any) -> Any:
        return _refuse_epsilon(data)

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        for stage in ("execution", "delegation", "rubric"):
            if self.ratio_bound(stage) < self.ratio_min:
                msg = (
                    f"ratio_max must not be below ratio_min {self.ratio_min}, got {self.ratio_bound(stage)} for {stage}"
                )
                raise ValueError(msg)
            if self.ratio_bound(stage) <= 0:
                msg = f"ratio_max must be above 0, got {self.ratio_bound(stage)} for {stage}: at 0 nothing is learned"
                raise ValueError(msg)
            for name in ("kl_coef", "stage_scale", "veto", "entropy_floor"):
                if (value := self.brake(name, stage)) < 0:
                    msg = f"{name} is 0 or more, got {value} for {stage}"
                    raise ValueError(msg)
            if self.brake("veto", stage) >= 1:
                msg = f"veto is a probability below 1, got {self.brake('veto', stage)} for {stage}"
                raise ValueError(msg)
        return self

    def ratio_bound(self, stage: Stage) -> float:
        """ratio_max of a stage."""
        return self.brake("ratio_max", stage)

    def kl(self, stage: Stage) -> float:
        """kl_coef of a stage."""
        return self.brake("kl_coef", stage)

    def scale(self, stage: Stage) -> float:
        """Factor on the learning rate of a stage."""
        return self.brake("stage_scale", stage)

    def brake(self, name: Brake, stage: Stage) -> float:
        """A brake's value in a stage."""
        return _of_stage(getattr(self, name), stage, BRAKES[name])


class OptimizerConfig(Config):
    """AdamW with a constant learning rate; the defaults are those of the SERA paper's public code."""

    lr: float = Field(default=3e-6, gt=0, le=1, description="Learning rate; about 1e-4 for the pocket policy.")
    betas: tuple[Decay, Decay] = Field(default=(0.9, 0.95), description="Decay of the two moments.")
    eps: float = Field(default=1e-8, ge=1e-20, le=1, description="Adam's denominator term.")
    weight_decay: float = Field(default=0.017, ge=0, le=1, description="Decoupled weight decay.")
    gradient_clip: float = Field(default=1.0, ge=1e-6, description="Highest global gradient norm.")


class LoraConfig(Config):
    """Low-rank adapters in place of the full weights: W + alpha / r * B A with A [r, in] and B [out, r] trained."""

    r: int = Field(default=16, ge=1, le=1024, description="Rank of the adapters.")
    alpha: int = Field(default=32, ge=1, le=100_000, description="Their scale is alpha / r.")
    targets: tuple[str, ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Names of the linear layers that get one.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the start of A; B starts at zero.")

    @property
    def scale(self) -> float:
        """Factor on B A."""
        return self.alpha / self.r


class EngineConfig(Config):
    """How the update is computed; none of it changes the mathematics."""

    zero: Literal[0, 1, 2, 3] | None = Field(
        default=None,
        description="ZeRO stage. null: 0 on CPU, 1 on GPUs (Qwen3-4B fits one H200); 3 shards the weights.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="auto: float32 on CPU; bfloat16 with fp32 masters on GPU."
    )
    offload: Literal["none", "optimizer", "parameters"] = Field(
        default="none",
        description="Kept in CPU memory: optimizer (masters and moments, ZeRO 1-3); parameters: the weights too (3).",
    )
    tokens_per_micro_batch: int | None = Field(
        default=None,
        ge=2,
        description="Tokens of a forward pass; null: 1024 on CPU, up to 2048 for longer sequences, 32768 on GPU.",
    )
    share_prefixes: Literal["auto", "on", "off"] = Field(
        default="auto", description="Compute a token that sequences share once. auto: where it saves a quarter or more."
    )
    vocabulary_chunk: int = Field(default=2048, ge=1, description="Most trained positions projected at a time.")
    recompute: bool = Field(default=False, description="Recompute activations in backward: less memory, more time.")
    checkpoint_every: int = Field(default=4, ge=1, description="Updates between checkpoints within a phase.")
    keep_checkpoints: int = Field(default=2, ge=1, description="Newest checkpoints kept.")
    threads: int = Field(default=1, ge=1, le=1024, description="CPU threads of each rank.")

    def budget(self, device: str, longest: int) -> int:
        """Most tokens of a micro-batch on `cpu` or `cuda` for sequences of at most `longest` tokens."""
        return self.tokens_per_micro_batch or max(BUDGET[device], min(longest, HIGHEST[device]))


class LearnConfig(Config):
    """One learn phase."""

    name: str = Field(default="learn", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="First part of the run id.")
    seed: int = Field(default=0, ge=0, description="Seed of the order of groups.")
    method: str = Field(
        default="sera", description="Name of `sera methods`, NAME:recommended, or the path of a .yaml or .sql file."
    )
    credit: str | None = Field(default=None, description="Your own credit SQL file in place of the method's rules.")
    where: str | None = Field(
        default=None, description="SQL that says what of the credit is trained; --where FILE puts a file's text here."
    )
    filter: FilterConfig = Field(default_factory=lambda: FilterConfig(), description="What of the data is trained.")
    stores: tuple[str, ...] = Field(
        default=(), description="Further stores to learn from: PATH for its newest epoch, or PATH@EPOCH."
    )
    refresh: str | None = Field(
        default=None, description="Refresh run whose rubrics and scores the rubric stage reads; null: the trees' own."
    )
    logprobs: str | None = Field(
        default=None,
        description="Run of `sera refresh logprobs` whose log-probabilities stand for the engine's; null: none.",
    )
    hold_out: float = Field(
        default=0.0, ge=0, lt=1, description="Share of the tasks that no stage trains on, kept for the audit."
    )
    schedule: str | None = Field(
        default=None, description="Updates per stage, 'execution:16,delegation:2,rubric:2'; null: the method's."
    )
    updates_per_collect: int = Field(default=5, ge=1, le=100_000, description="Updates of a learn phase.")
    groups_per_update: int = Field(default=8, ge=1, le=100_000, description="Groups collected for each update.")
    reuse: int = Field(default=1, ge=1, le=1000, description="How often a phase may train on a group.")
    loss: LossConfig = Field(default_factory=lambda: LossConfig(), description="Loss and brakes.")
    optimizer: OptimizerConfig = Field(default_factory=lambda: OptimizerConfig(), description="AdamW.")
    engine: EngineConfig = Field(default_factory=lambda: EngineConfig(), description="DeepSpeed and memory.")
    lora: LoraConfig | None = Field(default=None, description="Adapters instead of full weights: {r: 16, alpha: 32}.")

    @model_validator(mode="before")
    @classmethod
    def _no_epsilon(cls, data: Any) -> Any:
        return _refuse_epsilon(data)

    @model_validator(mode="after")
    def _schedule(self) -> Self:
        if self.schedule is not None:
            parse_schedule(self.schedule)
        return self


class LoopProcesses(Config):
    """Processes of a loop on one machine, one GPU each where there are GPUs."""

    collect: int = Field(default=1, ge=1, le=1024, description="Collectors side by side, as --shard i/n.")
    learn: int = Field(default=1, ge=1, le=1024, description="Ranks of the learner, started by torchrun.")


class LoopConfig(Config):
    """Collect and learn phases in turn. `collect.groups` and `collect.policy.model` are set by the loop."""

    name: str = Field(default="loop", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="First part of the run ids.")
    policy: str = Field(default="pocket", description="Start: 'pocket' or a policy directory.")
    seed: int | None = Field(default=None, ge=0, description="Seed of both phases, instead of their own.")
    epochs: int = Field(
        default=2, ge=1, le=100_000, description="Collect epochs; each but a final one is followed by a learn phase."
    )
    engine: str = Field(
        default="transformers",
        pattern=r"^[a-z][a-z0-9_-]*$",
        description="Engine that serves the policy while collecting, for example vllm; it opens ENGINE:DIRECTORY.",
    )
    processes: LoopProcesses = Field(default_factory=lambda: LoopProcesses(), description="Processes of each phase.")
    learn_last: bool = Field(default=True, description="Also learn from the last epoch.")
    margin: float = Field(
        default=1.0,
        ge=1.0,
        le=100,
        description="Groups collected per group wanted, to make up for groups without signal.",
    )
    stop: Literal["divergence", "never"] = Field(
        default="divergence",
        description="divergence: end early when score minus label rises over two epochs, with its interval above 0.",
    )
    collect: CollectConfig = Field(default_factory=lambda: CollectConfig(), description="What is played and how.")
    learn: LearnConfig = Field(default_factory=lambda: LearnConfig(), description="How it is trained.")


def _of_stage(value: PerStage, stage: Stage, default: float) -> float:
    return value.get(stage, default) if isinstance(value, dict) else value


def _refuse_epsilon(data: Any) -> Any:
    for key in data if isinstance(data, dict) else ():
        if str(key).startswith(("epsilon", "eps_clip", "clip_eps")):
            msg = (
                f"{key!r} is not a setting: libraries mean different bounds by it. Set the absolute ratio instead, for"
                " example loss.ratio_max: 5 (and loss.ratio_min: 0)"
            )
            raise ValueError(msg)
    return data
