"""`CollectConfig`: everything that decides what a collect phase plays and how.

Invariant: equal resolved configs play the same groups with the same seeds; where a policy truncates its sampling
and the groups are for training, the config is refused, because a truncated distribution has no honest ratio.

Run: ``sera collect --config configs/textcraft_scripted.yaml --store runs/store --dry-run`` prints it resolved.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Discriminator, Field, Tag, model_validator

from collect import settings
from collect.judge_config import JudgeConfig
from collect.textcraft_tasks import PoolParams, PublishedParams
from collect.textworld_tasks import TextWorldParams
from schemas.words import Purpose, Role
from sera_data.config import Config, Temperature

GroupCount = int | Literal["all"]
TRAINING: tuple[Purpose, ...] = ("execution", "delegation", "rubric")
MOST_TRIES = 100
MODEL_ROLES: tuple[Role, ...] = ("act", "writer", "scorer")


def _kind_of_source(value: Any) -> str:
    if isinstance(value, TextWorldParams) or (isinstance(value, dict) and "generator" in value):
        return "textworld"
    if isinstance(value, PoolParams) or (isinstance(value, dict) and "worlds" in value):
        return "pool"
    return "published" if isinstance(value, (dict, PublishedParams)) else "path"


TaskSource = Annotated[
    Annotated[str, Tag("path")]
    | Annotated[PoolParams, Tag("pool")]
    | Annotated[PublishedParams, Tag("published")]
    | Annotated[TextWorldParams, Tag("textworld")],
    Discriminator(_kind_of_source),
]


class TaskQuery(Config):
    """Tasks chosen by SQL on a store."""

    sql: str = Field(description="One query that returns a column task_id; --tasks-sql FILE puts a file's text here.")
    store: str = Field(description="Store that it reads, sealed epochs only.")


class WorldConfig(Config):
    """Which world, and where its tasks come from."""

    name: str = Field(default="textcraft", description="Registered world; 'sera worlds' lists them.")
    profile: str = Field(default="rao-42", description="Rule profile of the world.")
    tasks: TaskSource | None = Field(
        default=None,
        description="Path of a task JSONL file, or build parameters (`worlds: ...` for a pool of TextCraft tasks,"
        " `generator: textworld` for TextWorld-Sync). null: give --tasks.",
    )
    chosen: TaskQuery | None = Field(
        default=None, description="Only tasks that this SQL names; without `tasks` they are read back from its store."
    )
    split: str | None = Field(default=None, description="Only tasks of this split; null = all.")
    difficulties: tuple[str, ...] | None = Field(default=None, description="Only tasks of these bands; null = all.")


class RolePolicy(Config):
    """A policy of one role with options of its own."""

    model: str = Field(description="Spec of the policy.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options passed to its engine as they are.")


class RolePolicies(Config):
    """Policy per role: a spec, or {model, options}. null = `policy.model`; for the judge: nobody judges."""

    act: str | RolePolicy | None = Field(default=None, description="Plays the agents.")
    writer: str | RolePolicy | None = Field(default=None, description="Writes rubrics.")
    scorer: str | RolePolicy | None = Field(default=None, description="Scores nodes with rubrics.")
    judge: str | RolePolicy | None = Field(
        default=None,
        description="Judges nodes that no program can check, as the section `judge` says; rule:NAME is allowed too.",
    )


class PolicyConfig(Config):
    """Who plays. Spec: 'scripted:NAME', 'pocket', 'transformers:DIR', 'openai:MODEL@URL', or a policy directory.

    Roles with the same spec and the same options share one engine.
    """

    model: str = Field(default="pocket", description="Spec of the policy that serves every role not named in `roles`.")
    roles: RolePolicies = Field(default_factory=lambda: RolePolicies(), description="Exceptions by role.")
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the engine of `model`; roles with a spec of the same engine get them too.",
    )

    def spec(self, role: Role) -> str:
        """The spec that serves a role."""
        named = getattr(self.roles, role, None)
        return named.model if isinstance(named, RolePolicy) else named or self.model

    def own_options(self, role: Role) -> dict[str, Any] | None:
        """Options that the role names itself; None when it names none."""
        named = getattr(self.roles, role, None)
        return dict(named.options) if isinstance(named, RolePolicy) else None


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


class Budgets(Config):
    """Limits of one tree; the ones that ended a node are seen in its outcome."""

    turns: int | tuple[int, ...] = Field(default=20, description="Act turns per agent, or one number per depth from 0.")
    depth: int = Field(default=3, ge=0, le=64, description="Deepest agent allowed; the root is 0.")
    launches_per_turn: int = Field(default=4, ge=1, le=1000, description="Children that one turn may launch.")
    agents_per_tree: int | None = Field(
        default=None, ge=1, description="Agents on one path through the branches, the root included; null = no limit."
    )
    tokens: int | None = Field(default=None, ge=1, description="Completion tokens per agent; null = no limit.")
    context: int | None = Field(
        default=None, ge=1, description="Prompt plus completion tokens per agent; null = no limit."
    )
    prompt: int | None = Field(
        default=None,
        ge=1,
        description="Prompt tokens of a call; a longer one ends the agent as truncated; null = no limit.",
    )
    wall_s: float | None = Field(default=None, gt=0, description="Wall seconds per tree; null = no limit.")
    repeats: int | None = Field(default=None, ge=2, description="Equal replies in a row that end a node as `loop`.")
    loop: Literal["failure", "verdict"] = Field(
        default="failure",
        description="What a node that ended as `loop` counts as: a failure, or what the program says of its work.",
    )
    world_steps: Literal["task", "reference"] = Field(
        default="task",
        description="Actions that the agents of a tree share, in worlds with such a budget. task: the task's own;"
        " reference: 100, as in the published training runs.",
    )
    retries: int = Field(
        default=2, ge=0, le=MOST_TRIES, description="Tries again after an infrastructure fault of a policy."
    )
    retry_wait_s: float = Field(
        default=1.0, ge=0, le=60, description="Seconds before the first retry; doubles each time, up to a minute."
    )

    @model_validator(mode="after")
    def _turns_positive(self) -> Self:
        turns = (self.turns,) if isinstance(self.turns, int) else self.turns
        if not turns or min(turns) < 1:
            msg = f"turns must be 1 or more at every depth, got {self.turns!r}"
            raise ValueError(msg)
        if not isinstance(self.turns, int) and len(turns) != self.depth + 1:
            msg = f"turns lists one number per depth: depth {self.depth} wants {self.depth + 1}, got {len(turns)}"
            raise ValueError(msg)
        return self


class RoleSampling(Config):
    """How one role samples."""

    temperature: Temperature = Field(default=1.0, description="0 = greedy.")
    max_tokens: int = Field(default=512, ge=1, description="Longest completion.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="1 = off; anything below is refused for training groups.")


class SamplingConfig(Config):
    """How each role samples."""

    act: RoleSampling = Field(default_factory=lambda: RoleSampling(), description="Agents.")
    writer: RoleSampling = Field(default_factory=lambda: RoleSampling(max_tokens=1024), description="Rubric writers.")
    scorer: RoleSampling = Field(
        default_factory=lambda: RoleSampling(temperature=0.0, max_tokens=1024),
        description="Scorers; greedy by default.",
    )


class DelegationConfig(Config):
    """How delegations are played."""

    mode: Literal["plain", "counterfactual", "best_of"] = Field(
        default="counterfactual",
        description="plain: never fork. counterfactual: fork the delegations of rubric groups. best_of: play k"
        " candidates of every delegation and keep one of them; for evaluation only.",
    )
    selection: Literal["reference", "recommended"] = Field(
        default="recommended",
        description="reference: fork first come first served under the cap. recommended: play the tree plainly, then"
        " fork a draw of its launches with a known inclusion probability.",
    )
    scheduling: Literal["parallel", "sequential"] = Field(
        default="sequential",
        description="Launches of one reply: parallel = at the same time on the parent's live state; sequential = one"
        " after another. mode counterfactual and best_of take sequential only.",
    )
    k: int = Field(default=8, ge=1, le=127, description="Branches per forked delegation, the committed one included.")
    environment_cap: int = Field(default=16, ge=1, description="reference: soft cap on environments per tree.")
    forks_per_tree: int = Field(default=2, ge=0, description="recommended: launches of a tree that are forked.")
    fork_share: float = Field(default=0.0, ge=0, le=1, description="Share of other groups' trees that fork as well.")
    selector: Literal["first", "random", "rubric", "judge"] = Field(
        default="rubric",
        description="best_of: who chooses the candidate that is kept. rubric: its highest score; judge: the first that"
        " the judge calls successful; first and random are controls.",
    )
    candidate_temperature: Temperature = Field(
        default=1.0, description="best_of: sampling temperature of every agent below the root."
    )
    fork_cap: int = Field(
        default=32,
        ge=1,
        description="best_of: environments that the candidates of a tree may use, k per delegation; then the rest is"
        " done without helpers.",
    )

    @model_validator(mode="after")
    def _forks_in_order(self) -> Self:
        if self.mode != "plain" and self.scheduling == "parallel":
            msg = (
                "delegation.scheduling=parallel needs delegation.mode=plain: branches fork from one snapshot, so"
                f" {self.mode} launches run one after another"
            )
            raise ValueError(msg)
        if self.mode == "best_of" and self.k > self.fork_cap:
            msg = f"delegation.fork_cap={self.fork_cap} has no room for the {self.k} candidates of one delegation"
            raise ValueError(msg)
        return self


class RubricConfig(Config):
    """Where rubrics are written and how often a reply may be tried."""

    purposes: tuple[Purpose, ...] = Field(
        default=("execution", "rubric"),
        validation_alias=AliasChoices("for", "purposes"),
        description="Purposes whose delegations get a rubric and scores (`for` in YAML).",
    )
    source: Literal["policy", "global", "direct"] = Field(
        default="policy",
        description="policy: the writer writes one for every delegation. global: one fixed rubric for all. direct:"
        " none, the scorer sees the goal only.",
    )
    attempts: int = Field(
        default=1, ge=1, le=MOST_TRIES, description="Replies asked of a writer or scorer until one is valid."
    )
    min_items: int = Field(default=2, ge=1, description="Fewest criteria of a valid rubric.")
    trajectory_chars: int = Field(
        default=12_000, ge=200, description="Characters of a trajectory shown to a scorer before its middle is cut."
    )


class SandboxConfig(Config):
    """Limits of one cell of the dialect `code`; a cell that hits one ends as an error of its turn."""

    seconds: float = Field(
        default=1.0, gt=0, le=60, description="Running time of a cell, without the time its tools and children take."
    )
    memory_mb: int = Field(default=16, ge=4, le=4096, description="Memory of a cell's interpreter, in MiB.")
    recursion: int = Field(default=200, ge=10, le=1000, description="Deepest nesting of calls.")
    output_chars: int = Field(
        default=8_000, ge=100, description="Characters of output shown to the agent; a marker stands for the rest."
    )
    print_chars: int = Field(default=1_000_000, ge=100, description="Printed characters after which a cell is ended.")
    calls: int = Field(default=2_000, ge=1, description="Tool calls and launches that one cell may make.")
    launches: int = Field(default=64, ge=1, description="Launches that one cell may ask for, the refused included.")
    workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Interpreter processes; null = one per CPU, at least 2. Changes no result.",
    )


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
