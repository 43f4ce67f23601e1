"""`sera worlds check`, how worlds fork, and a world of one's own by import path: each broken promise is named."""

import json

import pytest

from collect.replay import StoredTree, replay_node
from collect.settings import DelegationSettings
from collect.world import Event
from collect.world_check import check_world
from collect.worlds import open_world
from sera_data.canonical import canonical_json
from sera_data.cli import main
from sera_data.errors import StoreError, UsageError
from tests.collect.test_selection import best_of, chosen, pot, scores
from tests.collect.tree_lab import Fake, Pot, plan, play

TASKS = [plan().task]


class Box:
    """A live state."""

    def __init__(self, items):
        self.items = dict(items)


class Live(Pot):
    """The pot as a world whose states change in place."""

    fork = "snapshot"

    def reset(self, task):
        return Box(task.spec["inventory"])

    def observe(self, state, agent):
        return json.dumps(state.items, separators=(",", ":"))

    def apply(self, state, agent, action):
        after, event = Pot().apply(tuple(sorted(state.items.items())), agent, action)
        state.items = dict(after)
        return state, event

    def difference(self, start, end, *, changes=None):
        pairs = [tuple(sorted(state.items.items())) for state in (start, end)]
        return Pot().difference(*pairs, changes=changes)

    def dump(self, state):
        return canonical_json({"inventory": state.items})

    def load(self, text):
        return Box(json.loads(text)["inventory"])


class Replayed(Live):
    fork = "replay"

    def load(self, text):
        raise NotImplementedError


class Alone(Replayed):
    fork = "none"


def failed(world, tasks=TASKS):
    return {row.check: row.detail for row in check_world(world, tasks) if row.status == "failed"}


@pytest.mark.parametrize("world", [Pot(), Live(), Replayed(), Alone()])
def test_worlds_of_every_fork_keep_what_they_promise(world):
    assert failed(world) == {}


@pytest.mark.parametrize("world", [Live(), Replayed()])
def test_candidates_of_live_worlds_start_alike_and_the_winner_is_committed(world):
    tree, same = (
        play(Fake("player", pot(1, 3)), purpose="eval", world=each, delegation=best_of(), scorer=scores({1: 0.1, 3: 1}))
        for each in (world, Pot())
    )
    assert chosen(tree)["branch"] == 1
    states = [(n["node_id"], n["start_state"], n["end_state"], n["on_path"]) for n in tree.nodes]
    assert states == [(n["node_id"], n["start_state"], n["end_state"], n["on_path"]) for n in same.nodes]
    assert [x["value"] for x in tree.labels] == [x["value"] for x in same.labels]
    assert tree.root.success is True


@pytest.mark.parametrize("world", [Live(), Replayed()])
def test_live_worlds_fork_after_the_tree_is_complete(world):
    settings = DelegationSettings(mode="counterfactual", k=3, forks_per_tree=1)
    tree, same = (play(Fake("player", pot(1, 2, 3)), world=each, delegation=settings) for each in (world, Pot()))
    assert [(n["start_state"], n["end_state"]) for n in tree.nodes] == [
        (n["start_state"], n["end_state"]) for n in same.nodes
    ]
    prompts = [[r.messages for r in t.policies["scorer"].requests] for t in (tree, same)]
    assert prompts[0] == prompts[1]


def test_a_world_without_copies_delegates_plainly_and_no_other_way():
    tree = play(Fake("player", pot(3)), world=Alone(), delegation=DelegationSettings())
    assert json.loads(tree.nodes[1]["start_state"])["inventory"] == {"z": 1}
    assert json.loads(tree.nodes[0]["end_state"])["inventory"] == {"a": 3, "z": 1}
    assert [x["value"] for x in tree.labels] == [1.0, 1.0]
    for delegation in (best_of(), DelegationSettings(mode="counterfactual", k=2)):
        with pytest.raises(UsageError, match=r"cannot fork \(fork: none\), so delegation.mode must be plain"):
            play(Fake("player", pot(3)), world=Alone(), delegation=delegation)


@pytest.mark.parametrize("world", [Replayed(), Alone()])
def test_stored_states_of_live_worlds_are_not_replayed(world):
    nodes = {"r": {"end_digest": "x", "start_state": "{}"}}
    with pytest.raises(StoreError, match="has live states"):
        replay_node(world, StoredTree("r", TASKS[0], nodes, []), "r")


class Impure(Live):
    fork = "pure"


class Forgetful(Pot):
    def dump(self, state):
        return canonical_json({"inventory": {item: min(n, 1) for item, n in state}})


class Lossy(Pot):
    def load(self, text):
        return super().load(text)[:-1]


class Counting(Pot):
    calls = 0

    def apply(self, state, agent, action):
        self.calls += 1
        after, event = super().apply(state, agent, action)
        return after, Event(event.ok, f"{event.result} Call {self.calls}.", event.delta)


class Telling(Pot):
    def observe(self, state, agent):
        return super().observe(state, agent) + getattr(self, "hint", "")

    def reset(self, task):
        self.hint = f" {task.spec.get('reward', '')}"
        return super().reset(task)


class Drifting(Replayed):
    starts = 0

    def reset(self, task):
        self.starts += 1
        return Box(task.spec["inventory"] | {"drift": self.starts // 3})


class Broken(Pot):
    def goal(self, targets):
        raise KeyError(targets)


@pytest.mark.parametrize(
    ("world", "check", "words"),
    [
        (Impure(), "purity", "apply add"),
        (Lossy(), "digests", "load of the state"),
        (Counting(), "determinism", "the event of apply add"),
        (Telling(), "leaks", "holds what was planted"),
        (Drifting(), "determinism", "reset"),
        (Broken(), "faults", "KeyError"),
    ],
)
def test_a_broken_promise_is_named_with_the_call_that_showed_it(world, check, words):
    found = failed(world, TASKS * 3)
    assert words in found[check]


@pytest.mark.parametrize("name", ["textcraft", "textworld", "examples.own_world:Maze"])
def test_the_worlds_of_this_package_pass(name, capsys):
    assert main(["worlds", "check", name, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert {row["check"]: row["status"] for row in body["checks"]} == dict.fromkeys(
        ("purity", "determinism", "digests", "forks", "replay", "leaks", "faults"), "ok"
    )


def test_a_failed_check_is_exit_code_3_with_its_name(capsys):
    assert main(["worlds", "check", "tests.collect.test_worlds_check:Leaky"]) == 3
    assert "fails leaks: the act prompt" in " ".join(capsys.readouterr().err.split())


class Leaky(Telling):
    def __init__(self, profile="p"):
        self.profile = profile

    def examples(self):
        return TASKS


def test_import_paths_are_opened_and_faults_are_told():
    assert open_world("examples.own_world:Maze", profile="plain").name == "maze"
    for name, words in (("examples.own_world:Nothing", "no attribute"), ("no.module:World", "No module named")):
        with pytest.raises(UsageError, match=words):
            open_world(name, profile="plain")
    assert main(["worlds", "check", "tests.collect.hut:Hut", "--profile", "p"]) == 2
