"""`CollectConfig`: everything that decides what a collect phase plays and how.

Invariant: equal resolved configs play the same groups with the same seeds; where a policy truncates its sampling
and the groups are for training, the config is refused, because a truncated distribution has no honest ratio.

Run: ``sera collect --config configs/textcraft_scripted.yaml --store runs/store --dry-run`` prints it resolved.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from collect import settings
from collect.judge_config import JudgeConfig
from collect.policy_config import MODEL_ROLES, PolicyConfig
from collect.tree_config import MOST_TRIES, Budgets, DelegationConfig, RubricConfig, SamplingConfig, SandboxConfig
from collect.world_config import WorldConfig
from schemas.words import Purpose, Role
from sera_data.config import Config

GroupCount = int | Literal["all"]
TRAINING: tuple[Purpose, ...] = ("execution", "delegation", "rubric")


class Groups(Config):
    """Number of groups (tasks with all their samples) per purpose; one purpose may say 'all' tasks left."""

    execution: GroupCount = Field(default=0, description="Groups whose trees are credited in the execution stage.")
    delegation: GroupCount = Field(default=0, description="Groups for the delegation stage.")
    rubric: GroupCount = Field(default=0, description="Groups for the rubric stage; their delegations are forked.")
    eval: GroupCount = Field(default=0, description="Groups for evaluation only.")
    select: GroupCount = Field(default=0, description="Groups for choosing a checkpoint.")
    warm: GroupCount = Field(default=0, description="Groups whose transcripts warm-start a policy.")

    @model_validator(mode="after")
    def _one_all(self) -> Self:
        counts = self.counts()
        everything = [purpose for purpose, count in counts.items() if count == "all"]
        if len(everything) > 1:
            msg = f"only one purpose may be 'all', got {', '.join(everything)}"
            raise ValueError(msg)
        negative = [purpose for purpose, count in counts.items() if isinstance(count, int) and count < 0]
        if negative:
            msg = f"a number of groups is 0 or more or 'all', got {negative[0]}={counts[negative[0]]}"
            raise ValueError(msg)
        if not any(counts.values()):
            msg = "no groups: set at least one purpose above 0, for example groups.execution=4"
            raise ValueError(msg)
        return self

    def counts(self) -> dict[Purpose, GroupCount]:
        """Counts by purpose, in the order in which they are dealt."""
        return {
            "execution": self.execution,
            "delegation": self.delegation,
            "rubric": self.rubric,
            "eval": self.eval,
            "select": self.select,
            "warm": self.warm,
        }

    def trains(self) -> bool:
        """True when any group is for a training stage."""
        return any(self.counts()[purpose] for purpose in TRAINING)


class CollectConfig(Config):
    """One collect phase."""

    name: str = Field(default="collect", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="First part of the run id.")
    seed: int = Field(default=0, ge=0, description="Run seed, from which every other seed derives.")
    world: WorldConfig = Field(default_factory=lambda: WorldConfig(), description="World and tasks.")
    policy: PolicyConfig = Field(default_factory=lambda: PolicyConfig(), description="Policies by role.")
    style: Literal["auto", "terse", "full"] = Field(
        default="auto", description="Prompt style. auto: the one the policy was made for, 'full' where it does not say."
    )
    dialect: Literal["auto", "json", "blocks", "code"] = Field(
        default="auto", description="How agents write their calls. auto: the world's own dialect."
    )
    groups: Groups = Field(default_factory=lambda: Groups(execution=16), description="Groups per purpose.")
    samples: int = Field(default=8, ge=1, le=10_000, description="Trees per task.")
    budgets: Budgets = Field(default_factory=lambda: Budgets(), description="Limits of one tree.")
    sampling: SamplingConfig = Field(default_factory=lambda: SamplingConfig(), description="Sampling by role.")
    delegation: DelegationConfig = Field(default_factory=lambda: DelegationConfig(), description="Forking.")
    rubric: RubricConfig = Field(default_factory=lambda: RubricConfig(), description="Rubrics and scores.")
    judge: JudgeConfig | None = Field(
        default=None, description="Judge of nodes whose goal no program can check; null: they get no verdict."
    )
    sandbox: SandboxConfig = Field(default_factory=lambda: SandboxConfig(), description="Limits of cells of code.")
    infra_error_limit: float = Field(
        default=0.5, ge=0, le=1, description="A unit with a larger share of trees lost to infrastructure stops the job."
    )
    tree_retries: int = Field(
        default=0,
        ge=0,
        le=MOST_TRIES,
        description="Times a tree lost to infrastructure is played again from the start.",
    )
    concurrency: int = Field(default=64, ge=1, description="Trees in flight.")
    deterministic: bool = Field(default=False, description="Play units one at a time, so that batches repeat exactly.")
    groups_per_unit: int = Field(default=1, ge=1, description="Groups committed together as one shard.")

    @model_validator(mode="after")
    def _honest_sampling(self) -> Self:
        truncated = [role for role in MODEL_ROLES if getattr(self.sampling, role).top_p < 1]
        if truncated and self.groups.trains():
            role = truncated[0]
            value = getattr(self.sampling, role).top_p
            msg = (
                f"sampling.{role}.top_p={value} truncates the distribution, so the importance ratio of training groups"
                " would be wrong; set it to 1, or collect only eval, select or warm groups"
            )
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _best_of_measures(self) -> Self:
        if self.delegation.mode != "best_of":
            return self
        if self.groups.trains():
            msg = (
                "delegation.mode=best_of keeps the better of several candidates, so its trees are no sample of the"
                " policy; collect only eval, select or warm groups with it"
            )
            raise ValueError(msg)
        if self.delegation.selector == "judge" and self.inline_judge() is None:
            msg = "delegation.selector=judge needs a judge: set judge.spec, for example openai:MODEL@URL"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _one_judge(self) -> Self:
        said = self.judge is not None and self.judge.spec is not None
        if said and self.policy.roles.judge is not None:
            msg = "judge.spec and policy.roles.judge both name a judge; leave one of them out"
            raise ValueError(msg)
        if self.judge is not None and not said and self.policy.roles.judge is None:
            msg = "the section judge names nobody: set policy.roles.judge or judge.spec, for example openai:MODEL@URL"
            raise ValueError(msg)
        return self

    def inline_judge(self) -> JudgeConfig | None:
        """The judge section with its spec, from wherever it is named; None where nobody judges."""
        if self.policy.roles.judge is None:
            return self.judge
        return (self.judge or JudgeConfig()).model_copy(update={"spec": self.policy.spec("judge")})

    def roles(self) -> tuple[Role, ...]:
        """Roles that the phase needs: agents always, writers and scorers where rubrics are written."""
        counts = self.groups.counts()
        chooses = self.delegation.mode == "best_of" and self.delegation.selector == "rubric"
        return MODEL_ROLES if chooses or any(counts[purpose] for purpose in self.rubric.purposes) else ("act",)

    def tree_settings(self) -> settings.TreeSettings:
        """The same as the runner takes it."""
        return settings.TreeSettings(
            budgets=settings.Budgets(**dict(self.budgets)),
            act=settings.RoleSampling(**dict(self.sampling.act)),
            writer=settings.RoleSampling(**dict(self.sampling.writer)),
            scorer=settings.RoleSampling(**dict(self.sampling.scorer)),
            delegation=settings.DelegationSettings(**dict(self.delegation)),
            rubric=settings.RubricSettings(**dict(self.rubric)),
            sandbox=settings.SandboxSettings(**dict(self.sandbox)),
            deterministic=self.deterministic,
        )
