"""TextWorld-Sync through the runner: scripts do what their pure twins do, forks keep the path, nodes replay."""

from __future__ import annotations

import asyncio
import json
from functools import cache

import pytest

from collect import textworld_scripts as pure
from collect.dialect import dialect_for
from collect.policy import Completion, Identity
from collect.scripted import open_policy
from collect.services import Services, TreePlan
from collect.settings import Budgets, DelegationSettings, RubricSettings, TreeSettings
from collect.textworld import TextWorld
from collect.textworld_tasks import TextWorldParams, tasks_of
from collect.tree import run_tree
from collect.world import Verdict
from sera_data.errors import UsageError
from tests.collect.test_tree_scheduling import VOLATILE, replays
from tests.collect.test_tree_tokens import Characters
from tests.collect.tree_lab import check_rows

PARALLEL = DelegationSettings(scheduling="parallel")
DISHES = Budgets(launches_per_turn=5)


@cache
def tasks(profile="sync-v9", **params):
    return tasks_of(
        TextWorldParams(generator="textworld", **{"split": "test", "per_cell": 1} | params), profile=profile
    )


def run(policy, chosen, *, profile="sync-v9", purpose="eval", world=None, style="terse", **settings):
    world = world or TextWorld(profile)
    if isinstance(policy, str):
        policy = open_policy(policy, options={})
    if purpose == "eval":
        settings["rubric"] = RubricSettings(purposes=())
    settings.setdefault("budgets", DISHES)
    services = Services(
        world=world,
        policies=dict.fromkeys(("act", "writer", "scorer"), policy),
        settings=TreeSettings(**settings),
        style=style,
        dialect=dialect_for(world, "auto"),
    )

    async def trees():
        return [await run_tree(TreePlan("run-1", 0, task, 0, purpose, 7), services) for task in chosen]

    results = asyncio.run(trees())
    for result in results:
        check_rows(result)
    return results


def shared_steps(result):
    return json.loads(result.rows["nodes"][0]["end_state"])["steps"]


def ends(world, chosen, play):
    return [(world.over(end) == "success", end.steps) for end in (play(world, t) for t in chosen)]


@pytest.mark.parametrize("name", ["dish_sequential", "dish_parallel"])
def test_dish_scripts_do_what_the_pure_scripts_do(name):
    world, parallel = TextWorld("sync-v9"), name == "dish_parallel"
    play = pure.in_turn if parallel else pure.one_by_one
    results = run(name, tasks(), delegation=PARALLEL if parallel else DelegationSettings())
    expected = ends(world, tasks(), lambda w, t: play(w, t, pure.dish_scripts(w, t)))
    assert [(bool(r.root.success), shared_steps(r)) for r in results] == expected
    scheduling = {b["scheduling"] for r in results for b in r.rows["branches"]}
    assert scheduling == {"parallel" if parallel else "sequential"}
    wins = sum(success for success, _ in expected)
    assert wins < len(expected) if parallel else wins == len(expected)


def test_greedy_alone_does_what_the_pure_script_does():
    world = TextWorld("sync-v9")
    results = run("greedy", tasks(), budgets=Budgets(turns=150))
    assert [(bool(r.root.success), shared_steps(r)) for r in results] == ends(
        world, tasks(), lambda w, t: pure.alone(w, t, lambda state, agent: pure.greedy(w, state, agent))
    )


@pytest.mark.slow
def test_the_published_figures_come_out_of_the_runner():
    medium = tasks(food_db="installed", per_cell=50, difficulties=("medium",))
    solved = sum(bool(r.root.success) for r in run("dish_parallel", medium, delegation=PARALLEL))
    assert (solved, len(medium)) == (263, 350)  # 75.1 %
    others = tasks(food_db="installed", per_cell=4)
    sequential = run("dish_sequential", others)
    assert all(r.root.success for r in sequential)
    parallel = run("dish_parallel", others, delegation=PARALLEL)
    rates = {band: [] for band in ("easy", "hard", "extreme")}
    for task, result in zip(others, parallel, strict=True):
        rates.get(task.difficulty, []).append(result.root.success)
    assert all(rates["easy"])
    assert not any(rates["hard"] + rates["extreme"])


def test_the_strict_profile_needs_a_script_that_reads():
    chosen = tasks("strict", difficulties=("easy", "medium"))
    assert not any(r.root.success for r in run("greedy", chosen, profile="strict", budgets=Budgets(turns=150)))
    honest = run("honest", chosen, profile="strict", budgets=Budgets(turns=150))
    assert all(r.root.success for r in honest)
    for result in run("saboteur", chosen, profile="strict"):
        assert result.root.success is False


@pytest.mark.parametrize("profile", ["sync-v9", "strict"])
@pytest.mark.parametrize("name", ["teacher", "random", "saboteur", "delegating_oracle"])
def test_every_script_gives_valid_rows_that_replay(profile, name):
    chosen = tasks(profile)[:8:2]
    for delegation in (PARALLEL, DelegationSettings()):
        for result in run(name, chosen, profile=profile, purpose="rubric", delegation=delegation):
            assert all(row["valid"] for row in result.rows["rubrics"] + result.rows["scores"])
            assert {r.status for r in replays(Rows(result), TextWorld(profile))} == {"same"}


