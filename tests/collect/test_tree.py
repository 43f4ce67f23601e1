"""Plain trees: rows, prompts, outcomes, budgets, faults."""

from __future__ import annotations

import asyncio
import json

import pytest

from collect.policy import Completion, PolicyError
from collect.services import Services
from collect.settings import Budgets
from collect.tree import run_tree
from tests.collect.tree_lab import SCORE, Fake, Pot, call, done, plan, play, script


def test_a_plain_tree_is_rows():
    tree = play(
        script(
            {
                "": [call("add", item="a", n=1), call("delegate", targets={"a": 1}, context="hint"), done()],
                "/t1d0b0": [call("add", item="a", n=1), done("made it")],
            }
        ),
        purpose="execution",
    )
    root, child = tree.nodes
    assert tree.root.success is True
    assert (tree.root.n_nodes, tree.root.n_turns, tree.root.n_delegations) == (2, 5, 1)
    assert root["outcome"] == child["outcome"] == "finished"
    assert child["node_id"] == root["node_id"] + "/t1d0b0"
    assert child["parent_id"] == root["node_id"]
    assert (child["goal"], child["context"]) == ("make 1x a", "hint")
    assert child["start_state"] == '{"inventory":{"a":1,"z":1}}'
    assert root["end_state"] == child["end_state"] == '{"inventory":{"a":2,"z":1}}'
    delegated = tree.turns[1]
    assert delegated["observation"] == "Child: made it. Steps used: 2 of 20."
    assert [d["status"] for d in delegated["delegations"]] == ["launched"]
    assert delegated["tool_calls"][0]["delta"] == '{"a":1}'
    assert [label["value"] for label in tree.labels] == [1.0, 1.0]
    assert [t["kind"] for t in tree.turns] == ["act", "act", "rubric", "act", "act", "act", "score"]
    assert tree.branches[0]["k"] == 1
    assert tree.branches[0]["selection"] == "plain"
    assert tree.scores[0]["weighted_score"] == pytest.approx(0.875)
    assert sorted(tree.policies["act"].released) == sorted(n["node_id"] for n in tree.nodes)


def test_prompts_follow_the_fixed_form():
    tree = play(
        script({"": [call("delegate", targets={"a": 2}, context="x"), done()], "/t0d0b0": [done()]}),
        purpose="execution",
        budgets=Budgets(turns=(14, 10), depth=2),
    )
    texts = {(t.role, t.node_id.count("/")): [m.content for m in t.messages] for t in tree.transcripts}
    assert texts["act", 0][:2] == ["You craft items.", 'Goal: make 2x a\nInventory: {"z":1}\nSteps: 14 Depth: 0/2']
    child = 'Goal: make 2x a\nNote: x\nInventory: {"z":1}\nSteps: 10 Depth: 1/2'
    assert texts["act", 1][:2] == ["You craft items.", child]
    assert texts["writer", 0][:2] == ["You write a rubric.", child]
    system, user, answer = texts["scorer", 1]
    assert system == "You score an agent."
    lines = user.split("\n")
    assert lines[0].startswith('Rubric: {"rubric_items":')
    assert lines[1:] == ["Goal: make 2x a", f"> {done()}", "Finish: yes", "Gained: {}"]
    assert json.loads(answer) == SCORE


def outcome(turns, **settings):
    tree = play(script(turns), purpose="execution", **settings)
    return tree.nodes[0]["outcome"], tree


def test_used_up_turns_end_as_not_finished():
    kind, tree = outcome({"": [call("add", item="a", n=1)] * 9}, budgets=Budgets(turns=3))
    assert kind == "not_finished"
    assert tree.nodes[0]["n_turns"] == 3
    assert tree.labels[0]["value"] == 0.0  # it made the targets, but never said so
    assert json.loads(tree.labels[0]["details"])["gained"] == {"a": 3}
    assert tree.root.success is False
    assert tree.turns[-1]["observation"] == "Added, have 3."


def test_turn_budgets_by_depth():
    turns = {"": [call("delegate", targets={"a": 1}), done()], "/t0d0b0": [call("add", item="a", n=1)] * 5}
    _, tree = outcome(turns, budgets=Budgets(turns=(5, 2)))
    assert [n["turn_budget"] for n in tree.nodes] == [5, 2]
    assert tree.turns[0]["observation"] == "Child: ran out of steps. Steps used: 2 of 2."


@pytest.mark.parametrize("message", ["", "  \n"])
def test_finish_without_a_message_is_no_success(message):
    kind, tree = outcome({"": [call("add", item="a", n=2), done(message)]})
    assert kind == "finished"
    assert tree.labels[0]["value"] == 0.0
    assert tree.root.success is False


def test_a_reply_that_was_cut_off_is_never_executed():
    cut = Completion(call("add", item="a", n=2), None, None, "length", "none", 0)
    replies = iter([cut, done()])
    tree = play(lambda request: next(replies), purpose="execution")
    assert tree.nodes[0]["end_state"] == tree.nodes[0]["start_state"]
    first = tree.turns[0]
    assert (first["ok"], first["error"], first["observation"]) == (False, "truncated reply", "Error: truncated reply")
    assert first["action"] is None
    assert first["finish_reason"] == "length"


def test_an_invalid_reply_costs_a_turn_and_says_why():
    kind, tree = outcome({"": ["no json here", call("dance"), done()]})
    assert kind == "finished"
    assert [t["ok"] for t in tree.turns] == [False, False, True]
    assert tree.turns[0]["observation"] == "Error: no JSON object in the reply"
    assert tree.turns[1]["observation"] == 'Error: tool "dance"; use one of add, delegate, finish'


