"""Launches side by side on one live state, or one after another: no work is lost, each is judged by its own."""

import asyncio
import json
from itertools import pairwise
from random import Random

import pytest

from collect.replay import StoredTree, replay_node
from collect.settings import Budgets, DelegationSettings, RoleSampling
from collect.textcraft import TextCraft
from collect.textcraft_tasks import build_tasks
from collect.world import Task
from tests.collect.hut import Hut, ask, done, say
from tests.collect.tree_lab import Fake, call, play, script
from tests.collect.tree_lab import done as finish

PARALLEL = DelegationSettings(scheduling="parallel")
VOLATILE = {"started_at", "ended_at", "wall_s", "latency_s", "n_cached"}


def hut(turns, *, world=None, style="terse", **settings):
    settings.setdefault("delegation", PARALLEL)
    reply = script(turns) if isinstance(turns, dict) else turns
    player = reply if isinstance(reply, Fake) else Fake("player", reply)
    return play(player, world=world or Hut(), style=style, **settings)


def commands(tree):
    """(path of the node, command) of every world call in the order of the stamps."""
    found = []
    for turn in tree.turns:
        for entry in turn["tool_calls"]:
            if entry["tool"] == "command":
                path = turn["node_id"].partition("/")[2]
                found.append((entry["order_stamp"], path, json.loads(entry["arguments"])["text"]))
    stamps = [stamp for stamp, _, _ in found]
    assert len(set(stamps)) == len(stamps)
    return [(path, text) for _, path, text in sorted(found)]


def replays(tree, world):
    """Every node of a played tree, replayed from its rows alone."""
    launches = {(b["delegation_id"], b["branch"]): b for b in tree.branches}
    nodes = {}
    for node in tree.nodes:
        branch = launches.get((node["delegation_id"], node["branch"]), {"committed": True, "scheduling": "sequential"})
        nodes[node["node_id"]] = node | {"committed": branch["committed"], "scheduling": branch["scheduling"]}
    calls = [
        entry | {"node_id": turn["node_id"], "turn_id": turn["turn_id"], "place": place, "stamp": entry["order_stamp"]}
        for turn in tree.turns
        for place, entry in enumerate(turn["tool_calls"], 1)
        if entry["tool"] not in ("delegate", "finish")
    ]
    row = {**tree.tasks[0], "spec": json.loads(tree.tasks[0]["spec"])}
    stored = StoredTree(tree.root.tree_id, Task(**row), nodes, calls)
    return [replay_node(world, stored, name) for name in nodes]


TWO = {
    "": [ask("make 2 c", "make 1 d"), done()],
    "/t0d0b0": [say("add c"), say("add c"), done("first")],
    "/t0d1b0": [say("look"), say("add d"), done("second")],
}


def test_children_of_a_reply_share_the_live_state():
    tree = hut(TWO, deterministic=True)
    assert commands(tree) == [
        ("t0d0b0", "add c"),
        ("t0d1b0", "look"),
        ("t0d0b0", "add c"),
        ("t0d1b0", "add d"),
    ]
    root, first, second = tree.nodes
    assert json.loads(root["end_state"])[0] == {"c": 2, "d": 1, "z": 1}
    assert {b["scheduling"] for b in tree.branches} == {"parallel"}
    look = next(t for t in tree.turns if t["node_id"] == second["node_id"])
    assert '"c":2' in look["observation"]  # seen anew at its next turn
    assert tree.turns[0]["observation"].startswith("Child: first. Steps used: 3 of 20.\nChild: second.")
    assert [label["value"] for label in tree.labels] == [0.0, 1.0, 1.0]
    assert [r.status for r in replays(tree, Hut())] == ["same"] * 3
    assert first["order_start"] < second["order_start"] < first["order_end"]


def test_a_child_is_judged_and_scored_by_its_own_work():
    turns = {**TWO, "/t0d1b0": [say("look"), say("look"), done("second")]}
    tree = hut(turns, deterministic=True)
    assert [label["value"] for label in tree.labels] == [0.0, 1.0, 0.0]
    gained = [r.messages[1].content.rpartition("Gained: ")[2] for r in tree.policies["scorer"].requests]
    assert gained == ['{"c":2}', "{}"]
    assert [json.loads(t["tool_calls"][0]["delta"]) for t in tree.turns[:1]] == [{"c": 2}]


