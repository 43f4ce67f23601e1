"""The world's protocol and the properties that hold for every sequence of commands, under both profiles."""

import asyncio
import copy
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect.records import StateCell
from collect.textworld import COMMAND, TextWorld
from collect.textworld_rules import progress
from collect.textworld_state import WorldState, left, ticked
from collect.world import Action, Agent
from collect.worlds import open_world
from sera_data.canonical import sha256_text
from sera_data.errors import UsageError
from tests.collect.textworld_lab import OTHER, RECIPES, ROOT, do, play, start, task

PROFILES = TextWorld.profiles
FULL = {
    "sync-v9": """take salt, take carrot, chop carrot, cook carrot in stove, prepare dish_1, eat dish_1, go to garden,
        take red onion, dice red onion, cook red onion on grill, go to pantry, take onion, slice onion, prepare dish_2,
        eat dish_2""",
    "strict": """take knife, take carrot, chop carrot, cook carrot in stove, put carrot on counter, take salt,
        put salt on counter, prepare dish_1, eat dish_1, go to garden, take red onion, dice red onion,
        cook red onion on grill, go to kitchen, put red onion on counter, go to pantry, take onion, slice onion,
        go to kitchen, put onion on counter, prepare dish_2, eat dish_2""",
}
FULL = {profile: [" ".join(text.split()) for text in way.split(",")] for profile, way in FULL.items()}


@pytest.mark.parametrize("make", [TextWorld, lambda profile: open_world("textworld", profile=profile)])
def test_an_unknown_profile_names_the_allowed(make):
    with pytest.raises(UsageError, match="no profile 'easy'; allowed: sync-v9, strict"):
        make(profile="easy")


def test_what_the_world_declares():
    world = open_world("textworld", profile="strict")
    assert (world.name, world.profile, world.fork, world.goal_kind) == ("textworld", "strict", "pure", "text")
    (tool,) = world.tools()
    assert (tool.name, json.loads(tool.example)["tool"]) == (COMMAND, COMMAND)


@pytest.mark.parametrize("profile", PROFILES)
def test_agents_enter_where_their_parent_is_and_leave(profile):
    world, state = start(profile)
    state = play(world, state, "go to pantry")
    state = world.enter(state, OTHER, ROOT)
    assert (state.agents, state.rooms) == (("root", OTHER.node_id), (1, 1))
    with pytest.raises(ValueError, match="is in this world already"):
        world.enter(state, OTHER, ROOT)
    third = Agent("root/t1d0b0", 1, None)
    state = world.enter(state, third, ROOT)
    state = world.leave(state, OTHER)
    assert state.agents == ("root", "", third.node_id)
    with pytest.raises(ValueError, match=r"agent 'root/t0d0b0' is not in this world, it holds \['root', "):
        world.observe(state, OTHER)
    again = world.enter(state, OTHER, third)
    assert again.agents == ("root", OTHER.node_id, third.node_id)
    assert (
        world.leave(world.leave(again, third), OTHER)
        == left(left(again, 2), 1)
        == play(*start(profile), "go to pantry")
    )


@pytest.mark.parametrize(
    "action", [Action("craft", {"text": "take salt"}), Action(COMMAND), Action(COMMAND, {"text": 7})]
)
def test_a_call_that_is_no_command_costs_nothing(action):
    world, state = start("strict")
    after, event = world.apply(state, ROOT, action)
    assert (after is state, event.ok, event.feedback) == (True, False, "rejected")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_root_is_judged_by_all_dishes_with_a_progress_vector(profile):
    world, state = start(profile)
    targets = world.root_targets(task())
    assert world.goal(targets) == task().goal
    begun = state
    half = FULL[profile].index("eat dish_1") + 1
    state = play(world, state, *FULL[profile][:half])
    verdict = world.verdict(begun, state, targets)
    assert (verdict.success, verdict.details["completed_dishes"], verdict.details["completed_foods"]) == (False, 1, 2)
    assert verdict.details["progress"] == progress(state)
    assert progress(state)[0] == {
        "dish": "dish_1",
        "foods": 2,
        "collected": 2,
        "ready": 2,
        "prepared": True,
        "eaten": True,
    }
    assert progress(state)[1] == {
        "dish": "dish_2",
        "foods": 2,
        "collected": 0,
        "ready": 0,
        "prepared": False,
        "eaten": False,
    }
    state = play(world, state, *FULL[profile][half:])
    assert world.verdict(begun, state, targets).success
    assert world.over(state) == "success"
    json.dumps(world.verdict(begun, state, targets).details)


@pytest.mark.parametrize(
    "raw, reason",
    [
        (None, "a launch has a goal in words, got None"),
        ({}, "a launch has a goal in words"),
        ({"goal": "  "}, "a launch has a goal in words"),
        ({"goal": 7}, "a launch has a goal in words"),
        ({"goal": "x" * 4_001}, "at most 4000 characters, got 4001"),
        ({"goal": "x", "max_steps": 0}, "max_steps must be a whole number from 1, got 0"),
        ({"goal": "x", "max_steps": True}, "max_steps must be a whole number from 1, got True"),
        ({"goal": "x", "max_steps": 2.5}, "max_steps must be a whole number from 1, got 2.5"),
    ],
)
def test_launches_that_are_refused(raw, reason):
    world, state = start("strict")
    with pytest.raises(ValueError, match=reason):
        world.check_targets(state, raw)