class Rows:
    """A result as `replays` takes it."""

    def __init__(self, result):
        self.__dict__.update(result.rows)
        self.root = result.root


class Spoken:
    """A scripted policy that speaks in token ids."""

    trainable = True

    def __init__(self, name):
        self.inner, self.renderer = open_policy(name, options={"delegate": 1.0}), Characters()
        self.identity = Identity(f"spoken:{name}", "scripted", 3)

    async def complete(self, request):
        text = (await self.inner.complete(request)).text
        ids = [*self.renderer.encode(text), self.renderer.end]
        return Completion(text, ids, [-0.1] * len(ids), "stop", "processed_logprobs", 3)

    def release(self, session):
        self.inner.release(session)


@pytest.mark.parametrize("selection", ["reference", "recommended"])
def test_eight_branches_from_one_snapshot_leave_the_path_as_it_is(selection):
    chosen = tasks()[7:9]
    one, eight = (
        run(
            Spoken("teacher"),
            chosen,
            purpose="rubric",
            delegation=DelegationSettings(mode="counterfactual", selection=selection, k=k),
        )
        for k in (1, 8)
    )
    for plain, forked in zip(one, eight, strict=True):
        assert path(plain) == path(forked)
        groups = [b for b in forked.rows["branches"] if b["k"] == 8]
        assert groups
        assert {b["selection"] for b in groups} == {selection}
        nodes = {n["node_id"]: n for n in forked.rows["nodes"]}
        for branch in groups:
            assert branch["committed"] == (branch["branch"] == 0)
            assert nodes[branch["node_id"]]["start_digest"] == branch["snapshot_digest"]
        assert len({nodes[b["node_id"]]["end_digest"] for b in groups}) > 1
        assert {r.status for r in replays(Rows(forked), TextWorld())} == {"same"}
        parent = [t for t in forked.rows["turns"] if t["node_id"] == forked.root.tree_id and t["delegations"]]
        first = nodes[parent[0]["delegations"][0]["delegation_id"] + "b0"]
        if len(parent) > 1:
            second = nodes[parent[1]["delegations"][0]["delegation_id"] + "b0"]
            assert second["start_digest"] == first["end_digest"]


def path(result):
    nodes = {n["node_id"] for n in result.rows["nodes"] if n["on_path"]}
    turns = [t for t in result.rows["turns"] if t["node_id"] in nodes and t["kind"] != "score"]
    assert all(t["prompt_ids"] for t in turns)
    return [{k: v for k, v in turn.items() if k not in VOLATILE} for turn in turns]


def test_children_start_where_their_parent_is_and_get_the_tasks_budget():
    task = tasks()[-1]
    limit = task.spec["parallelism"]["shared_environment_max_steps"]
    for world_steps, steps in (("task", limit), ("reference", 100)):
        budgets = Budgets(launches_per_turn=5, world_steps=world_steps)
        for delegation in (PARALLEL, DelegationSettings(), DelegationSettings(mode="counterfactual", k=2)):
            result = run("dish_sequential", [task], budgets=budgets, delegation=delegation)[0]
            states = [json.loads(n["start_state"]) for n in result.rows["nodes"]]
            assert {state["limit"] for state in states} == {steps}


def test_a_script_of_another_world_is_refused():
    with pytest.raises(UsageError, match=r"does not play textworld; allowed: .*dish_parallel"):
        run("careless", tasks()[:1])


class Marked(TextWorld):
    """Plants what no prompt may show into verdicts."""

    def verdict(self, start, end, targets, *, changes=None):
        found = super().verdict(start, end, targets, changes=changes or ())
        return found if found is None else Verdict(found.success, {**found.details, "m": "MARKER-LABEL"})


@pytest.mark.parametrize("profile", ["sync-v9", "strict"])
@pytest.mark.parametrize("style", ["terse", "full"])
def test_prompts_hold_the_rules_of_the_profile_and_no_verdict(profile, style):
    name = "dish_parallel" if profile == "sync-v9" else "delegating_oracle"
    chosen = tasks(profile)[:2]
    for result in run(name, chosen, world=Marked(profile), purpose="rubric", style=style, delegation=PARALLEL):
        assert any("MARKER" in (label["details"] or "") for label in result.rows["labels"])
        calls = [entry for turn in result.rows["turns"] for entry in turn["tool_calls"]]
        assert any(entry["feedback"] == "success" for entry in calls)
        for transcript in result.transcripts:
            system, *chat = transcript.messages
            own_hands = "your hands and this conversation are your own" in system.content
            assert own_hands == (style == "full" and profile == "strict" and transcript.role == "act")
            prompts = [m.content for m in chat if m.role == "user"]
            text = "\n".join(li for p in prompts for li in p.split("\n") if not li.startswith("Rubric: "))
            for word in ("MARKER", "reward", "success", "failure", "exhausted", "score"):
                assert word not in text