def test_sequential_children_start_from_what_the_one_before_left():
    tree = hut(TWO, delegation=DelegationSettings())
    assert commands(tree)[:2] == [("t0d0b0", "add c"), ("t0d0b0", "add c")]
    assert {b["scheduling"] for b in tree.branches} == {"sequential"}
    assert tree.nodes[2]["start_state"] == tree.nodes[1]["end_state"]
    assert [r.status for r in replays(tree, Hut())] == ["same"] * 3


def test_counterfactual_trees_are_sequential():
    mode = DelegationSettings(mode="counterfactual", scheduling="parallel", k=3)
    tree = hut(TWO, delegation=mode)
    assert {b["scheduling"] for b in tree.branches} == {"sequential"}
    assert len(tree.nodes) == 7
    assert [r.status for r in replays(tree, Hut())] == ["same"] * 7


def wild(request):
    rng = Random(request.sampling.seed)
    draw = rng.random()
    if draw < 0.3 and request.facts["agent"].depth < 3:
        return ask(*[f"make {n} {rng.choice('cd')}" for n in rng.sample(range(1, 9), rng.randint(1, 3))])
    if draw < 0.85:
        return say(rng.choice(["add a", "add b", "add c", "add d", "go attic", "look", "nonsense"]))
    return done("made it") if draw < 0.95 else "nothing"


class Late(Fake):
    """Answers after a number of loop turns that depends on its own seed."""

    def __init__(self, reply, seed):
        super().__init__("player", reply)
        self.rng = Random(seed)

    async def complete(self, request):
        for _ in range(self.rng.randint(0, 6)):
            await asyncio.sleep(0)
        return await super().complete(request)


def stable(tree):
    names = ("nodes", "turns", "rubrics", "branches", "labels", "scores")
    return [[{k: v for k, v in row.items() if k not in VOLATILE} for row in getattr(tree, name)] for name in names]


@pytest.mark.parametrize("seed", range(12))
def test_every_node_of_a_wild_parallel_tree_replays(seed):
    settings = {"plan_changes": {"seed": seed}, "budgets": Budgets(turns=6, agents_per_tree=12)}
    in_order = [hut(Late(wild, late), deterministic=True, **settings) for late in (1, 2)]
    assert stable(in_order[0]) == stable(in_order[1])
    free = hut(Late(wild, seed), **settings)
    for tree in (in_order[0], free):
        assert {r.status for r in replays(tree, Hut())} == {"same"}
        path = [text for _, text in commands(tree)]
        items = json.loads(tree.nodes[0]["end_state"])[0]
        for item in "abcd":
            accepted = sum(text == f"add {item}" for text in path)
            assert items.get(item, 0) == accepted


@pytest.mark.parametrize("change", ["arguments", "result", "stamp", "end"])
def test_a_changed_row_is_found_by_its_replay(change):
    tree = hut(TWO, deterministic=True)
    if change == "end":
        tree.nodes[1]["end_digest"] = "0" * 64
    else:
        entry = next(t for t in tree.turns if t["node_id"].endswith("d0b0"))["tool_calls"][0]
        changed = {
            "arguments": {"arguments": '{"text":"add x"}'},
            "result": {"result": "Added x."},
            "stamp": {"order_stamp": tree.nodes[0]["order_end"] + 1},
        }
        entry.update(changed[change])
    found = {r.node_id.partition("/")[2]: r for r in replays(tree, Hut())}
    assert found["t0d0b0"].status == "different"
    assert found["t0d0b0"].difference.event == ("end" if change in ("end", "stamp") else "call")
    if change == "arguments":
        assert found[""].difference.what in ("result", "delta")
        assert found[""].difference.action == 'command {"text":"add x"}'


def test_a_fault_of_one_child_lets_its_siblings_end_and_fails_the_tree():
    turns = {**TWO, "/t0d0b0": [say("add c"), say("crash now")]}
    tree = hut(turns, deterministic=True)
    root, first, second = tree.nodes
    assert (root["outcome"], first["outcome"], second["outcome"]) == ("infra_error", "infra_error", "finished")
    assert {r.node_id: r.status for r in replays(tree, Hut())} == {
        root["node_id"]: "no_end",
        first["node_id"]: "no_end",
        second["node_id"]: "same",
    }