def test_launches_that_are_taken_are_plain_json():
    world, state = start("strict")
    targets = world.check_targets(state, {"goal": " chop the carrot ", "max_steps": 4})
    assert targets == {"goal": "chop the carrot", "max_steps": 4, "conditions": [["chopped", "carrot"]]}
    vague = world.check_targets(state, {"goal": "look after the kitchen"})
    assert vague == {"goal": "look after the kitchen", "max_steps": None, "conditions": None}
    assert world.verdict(state, state, vague) is None
    assert world.verdict(state, state, None) is None
    assert json.loads(json.dumps(targets)) == targets


@pytest.mark.parametrize("profile", PROFILES)
def test_difference_is_the_net_change_without_judgements(profile):
    world, state = start(profile)
    begun = state
    state = play(world, state, *FULL[profile][:4])
    shown = world.difference(begun, state)
    assert shown["cut"] == {"carrot": "chopped"}
    assert "ready" not in shown
    assert world.difference(state, state) == {}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_state_travels(profile):
    world, state = start(profile, OTHER)
    state = play(world, state, *FULL[profile][:3])
    assert copy.copy(state) is copy.deepcopy(state) is state
    assert pickle.loads(pickle.dumps(state)) == state
    assert world.load(world.dump(state)) == state
    with pytest.raises(ValueError, match="not a dumped TextWorld state"):
        world.load('{"agents":[]}')
    with pytest.raises(
        ValueError, match=r"kitchen 0{16} of profile .* is not known here; reset the state's task first"
    ):
        world.load(world.dump(state).replace(state.kitchen.digest, "0" * 16))


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_that_agents_read_says_how_the_task_is_judged(profile):
    """Results and views are shown to scorers and judges too: no score, reward or verdict in them, at the end either."""
    world, state = start(profile)
    texts = []
    for text in FULL[profile]:
        state, event = do(world, state, text)
        texts += [event.result, world.observe(state, ROOT), json.dumps(world.difference(state, state))]
    for word in ("score", "reward", "success", "fail", "exhaust", "verdict", "win", "won"):
        assert not [text for text in texts if word in text.lower()]


NAMES = [name for foods in RECIPES.values() for name, *_ in foods]
TEXTS = st.sampled_from(
    [
        *(f"{verb} {name}" for name in NAMES for verb in ("take", "chop", "slice", "dice", "drop", "eat")),
        *(f"cook {name} {where}" for name in NAMES for where in ("in stove", "in oven", "on grill")),
        *(f"put {name} on counter" for name in NAMES),
        *(f"go to {room}" for room in ("kitchen", "pantry", "garden", "attic")),
        *(f"{verb} {dish}" for dish in RECIPES for verb in ("prepare", "eat")),
        *("open door", "take knife", "drop knife", "wait", "look around", "read cookbook", "inventory", "nonsense"),
    ]
)
AGENTS = st.sampled_from([ROOT, OTHER])
MOVES = st.lists(st.tuples(AGENTS, st.one_of(TEXTS, st.integers(0, 40))), max_size=60)
SETTINGS = st.fixed_dictionaries(
    {
        "doors": st.integers(0, 1),
        "limited": st.integers(0, 1),
        "capacity": st.integers(1, 2),
        "cooldown": st.integers(0, 2),
        "steps": st.sampled_from([8, 20, 60]),
        "gated": st.sampled_from([(), ("dish_2",)]),
    }
)


def run(profile, moves, setup):
    """Play moves (a number takes one of the offered commands); the states and the log of (agent, text, event)."""
    world, state = start(profile, OTHER, **setup)
    states, log = [state], []
    for agent, choice in moves:
        offered = world.commands(state, agent)
        text = choice if isinstance(choice, str) else offered[choice % len(offered)] if offered else "wait"
        legal = text in offered
        after, event = do(world, state, text, agent)
        assert event.ok == legal, (text, event.result)
        assert after.steps - state.steps in (0, 1)
        state = after
        states.append(state)
        log.append((agent, text, event))
    return world, states, log


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None, max_examples=60)
@given(moves=MOVES, setup=SETTINGS)
def test_offered_is_accepted_and_a_replay_reaches_the_same_digest(profile, moves, setup):
    world, states, log = run(profile, moves, setup)
    state = world.load(world.dump(states[0]))
    for agent, text, event in log:
        state, again = world.apply(state, agent, Action(COMMAND, {"text": text}))
        assert again == event
    assert sha256_text(world.dump(state)) == sha256_text(world.dump(states[-1]))
    for state in states:
        assert world.load(world.dump(state)) == state
        assert len(world.dump(state).encode()) < 1024


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None, max_examples=40)
@given(moves=MOVES, setup=SETTINGS)
def test_deltas_tell_what_changed(profile, moves, setup):
    world, states, log = run(profile, moves, setup)
    deltas = [event.delta for _, _, event in log if event.delta is not None]
    told, seen = world.difference(states[0], states[-1], changes=deltas), world.difference(states[0], states[-1])
    for key in ("taken", "spoiled", "deleted", "prepared", "eaten"):
        assert {name for name in told.get(key, ()) if name != "knife"} == set(seen.get(key, ()))
    for key in ("cut", "cooked", "gate"):
        assert told.get(key) == seen.get(key)