def test_a_refused_action_is_an_error_turn():
    _, tree = outcome({"": [call("add", item="a", n="x"), done()]})
    first = tree.turns[0]
    assert (first["ok"], first["error"]) == (False, "Error: n must be a number")
    assert first["tool_calls"] == [
        {
            "tool": "add",
            "arguments": '{"item":"a","n":"x"}',
            "ok": False,
            "result": "Error: n must be a number",
            "delta": None,
            "feedback": None,
            "order_stamp": first["order_stamp"],
        }
    ]


def test_equal_replies_in_a_row_end_as_loop_when_asked_for():
    turns = {"": [call("add", item="a", n=1)] * 4 + [done()]}
    assert outcome(turns, budgets=Budgets(repeats=3))[0] == "loop"
    assert outcome(turns)[0] == "finished"


def test_a_policy_fault_is_retried_with_the_same_seed():
    replies = iter([PolicyError("down"), PolicyError("down"), call("add", item="a", n=2), done()])
    tree = play(lambda request: next(replies), purpose="execution", budgets=Budgets(retries=2))
    assert tree.root.success is True
    seeds = [r.sampling.seed for r in tree.policies["act"].requests]
    assert seeds[0] == seeds[1] == seeds[2] != seeds[3]


def test_a_lasting_policy_fault_is_infra_error_and_keeps_the_tree():
    replies = iter([call("add", item="a", n=2), *[PolicyError("down")] * 3])
    tree = play(lambda request: next(replies), purpose="execution", budgets=Budgets(retries=2))
    root = tree.nodes[0]
    assert root["outcome"] == "infra_error"
    assert "down" in root["error"]
    assert root["end_state"] is None
    assert len(tree.turns) == 1
    assert (tree.labels[0]["valid"], tree.labels[0]["value"]) == (False, None)
    assert tree.root.success is None


def test_an_aborted_completion_is_a_fault_too():
    aborted = Completion("", None, None, "abort", "none", 0)
    tree = play(lambda request: aborted, purpose="execution", budgets=Budgets(retries=0))
    assert tree.nodes[0]["outcome"] == "infra_error"


def test_a_world_exception_is_infra_error_of_the_node_and_of_its_ancestors():
    turns = {
        "": [call("delegate", targets={"a": 1}), done()],
        "/t0d0b0": [call("add", item="crash", n=1)],
    }
    kind, tree = outcome(turns)
    root, child = tree.nodes
    assert kind == child["outcome"] == "infra_error"
    assert "KeyError" in child["error"]
    assert child["node_id"] in root["error"]
    assert tree.branches[0]["complete"] is False
    assert tree.branches[0]["exclusion_reason"] == "infra_error in branch 0"
    assert not tree.scores
    launching = tree.turns[0]
    assert (launching["ok"], launching["observation"]) == (False, None)
    assert launching["error"] == root["error"]


@pytest.mark.parametrize("broken", ["goal", "observe"])
def test_a_world_that_fails_before_the_child_exists_leaves_a_whole_tree(broken):
    class Broken(Pot):
        def goal(self, targets):
            return {}["goal"] if broken == "goal" else super().goal(targets)

        def observe(self, state, agent):
            return {}["observe"] if broken == "observe" and agent.depth else super().observe(state, agent)

    kind, tree = outcome({"": [call("delegate", targets={"a": 1}), done()]}, world=Broken())
    assert kind == "infra_error"
    assert len(tree.nodes) == 1
    launched = [d["delegation_id"] for d in tree.turns[0]["delegations"]]
    assert launched == [b["delegation_id"] for b in tree.branches]
    assert [(b["node_id"], b["exclusion_reason"]) for b in tree.branches] == (
        [] if broken == "goal" else [(None, "1 branches did not start")]
    )
    assert tree.nodes[0]["n_children"] == 0


def test_a_passed_deadline_is_timeout():
    class Slow(Fake):
        async def complete(self, request):
            if len(self.requests) == 2:
                await asyncio.sleep(60)
            return await super().complete(request)

    slow = Slow("player", lambda request: call("add", item="a", n=1))
    tree = play(slow, purpose="execution", budgets=Budgets(wall_s=0.2))
    assert tree.nodes[0]["outcome"] == "timeout"
    assert tree.labels[0]["value"] == 0.0


def test_a_timeout_of_the_policy_itself_is_a_fault_not_a_timeout():
    tree = play(lambda r: TimeoutError("engine"), purpose="execution", budgets=Budgets(wall_s=60, retries=1))
    assert tree.nodes[0]["outcome"] == "infra_error"
    assert len(tree.policies["act"].requests) == 2


def test_seeds_depend_on_the_node_path_and_not_on_the_run_name():
    turns = {"": [call("delegate", targets={"a": 1}), done()], "/t0d0b0": [call("add", item="a", n=1), done()]}
    one, other, third = (
        play(script(turns), purpose="execution", plan_changes=changes)
        for changes in ({}, {"run_id": "run-2"}, {"sample": 1})
    )
    seeds = [[t["seed"] for t in tree.turns] for tree in (one, other, third)]
    assert seeds[0] == seeds[1]
    assert not set(seeds[0]) & set(seeds[2])
    assert len(set(seeds[0])) == len(seeds[0])
    assert one.root.tree_id != other.root.tree_id


def test_cancellation_is_not_swallowed():
    async def run():
        class Stuck(Fake):
            async def complete(self, request):
                await asyncio.sleep(60)

        services = Services(world=Pot(), policies={"act": Stuck("p", None)})
        task = asyncio.create_task(run_tree(plan("eval"), services))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