def test_a_child_starts_in_its_parents_room():
    turns = {
        "": [say("go attic"), ask("make 1 c"), done()],
        "/t1d0b0": [say("look"), ask("make 1 d"), done()],
        "/t1d0b0/t1d0b0": [say("go hall"), done()],
    }
    for delegation in (PARALLEL, DelegationSettings(), DelegationSettings(mode="counterfactual", k=2)):
        tree = hut(turns, delegation=delegation)
        openings = [t.messages[1].content for t in tree.transcripts if t.role in ("act", "writer")]
        assert ["attic" in text for text in openings] == [False] + [True] * (len(openings) - 1)
        assert [json.loads(n["end_state"])[1] for n in tree.nodes if n["depth"] == 0] == [{}]


@pytest.mark.parametrize("asked,given_", [(None, 6), (3, 3), (6, 6), (60, 6)])
def test_the_cap_rule_is_the_smaller_of_what_is_asked_and_the_depths_budget(asked, given_):
    more = {} if asked is None else {"max_steps": asked}
    turns = {"": [ask("make 1 c", **more), done()], "/t0d0b0": [say("look")] * 9}
    for delegation in (PARALLEL, DelegationSettings()):
        tree = hut(turns, delegation=delegation, budgets=Budgets(turns=(9, 6, 4)))
        assert tree.nodes[1]["turn_budget"] == given_
        assert tree.nodes[1]["n_turns"] == given_


def test_the_world_ends_for_everybody():
    turns = {
        "": [ask("make 2 c", "make 3 a"), done("never said")],
        "/t0d0b0": [say("add c"), say("look"), say("look"), say("look")],
        "/t0d1b0": [say("add a"), say("add a"), say("add a"), say("add a")],
    }
    tree = hut(turns, deterministic=True)
    root, first, second = tree.nodes
    assert [n["outcome"] for n in tree.nodes] == ["finished"] * 3
    assert [n["n_turns"] for n in tree.nodes] == [1, 3, 3]
    assert tree.root.success is True
    assert [label["value"] for label in tree.labels] == [1.0, 0.0, 1.0]
    assert tree.turns[0]["observation"].startswith("Child: was stopped. Steps used: 3 of 20.\nChild: was stopped.")
    feedback = [c["feedback"] for t in tree.turns for c in t["tool_calls"] if t["node_id"] == second["node_id"]]
    assert feedback == ["ok", "ok", "success"]
    assert [r.status for r in replays(tree, Hut())] == ["same"] * 3
    assert first["message"] is root["message"] is None


@pytest.mark.parametrize("item,limit,end", [("b", 99, "failure"), ("c", 5, "exhausted")])
def test_an_end_without_success_leaves_the_episodes_unfinished(item, limit, end):
    world = Hut()
    world.budget = limit
    tree = hut({"": [say(f"add {item}")] * 12}, world=world)
    assert tree.nodes[0]["outcome"] == "not_finished"
    assert tree.turns[-1]["tool_calls"][0]["feedback"] == end
    assert (tree.root.success, tree.labels[0]["value"]) == (False, 0.0)


def test_launches_after_the_end_are_refused():
    turns = {"": [ask("make 3 a", "make 1 c")], "/t0d0b0": [say("add a")] * 3}
    tree = hut(turns, delegation=DelegationSettings())
    assert [(d["status"], d["reason"]) for d in tree.turns[0]["delegations"]] == [
        ("launched", None),
        ("refused", "the world has ended"),
    ]
    assert tree.root.success is True


def test_the_reference_budget_of_world_steps():
    for world_steps, limit in (("task", 99), ("reference", 100)):
        tree = hut({"": [done()]}, budgets=Budgets(world_steps=world_steps))
        assert json.loads(tree.nodes[0]["start_state"])[2] == limit


def test_too_many_launches_of_one_reply_are_refused_with_the_reason():
    goals = [f"make {n} c" for n in range(1, 5)]
    turns = {"": [ask(*goals), done()]} | {f"/t0d{i}b0": [done("x")] for i in range(4)}
    for delegation in (PARALLEL, DelegationSettings()):
        tree = hut(turns, delegation=delegation, budgets=Budgets(launches_per_turn=2))
        assert [d["status"] for d in tree.turns[0]["delegations"]] == ["launched"] * 2 + ["refused"] * 2
        assert tree.turns[0]["observation"].count("Refused: only 2 launches per turn.") == 2
        assert len(tree.nodes) == 3