def legal(recipes, log):
    """Whether a log of accepted commands is a legal way to all dishes; knows the recipes, not the rules' code."""
    happened = [(event.delta or {}) for _, _, event in log if event.ok]

    def first(key, name):
        return next((i for i, d in enumerate(happened) if name in d.get(key, ())), None)

    for dish, foods in recipes.items():
        prepared, eaten = first("prepared", dish), first("eaten", dish)
        if prepared is None or eaten is None or not prepared < eaten:
            return False
        for name, cooking, cut, _ in foods:
            steps = [("cut", cut)] * (cut != "uncut") + [("cooked", cooking)] * (cooking != "raw")
            taken = first("taken", name)
            placed = max((i for i, d in enumerate(happened) if name in d.get("placed", ())), default=None)
            if taken is None or placed is None or not taken <= placed < prepared:
                return False
            for key in ("cut", "cooked"):
                words = [(i, d[key][name]) for i, d in enumerate(happened) if name in d.get(key, {})]
                if [word for _, word in words] != [word for kind, word in steps if kind == key]:
                    return False
                if any(not taken < i < prepared for i, _ in words):
                    return False
    return not any(d.get("spoiled") or d.get("deleted") for d in happened)


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None, max_examples=60)
@given(data=st.data(), setup=SETTINGS)
def test_success_implies_a_legal_log(profile, data, setup):
    """Drawn detours around a way to success, then whatever is left of it: often a success, and only a legal one."""
    recipes = {"dish_1": RECIPES["dish_1"]}
    world, state = start(profile, recipes=recipes, **setup | {"gated": (), "steps": 60})
    way = FULL[profile][: FULL[profile].index("eat dish_1") + 1]
    log = []
    for text in ["open door", *way]:
        for detour in data.draw(st.lists(st.one_of(TEXTS, st.integers(0, 40)), max_size=1)):
            offered = world.commands(state, ROOT)
            extra = detour if isinstance(detour, str) else offered[detour % len(offered)] if offered else "wait"
            state, event = do(world, state, extra)
            log.append((ROOT, extra, event))
        state, event = do(world, state, text)
        log.append((ROOT, text, event))
    success = world.over(state) == "success"
    assert success == world.verdict(state, state, world.root_targets(task())).success
    if success:
        assert legal(recipes, [entry for entry in log if entry[2].ok])
        assert state.steps <= state.limit


@pytest.mark.parametrize("profile", PROFILES)
def test_legal_logs_exist_and_illegal_ones_are_told_apart(profile):
    world, state = start(profile)
    log = []
    for text in FULL[profile]:
        state, event = do(world, state, text)
        log.append((ROOT, text, event))
    assert world.over(state) == "success"
    assert legal(RECIPES, log)
    needed = [i for i, (_, text, _) in enumerate(log) if not text.startswith("go ") and text != "take knife"]
    assert len(needed) == {"sync-v9": 13, "strict": 17}[profile]
    assert not any(legal(RECIPES, log[:i] + log[i + 1 :]) for i in needed)


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None, max_examples=30)
@given(mine=st.lists(st.integers(0, 40), max_size=15), theirs=st.lists(st.integers(0, 40), max_size=15), setup=SETTINGS)
def test_interleaved_agents_equal_one_total_order(profile, mine, theirs, setup):
    """Two coroutines over one shared cell: whatever the interleaving, it is the fold of one ordered log."""
    world, begun = start(profile, OTHER, **setup)
    cell, log = StateCell(begun), []

    async def play_one(agent, choices):
        for choice in choices:
            offered = world.commands(cell.state, agent)
            await asyncio.sleep(0)  # the other acts in between: what was offered may be gone
            text = offered[choice % len(offered)] if offered else "wait"
            revision = cell.revision
            state, _ = world.apply(cell.state, agent, Action(COMMAND, {"text": text}))
            cell.swap(revision, state)
            log.append((agent, text))

    async def both():
        await asyncio.gather(play_one(ROOT, mine), play_one(OTHER, theirs))

    asyncio.run(both())
    state = begun
    for agent, text in log:
        state, _ = world.apply(state, agent, Action(COMMAND, {"text": text}))
    assert world.dump(state) == world.dump(cell.state)
    assert len(log) == len(mine) + len(theirs)


def test_cool_downs_tick_to_zero():
    assert ticked((2, 1, 0, 3)) == (1, 0, 0, 2)
    assert WorldState._fields[-2:] == ("steps", "limit")
