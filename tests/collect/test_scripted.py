"""Scripted policies through the full runner: what each must achieve, and that every role is answered validly."""

import asyncio
import json
from pathlib import Path

import pytest

from collect.dialect_json import JsonDialect
from collect.policy import Request, Sampling
from collect.scripted import SCRIPTS, open_policy
from collect.scripted_agents import family_of
from collect.services import Services, TreePlan
from collect.settings import Budgets, DelegationSettings, RubricSettings, TreeSettings
from collect.task_file import import_published
from collect.textcraft import TextCraft
from collect.textcraft_tasks import PoolParams, build_pool
from collect.tree import run_tree
from collect.world import Agent
from sera_data.errors import UsageError

PUBLISHED = Path(__file__).parents[1] / "data" / "textcraft_synth" / "val.jsonl"
POCKET = TreeSettings(budgets=Budgets(turns=(14, 10, 8), depth=2), rubric=RubricSettings(purposes=("rubric",)))
FORKED = TreeSettings(
    budgets=POCKET.budgets,
    rubric=POCKET.rubric,
    delegation=DelegationSettings(mode="counterfactual", selection="recommended", k=8, forks_per_tree=2),
)


def play(name, tasks, *, settings=POCKET, purpose="rubric", options=None, profile="strict"):
    policy = open_policy(name, options=options or {})
    services = Services(TextCraft(profile), {"act": policy, "writer": policy, "scorer": policy}, settings)

    async def all_trees():
        return [await run_tree(TreePlan("run", 0, task, 0, purpose, 3), services) for task in tasks]

    results = asyncio.run(all_trees())
    assert not policy._minds  # every session was released
    return results


def pocket_tasks(n):
    return build_pool(PoolParams(worlds="1000-1009", n=n, seed=5))


@pytest.mark.parametrize("name", ["oracle", "delegating_oracle"])
def test_oracles_win_without_an_error(name):
    results = play(name, pocket_tasks(50))
    assert all(result.root.success for result in results)
    assert all(turn["ok"] for result in results for turn in result.rows["turns"])
    assert any(result.root.n_delegations for result in results) == (name == "delegating_oracle")
    for result in results:  # a right gate: the score is above 0 exactly for those who succeeded
        value = {label["node_id"]: label["value"] for label in result.rows["labels"]}
        assert all((score["final_score"] > 0) == (value[score["node_id"]] == 1) for score in result.rows["scores"])


@pytest.mark.parametrize("name", [name for name, script in SCRIPTS.items() if script.crafts])
def test_every_role_is_answered_validly(name):
    tasks = pocket_tasks(16)
    results = play(name, tasks, settings=FORKED)
    rubrics = [row for result in results for row in result.rows["rubrics"]]
    scores = [row for result in results for row in result.rows["scores"]]
    assert all(row["valid"] for row in rubrics + scores)
    assert {result.root.outcome for result in results} <= {"finished", "not_finished"}
    if name not in ("oracle", "saboteur", "single_cell"):
        assert rubrics
        assert scores
    for row in rubrics:
        assert 4 <= len(row["items"]) <= 5
        assert sum(item["weight"] for item in row["items"]) == pytest.approx(1)


def test_the_same_seeds_give_the_same_tree():
    texts = [
        [turn["text"] for result in play("teacher", pocket_tasks(8), settings=FORKED) for turn in result.rows["turns"]]
        for _ in range(2)
    ]
    assert texts[0] == texts[1]


def test_what_the_misbehaving_ones_do():
    tasks = pocket_tasks(40)
    assert {result.root.outcome for result in play("never_finisher", tasks[:10])} == {"not_finished"}
    saboteurs = play("saboteur", tasks)
    assert sum(bool(result.root.success) for result in saboteurs) < 8
    crafted = [t for r in saboteurs for t in r.rows["turns"] if t["ok"] and '"tool":"craft"' in (t["text"] or "")]
    assert len(crafted) > 20
    wanderers = play("random", tasks)
    assert any(not turn["ok"] for result in wanderers for turn in result.rows["turns"])
    careless = sum(bool(result.root.success) for result in play("careless", tasks))
    assert 8 < careless < 38


def measured(results):
    """Success rate, share of mixed groups of 8, and pair accuracy with ties counted half."""
    mixed, pairs = [], []
    for result in results:
        value = {label["node_id"]: label["value"] for label in result.rows["labels"]}
        groups = {}
        for row in result.rows["scores"]:
            groups.setdefault(row["rubric_id"], []).append((value[row["node_id"]], row["final_score"]))
        for group in (members for members in groups.values() if len(members) == 8):
            won, lost = ([score for verdict, score in group if verdict == v] for v in (1, 0))
            mixed.append(bool(won and lost))
            pairs += [(a > b) + (a == b) / 2 for a in won for b in lost]
    success = sum(bool(result.root.success) for result in results) / len(results)
    return success, sum(mixed) / len(mixed), sum(pairs) / len(pairs)


