"""What a tree may do: budgets, sampling, delegation and rubric settings.

Invariant: frozen, plain values; the same settings, seed and policies give the same tree. Built from the collect
configuration, stored with the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from schemas.words import Purpose, Role, Scheduling, Selector

DelegationMode = Literal["plain", "counterfactual", "best_of"]
Selection = Literal["reference", "recommended"]
WorldSteps = Literal["task", "reference"]
LoopCounts = Literal["failure", "verdict"]
REFERENCE_WORLD_STEPS = 100


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits of agents and trees; None = no limit.

    turns: act turns of every agent, or one number per depth (the last holds for deeper ones). depth: deepest agent
    allowed (root = 0). launches_per_turn: launches executed of one turn. agents_per_tree: agents on one path through
    the branches, root included. tokens: completion tokens of one agent. context: prompt + completion tokens of any
    call. prompt: prompt tokens of any call. wall_s: seconds of a tree (of a branch that is forked later). repeats:
    equal replies in a row that end an agent as `loop`; loop: whether such an agent has failed, or is judged like one
    that finished. world_steps: budget of actions that all agents of a tree share, in worlds that have one: the task's
    own, or the constant 100 of the published training runs. retries: how often a PolicyError is retried, after
    retry_wait_s * 2**n seconds.
    """

    turns: int | tuple[int, ...] = 20
    depth: int = 3
    launches_per_turn: int = 4
    agents_per_tree: int | None = None
    tokens: int | None = None
    context: int | None = None
    prompt: int | None = None
    wall_s: float | None = None
    repeats: int | None = None
    loop: LoopCounts = "failure"
    world_steps: WorldSteps = "task"
    retries: int = 2
    retry_wait_s: float = 0.0

    def turns_at(self, depth: int) -> int:
        """Act turns that an agent of that depth may take."""
        if isinstance(self.turns, int):
            return self.turns
        return self.turns[min(depth, len(self.turns) - 1)]


@dataclass(frozen=True, slots=True)
class RoleSampling:
    """How completions of one role are sampled; temperature 0 = greedy, top_p 1 = off."""

    temperature: float = 1.0
    max_tokens: int = 512
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class DelegationSettings:
    """plain; counterfactual: k branches of some delegations; best_of: k candidates of every one, of which one is kept.

    selection: `reference` forks first come while fewer than environment_cap environments exist; `recommended` runs
    the tree plainly and then forks forks_per_tree of its launches, drawn by depth. Trees of purpose `rubric` fork;
    of the others the share fork_share. scheduling: the launches of one reply run at the same time on their parent's
    live state, or one after another; counterfactual and best_of trees are always sequential. selector: who chooses
    among the candidates of best_of; candidate_temperature: at which all agents below the root then sample; fork_cap:
    environments that the candidates of one tree may use up, after which nothing is delegated.
    """

    mode: DelegationMode = "plain"
    scheduling: Scheduling = "sequential"
    selection: Selection = "recommended"
    k: int = 8
    environment_cap: int = 16
    forks_per_tree: int = 2
    fork_share: float = 0.0
    selector: Selector = "rubric"
    candidate_temperature: float = 1.0
    fork_cap: int = 32


@dataclass(frozen=True, slots=True)
class RubricSettings:
    """purposes: trees whose delegations get a rubric and scores. source: who says what it is, see `fixed_rubrics`.
    attempts: tries of the writer and of the scorer.

    min_items: fewest criteria of a valid rubric. trajectory_chars: characters of a trajectory that a scorer is
    shown before its middle turns are left out (fewer when the context is smaller).
    """

    purposes: tuple[Purpose, ...] = ("execution", "rubric")
    source: Literal["policy", "global", "direct"] = "policy"
    attempts: int = 1
    min_items: int = 2
    trajectory_chars: int = 12_000


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Limits of one cell of the dialect `code`.

    seconds: running time of the cell's own code, waiting for tools and children not counted. memory_mb: interpreter
    heap. recursion: depth of calls. output_chars: characters shown to the agent, the middle is left out. print_chars:
    characters after which the cell is ended. calls: tool calls and launches. launches: launches asked for. workers:
    interpreter processes of this process; None = as many as CPUs, at least 2.
    """

    seconds: float = 1.0
    memory_mb: int = 16
    recursion: int = 200
    output_chars: int = 8_000
    print_chars: int = 1_000_000
    calls: int = 2_000
    launches: int = 64
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Everything that `run_tree` needs besides the task and the services.

    deterministic: agents that run in parallel take turns in a fixed order, so that the tree repeats exactly.
    """

    budgets: Budgets = field(default_factory=Budgets)
    act: RoleSampling = field(default_factory=RoleSampling)
    writer: RoleSampling = field(default_factory=lambda: RoleSampling(max_tokens=1024))
    scorer: RoleSampling = field(default_factory=lambda: RoleSampling(temperature=0.0, max_tokens=1024))
    delegation: DelegationSettings = field(default_factory=DelegationSettings)
    rubric: RubricSettings = field(default_factory=RubricSettings)
    deterministic: bool = False
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)

    def sampling(self, role: Role) -> RoleSampling:
        """Sampling of act, writer or scorer."""
        return {"act": self.act, "writer": self.writer, "scorer": self.scorer, "judge": self.scorer}[role]