@pytest.mark.parametrize(
    "reply,status,reason",
    [
        (ask("make 1 c", "make 1 c"), ["launched", "refused"], "the same targets were launched in this turn"),
        (ask("do something"), ["invalid"], "no goal of this world: do something"),
        (ask(" "), ["invalid"], "bad_delegation: every delegation needs a goal, a text that is not empty"),
        (ask("make 1 c", max_steps=0), ["invalid"], "bad_max_steps: max_steps must be a number of at least 1"),
        (ask("make 1 c", max_steps=-1), ["invalid"], "bad_max_steps: max_steps must be a number of at least 1"),
    ],
)
def test_bad_goals_are_refused_before_a_child_exists(reply, status, reason):
    tree = hut({"": [reply, done()], "/t0d0b0": [done()]})
    assert [d["status"] for d in tree.turns[0]["delegations"]] == status
    assert tree.turns[0]["delegations"][-1]["reason"] == reason
    assert len(tree.nodes) == 1 + status.count("launched")


def test_a_loop_is_a_failure_unless_asked():
    turns = {"": [call("add", item="a", n=2), *[call("add", item="b", n=1)] * 5, finish()]}
    for loop, value in (("failure", 0.0), ("verdict", 1.0)):
        tree = play(script(turns), purpose="execution", budgets=Budgets(repeats=3, loop=loop))
        assert tree.nodes[0]["outcome"] == "loop"
        assert tree.labels[0]["value"] == value
        assert tree.root.success is bool(value)


def test_prompts_only_grow_and_end_with_the_steps_left():
    tree = hut({"": [say("add c"), "nonsense", say("go attic"), done()]}, style="full")
    chat = [m.content for m in tree.transcripts[0].messages]
    assert "What you see: You are in kitchen" in chat[1]
    assert chat[3] == (
        '[ok] Added c.\nYou are in kitchen; here: {"c":1,"z":1}; left 98. Commands: add, go, look.\n'
        "Your steps left: 19."
    )
    assert chat[5].startswith("Error: no_block: ")
    seen = [[m.content for m in r.messages] for r in tree.policies["act"].requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(seen))
    assert [t["observation"] for t in tree.turns[:3]] == [chat[3], chat[5], chat[7]]


def test_sampling_settings_do_not_matter_to_scripts():
    one, other = (hut(TWO, deterministic=True, act_sampling=RoleSampling(temperature=t)) for t in (0.0, 1.0))
    assert commands(one) == commands(other)


@pytest.mark.parametrize(
    "targets,reason",
    [
        ({"m0_i1": 0}, "count of m0_i1 must be an integer from 1"),
        ({"m0_i1": -2}, "count of m0_i1 must be an integer from 1"),
        ({"m0_i1": 1.5}, "count of m0_i1 must be an integer from 1"),
        ({"m0_i1": True}, "count of m0_i1 must be an integer from 1"),
        ({"moon": 1}, "target moon is not a craftable item"),
        ([["m0_i1", 1], ["m0_i1", 2]], "target m0_i1 is named twice"),
        ({}, "targets must name 1 to 16 items, got 0"),
        ([], "targets must name 1 to 16 items, got 0"),
    ],
)
@pytest.mark.parametrize("delegation", [PARALLEL, DelegationSettings(), DelegationSettings(mode="counterfactual")])
def test_bad_targets_are_refused_before_a_child_exists(targets, reason, delegation):
    task = build_tasks({"worlds": "1000-1000", "n": 1, "tier_mix": {2: 1.0}})[0]
    reply = script({"": [call("delegate", targets=targets), finish()]})
    tree = play(reply, world=TextCraft("strict"), plan_changes={"task": task}, delegation=delegation)
    launch = tree.turns[0]["delegations"][0]
    assert (launch["status"], launch["delegation_id"]) == ("invalid", None)
    assert launch["reason"].startswith(reason)
    assert (len(tree.nodes), len(tree.branches), len(tree.rubrics)) == (1, 0, 0)


def test_a_key_that_occurs_twice_is_no_launch():
    text = '{"tool":"delegate","targets":{"m0_i1":1,"m0_i1":2}}'
    tree = play(script({"": [text, finish()]}))
    assert tree.turns[0]["error"] == 'not valid JSON: key "m0_i1" occurs twice'
    assert len(tree.nodes) == 1
