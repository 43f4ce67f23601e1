"""The loop: collect epoch -> seal -> learn phase -> next epoch, each phase a process of its own.

Invariant: `loop.json` in the run's directory says what is done; a step is written there before it starts and after it
ends. Killed at any moment and started again by the same command, finished steps are not repeated and the running one
continues: a collect phase by its plan in the store, a learn phase by its checkpoints. A directory holds one loop;
another config there is refused. It ends early when score minus label has risen over two epochs, for sure.

    runs/NAME/  loop.json · collect.yaml · learn.yaml · store/ · learn/checkpoints/ · learn/policies/v000004/
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from learn.collect_needs import settle
from learn.config import LoopConfig
from learn.epochs import collect_epochs
from learn.feed import require_loss, schedule_of, with_loss
from learn.learn_cli import policy_directory
from learn.method import open_method
from learn.process import run_parts, run_phase
from learn.rule import Method
from learn.state_file import read_object, replace_file
from sera_data.canonical import canonical_json
from sera_data.errors import SeraError

STATE = "loop.json"
DIVERGENCE_EPOCHS, WATCH_REPS = 3, 400
DAMAGED = "restore it from a copy, or give another --out; the store beside it is whole"
Runner = Callable[[list[str | Path]], dict[str, Any]]


class LoopError(SeraError):
    """A loop directory that does not belong to this loop."""


@dataclass(slots=True)
class Step:
    """One phase of a loop. `before`: newest sealed collect epoch when it began; `result`: its JSON when it is done."""

    kind: str
    index: int
    before: int = -1
    groups: dict[str, int] = field(default_factory=dict)
    result: dict[str, Any] | None = None


class Loop:
    """A loop in a directory."""

    def __init__(self, config: LoopConfig, out: Path, *, run: Runner = run_phase, launch: Sequence[str] = ()) -> None:
        self.config, self.out, self.run, self.launch = config, out, run, launch
        self.config = config.model_copy(update={"learn": with_loss(config.learn, self.method())})
        self.store = out / "store"
        self.steps: list[Step] = []
        self.divergence: dict[str, Any] | None = None  # set when the loop stopped because scores run away from labels

    def open(self) -> None:
        """Make the directory, or read what is done; LoopError for the directory of another loop."""
        self.out.mkdir(parents=True, exist_ok=True)
        self._read()
        method = self.method()
        require_loss(self.config.learn, method, schedule_of(self.config.learn, method))
        start = policy_directory(self.config.policy)
        collect = settle(method.needs, self.config.collect, start=start, method=method.name)
        for name, config in (("collect", collect), ("learn", self.config.learn)):
            body = config.model_copy(update=self._shared()).resolved()
            if name == "collect":
                body["rubric"]["for"] = body["rubric"].pop("purposes")
            replace_file(self.out / f"{name}.yaml", yaml.safe_dump(body, sort_keys=False).encode())

    def _read(self) -> None:
        path = self.out / STATE
        if not path.exists():
            return
        body = read_object(path, hint=DAMAGED)
        try:
            steps = [Step(**step) for step in body["steps"]]
            config = dict(body["config"])
        except (KeyError, TypeError, ValueError) as error:
            msg = f"{path} is damaged: {error}"
            raise LoopError(msg, hint=DAMAGED) from None
        # when to stop changes nothing of what was done, so whoever has looked may go on
        if changed := [key for key in _changed(config, self.config.resolved()) if key != "stop"]:
            msg = f"{self.out} holds a loop with another config; different here: {', '.join(changed)}"
            raise LoopError(msg, hint="give another --out, or the config that it was started with")
        self.steps = steps

    def _shared(self) -> dict[str, Any]:
        seed = {} if self.config.seed is None else {"seed": self.config.seed}
        return {"name": self.config.name, **seed}

    def plan(self) -> list[tuple[str, int]]:
        """Kinds and indices of all steps."""
        last = self.config.epochs - (0 if self.config.learn_last else 1)
        kinds = [(kind, i) for i in range(self.config.epochs) for kind in ("collect", "learn")]
        return [(kind, i) for kind, i in kinds if kind == "collect" or i < last]

    def play(
        self, on_step: Callable[[Step, int], None] = lambda step, total: None, *, until: tuple[str, int] | None = None
    ) -> None:
        """Run every step that is not done, up to the one named by kind and index."""
        todo = self.plan()
        for number, (kind, index) in enumerate(todo):
            if number == len(self.steps):
                self.steps.append(Step(kind, index, before=self._newest()))
            step = self.steps[number]
            if step.result is None:
                on_step(step, len(todo))
                self._collect(step) if kind == "collect" else self._learn(step)
                self._save()
            if (kind == "collect" and self._watch(step)) or (kind, index) == until:
                return

    def _collect(self, step: Step) -> None:
        step.groups = self.groups(self.version())
        self._save()
        if self._newest() > step.before:  # sealed, and killed before that was noted here
            step.result = {"epoch": self._newest()}
            return
        command, parts = self._collect_command(step.groups), self.config.processes.collect
        played = self._is_played(step.before + 1)
        if parts == 1 and not played:
            step.result = self.run([*command, "--seal"])
            return
        if not played:
            run_parts(command, parts=parts)
        self.run(["data", "seal", self.store])
        step.result = {"epoch": self._newest()}

    def _collect_command(self, wanted: dict[str, int]) -> list[str | Path]:
        groups = ",".join(f"{purpose}={n}" for purpose, n in wanted.items())
        command: list[str | Path] = ["collect", "--config", self.out / "collect.yaml", "--store", self.store]
        return [*command, "--policy", self.served(), "--groups", groups]

    def collect_part(self, index: int, shard: str) -> dict[str, Any]:
        """Play one part of a collect step beside processes that play the others; it writes nothing but units.

        `play` seals the epoch and notes the step when all have ended. LoopError while an earlier step is open.
        """
        self._read()
        number = self.plan().index(("collect", index))
        if len(self.steps) > number and self.steps[number].result is not None:
            return self.steps[number].result or {}  # started again after all was over
        done = sum(step.result is not None for step in self.steps[:number])
        if done < number or not (self.out / "collect.yaml").exists():
            msg = f"{self.out} has done {done} of the {number} steps before collect {index}"
            raise LoopError(msg, hint="run them first: sera loop with --until, or submit the jobs in their order")
        epoch = 1 + self._collected() if number else 0
        command = self._collect_command(self.groups(self.version()))
        return self.run([*command, "--shard", shard, "--epoch", str(epoch)])

    def _is_played(self, epoch: int) -> bool:
        """Whether other processes have played all units of an epoch already, so that no policy need be opened."""
        import sera_data
        from sera_data.plan import read_plan

        if not (self.store / "store.json").exists():
            return False
        store, name = sera_data.open(self.store), f"e{epoch:06d}"
        if not store.layout.plan_file(name).exists():
            return False
        plan = read_plan(store, name)
        return plan.committed() == set(plan.unit_ids)

    def _watch(self, step: Step) -> bool:
        """Whether scores run away from labels: asked of `sera audit` once per epoch, from the third on."""
        assert step.result is not None
        if self.config.stop != "divergence" or step.index + 1 < DIVERGENCE_EPOCHS:
            return False
        if "divergence" not in step.result:
            command: list[str | Path] = ["audit", self.store, "--gates", "none", "--reps", str(WATCH_REPS)]
            step.result["divergence"] = self.run(command).get("divergence")
            self._save()
        self.divergence = step.result["divergence"] if (step.result["divergence"] or {}).get("rising") else None
        return self.divergence is not None

    def _learn(self, step: Step) -> None:
        self._save()
        command: list[str | Path] = ["learn", "--config", self.out / "learn.yaml", "--store", self.store]
        command += ["--from", self.policy(), "--out", self.out / "learn", "--epoch", str(self._collected())]
        ranks, launch = self.config.processes.learn, self.launch
        alone = ranks == 1 and not launch
        step.result = self.run(command) if alone else run_phase(command, ranks=ranks, launch=launch)

    def _collected(self) -> int:
        """Epoch of the newest collect phase of this loop."""
        return int(
            next(step.result["epoch"] for step in reversed(self.steps) if step.kind == "collect" and step.result)
        )

    def groups(self, version: int) -> dict[str, int]:
        """Groups per purpose for the updates that follow `version`, with the margin."""
        learn = self.config.learn
        dealt = schedule_of(learn, self.method()).deal(version, learn.updates_per_collect, learn.groups_per_update)
        return {stage: math.ceil(n * self.config.margin) for stage, n in dealt.items()}

    def method(self) -> Method:
        """The method of the learn phases."""
        learn = self.config.learn
        method = open_method(learn.method)
        return method.with_credit(Path(learn.credit)) if learn.credit else method

    def policy(self) -> Path:
        """The policy of the next phase: that of the newest learn phase, or the start."""
        done = [step.result for step in self.steps if step.kind == "learn" and step.result is not None]
        return Path(done[-1]["policy"]) if done else policy_directory(self.config.policy)

    def served(self) -> str:
        """The same as the spec that collect phases open."""
        directory, engine = str(self.policy()), self.config.engine
        return directory if engine == "transformers" else f"{engine}:{directory}"

    def version(self) -> int:
        """Version of that policy."""
        from collect.policy_directory import read_policy_directory

        return read_policy_directory(self.policy(), verify=False).version

    def _newest(self) -> int:
        import sera_data

        if not (self.store / "store.json").exists():
            return -1
        return max(collect_epochs(sera_data.open(self.store)), default=-1)

    def _save(self) -> None:
        steps = [{name: getattr(step, name) for name in Step.__slots__} for step in self.steps]
        replace_file(self.out / STATE, canonical_json({"config": self.config.resolved(), "steps": steps}).encode())


def _changed(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    keys = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            keys += _changed(old, new, f"{prefix}{key}.")
        elif old != new:
            keys.append(f"{prefix}{key}")
    return keys