def test_the_teacher_leaves_something_to_learn():
    success, mixed, accuracy = measured(play("teacher", pocket_tasks(150), settings=FORKED))
    assert 0.65 < success < 0.95
    assert mixed > 0.3
    assert 0.62 < accuracy < 0.8
    _, _, right = measured(play("teacher", pocket_tasks(60), settings=FORKED, options={"gates": {"right": 1}}))
    assert right > 0.98


def test_hasty_agents_and_shirkers_claim_too_early():
    tasks = build_pool(PoolParams(worlds="1000-1009", n=30, seed=5, tier_mix={2: 1.0}))
    clean = {"slips": {0.0: 1.0}, "delegate": 1.0}
    assert all(result.root.success for result in play("teacher", tasks, options=clean))
    hasty = play("teacher", tasks, options={**clean, "hasty": 1.0})
    assert not any(result.root.success for result in hasty if result.root.n_delegations)
    assert all(turn["ok"] for result in hasty for turn in result.rows["turns"])  # nothing went wrong on the way
    shirked = play("teacher", tasks, options={**clean, "shirk": 1.0})
    of_child = [label["value"] for result in shirked for label in result.rows["labels"] if "/" in label["node_id"]]
    assert of_child
    assert not any(of_child)


def test_fumblers_fail_once_and_repair():
    tasks = build_pool(PoolParams(worlds="1000-1009", n=20, seed=5, tier_mix={2: 1.0}))
    results = play("teacher", tasks, options={"slips": {0.0: 1.0}, "delegate": 1.0, "fumble": 1.0})
    assert all(result.root.success for result in results)
    for result in results:
        crafts = {}
        for turn in result.rows["turns"]:
            if turn["kind"] == "act" and json.loads(turn["action"])["tool"] == "craft":
                crafts.setdefault(turn["node_id"], []).append(turn["ok"])
        assert crafts
        assert all(found[0] is False and all(found[1:]) and len(found) > 1 for found in crafts.values())


def test_habits_stay_in_their_families():
    tasks = build_pool(PoolParams(worlds="1000-1009", n=40, seed=5, tier_mix={2: 1.0}))
    options = {"slips": {0.0: 1.0}, "delegate": 1.0, "hasty": 1.0, "families": "mc"}
    results = play("teacher", tasks, options=options)
    won = {letter: [] for letter in "mcoat"}
    for task, result in zip(tasks, results, strict=True):
        if result.root.n_delegations:
            won[next(iter(task.spec["targets"]))[0]].append(result.root.success)
    assert all(won.values())
    assert not any([*won["m"], *won["c"]])
    assert all([*won["o"], *won["a"], *won["t"]])
    assert [family_of(item) for item in ("m2_i3", "c0_ore", "raw_o7")] == ["m", "c", "o"]


def test_delegating_oracle_on_published_tasks():
    tasks = import_published(PUBLISHED)
    some = []
    for band, step in (("easy", 12), ("medium", 25), ("hard", 60)):
        some += [task for task in tasks if task.difficulty == band][::step]
    results = play("delegating_oracle", some, settings=TreeSettings(), purpose="eval", profile="rao-42")
    assert all(result.root.success for result in results)
    assert max(result.root.max_depth for result in results) >= 2


def test_an_oracle_decides_from_what_it_saw():
    (task,) = build_pool(PoolParams(worlds="1000", n=1, tier_mix={2: 1.0}))
    world = TextCraft("strict")
    start = world.reset(task)
    facts = {
        "world": world,
        "task": task,
        "state": None,  # the true state is not read
        "start": start,
        "agent": Agent("r", 0, world.root_targets(task)),
        "context": None,
        "turns_left": 14,
        "max_depth": 2,
        "history": [],
        "dialect": JsonDialect(),
    }
    request = Request("act", "r", [], None, Sampling(1.0, 64, 1), facts)
    completion = asyncio.run(open_policy("oracle", options={}).complete(request))
    item = next(iter(task.spec["targets"]))
    assert completion.text == f'{{"tool":"get_info","items":["{item}"]}}'
    assert (completion.completion_ids, completion.logprobs, completion.logprobs_mode) == (None, None, "none")


@pytest.mark.parametrize(
    "name, options, reason",
    [
        ("genius", {}, "allowed: oracle, delegating_oracle"),
        ("teacher", {"gates": {"wrong": 1}}, "allowed: right, under, finish, no_error, effort"),
        ("teacher", {"gates": {"right": 0}}, "needs a weight above 0"),
        ("teacher", {"slips": {"2": 1}}, "a slip rate is from 0 to 1"),
        ("teacher", {"slips": [1]}, "must map names to weights"),
        ("teacher", {"delegate": 1.5}, "a share from 0 to 1"),
        ("teacher", {"shirk": -1}, "a share from 0 to 1"),
        ("teacher", {"families": "mx"}, "letters out of 'mcoat'"),
        ("teacher", {"families": None}, "letters out of 'mcoat'"),
        ("teacher", {"substance": "much"}, "a share from 0 to 1"),
    ],
)
def test_wrong_options_are_refused(name, options, reason):
    with pytest.raises(UsageError, match=reason):
        open_policy(name, options=options)
