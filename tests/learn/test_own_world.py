"""The example world goes the whole way: collect with forks and rubrics, learn, audit, replay, and best of N."""

import json
import runpy
from pathlib import Path

import pytest

import sera_data as sd
from collect.config import CollectConfig
from collect.job import claim_job, run_job
from collect.policy import Completion
from collect.probing import RUBRIC, SCORE
from collect.task_file import read_tasks
from collect.tasks import load_tasks
from examples.own_world import STEPS, Maze
from learn.config import LearnConfig
from learn.method import open_method
from learn.phase import learn_phase, open_phase
from learn.ranks import join
from sera_data.cli import main
from sera_data.config import load_config
from tests.learn.puppet import Puppet, make_policy

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TEXTS = ('{"tool":"go","to":"east"}', 'Goal: fetch 1x r, 1x b\nState: {"map":["....",".##."],"you":[0,0]}')


class Walker:
    """Fetches one gem itself and delegates the other; gives up early by the draw of its seed."""

    async def complete(self, request):
        facts = request.facts
        if request.role != "act":
            done = facts.get("finished") and bool(facts.get("gained"))
            score = {**SCORE, "success": done, "final_score": 0.9 if done else 0.0}
            return self.say(json.dumps(RUBRIC if request.role == "writer" else score))
        walls, gems, bag, places = facts["state"]
        agent, history = facts["agent"], facts["history"]
        if history and request.sampling.seed % 5 == 0:
            return self.say('{"tool":"finish","message":"enough"}')
        if agent.depth == 0 and not history:
            return self.say('{"tool":"delegate","targets":{"r":1}}')
        mine = {"b"} if agent.depth == 0 else {"r"}
        goals = {gem[:2] for gem in gems if gem[2] in mine and gem[2] not in dict(bag)}
        here = next((row, column) for name, row, column in places if name == agent.node_id)
        if not goals:
            return self.say('{"tool":"finish","message":"done"}')
        step = self.step(walls, here, goals)
        return self.say('{"tool":"take"}' if step is None else json.dumps({"tool": "go", "to": step}))

    def step(self, walls, here, goals):
        """First step of a shortest way; None when it is there."""
        if here in goals:
            return None
        seen, paths = {here}, [(here, None)]
        for (row, column), first in paths:
            for name, (down, right) in STEPS.items():
                place = row + down, column + right
                if place in seen or not (0 <= place[0] < 4 and 0 <= place[1] < 4) or walls[place[0]][place[1]] == "#":
                    continue
                if place in goals:
                    return first or name
                seen.add(place)
                paths.append((place, first or name))
        raise AssertionError(here, goals)

    def say(self, text):
        return Completion(text, None, None, "stop", "none", 0)

    def release(self, session):
        pass

    async def close(self):
        pass


class MazePuppet(Puppet):
    """The walker's words in the tokens of a tiny model."""

    def __init__(self, directory):
        super().__init__(directory)
        self.script = Walker()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tasks written by the example, and a store with one epoch of them."""
    root = tmp_path_factory.mktemp("maze")
    tasks = root / "maze.jsonl"
    tasks.write_text("\n".join(json.dumps(vars_of(task)) for task in Maze().examples()) + "\n", encoding="utf-8")
    puppet = MazePuppet(make_policy(root / "policy", texts=TEXTS))
    config = load_config(
        CollectConfig,
        None,
        [
            "world={name: 'examples.own_world:Maze', profile: plain}",
            f"world.tasks={tasks}",
            "groups={execution: 2, rubric: 2}",
            "samples=3",
            "delegation={mode: counterfactual, k: 4, forks_per_tree: 1}",
            "budgets={turns: 12, depth: 1}",
        ],
    )
    store = sd.create(root / "store")
    policies = dict.fromkeys(("act", "writer", "scorer"), puppet)
    job = claim_job(store, config, tasks=load_tasks(config), policies=policies)
    run_job(store, job, policies=policies, style="terse", quiet=True)
    sd.seal(store, job.plan.name)
    return root


def vars_of(task):
    return {name: getattr(task, name) for name in task.__dataclass_fields__}


def test_the_file_is_short_and_writes_its_tasks(tmp_path, capsys):
    assert len((ROOT / "examples" / "own_world.py").read_text(encoding="utf-8").splitlines()) <= 100
    runpy.run_path(str(ROOT / "examples" / "own_world.py"), run_name="__main__")
    path = tmp_path / "maze.jsonl"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert read_tasks(path) == list(Maze().examples())


def test_trees_of_it_are_collected_forked_labelled_and_replayed(place, capsys):
    store = sd.open(place / "store")
    sd.verify(store)
    labels = store.labels.pl().to_dicts()
    assert {(row["source"], row["valid"]) for row in labels} == {("maze", True)}
    assert {row["value"] for row in labels} == {0.0, 1.0}
    assert set(store.branches.pl()["k"]) == {1, 4}
    assert main(["data", "replay", "--all", str(store.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["different"] == []


def test_a_policy_learns_from_it(place):
    config = load_config(LearnConfig, None, ["schedule=execution:1", "updates_per_collect=1"])
    phase = open_phase(
        sd.open(place / "store"),
        config=config,
        method=open_method(config.method),
        policy=place / "policy",
        out=place / "run",
        epoch=None,
    )
    result = learn_phase(phase, ranks=join(), on_row=lambda row: None)
    assert [row["stage"] for row in result.rows] == ["execution"]
    assert all(row["n_trained_tokens"] > 0 and row["grad_norm"] > 0 for row in result.rows)
    assert result.version == 1


def test_it_is_audited(place, capsys):
    assert main(["audit", str(place / "store"), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["rows"]["nodes"] > 20
    assert all(check["found"] == 0 for check in body["integrity"])
