"""Best of N: the choice, its record, its budget of environments, both worlds and both kinds of dialect."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.judge_config import JudgeConfig
from collect.labels import InlineJudge, Opinion
from collect.selection import choose
from collect.settings import Budgets, DelegationSettings
from sera_data.errors import UsageError
from tests.collect.hut import Hut, ask, done, say
from tests.collect.tree_lab import RUBRIC, SCORE, Fake, Pot, call, play, script
from tests.collect.tree_lab import done as pot_done

VALUES = st.lists(st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=6)


def best_of(n=2, selector="rubric", **settings):
    return DelegationSettings(mode="best_of", selector=selector, k=n, **settings)


def delegate(**targets):
    return call("delegate", targets=targets)


def scores(table):
    """A scorer that gives a candidate the score of the count it gained."""

    def reply(request):
        gained = json.loads(request.messages[-1].content.rpartition("Gained: ")[2])
        value = table[gained.get("a", 0)]
        return "no score" if value is None else json.dumps({**SCORE, "final_score": value})

    return Fake("scorer", reply)


def pot(*counts):
    """The root delegates once; candidate i adds counts[i]."""
    turns = {"": [delegate(a=1), pot_done()]}
    for branch, count in enumerate(counts):
        turns[f"/t0d0b{branch}"] = [call("add", item="a", n=count), pot_done(f"made {count}")]
    return script(turns)


def chosen(tree):
    (row,) = (row for row in tree.branches if row["committed"])
    return row


@given(VALUES)
def test_the_highest_valid_score_wins_and_ties_go_to_the_first(values):
    choice = choose("rubric", values, seed=0)
    valid = [value for value in values if value is not None]
    if not valid:
        assert (choice.branch, choice.reason) == (0, "no candidate has a valid score, so branch 0")
    else:
        assert choice.branch == values.index(max(valid))


@given(VALUES)
def test_a_judge_takes_the_first_success(values):
    choice = choose("judge", values, seed=0)
    won = [branch for branch, value in enumerate(values) if value == 1.0]
    assert choice.branch == (won[0] if won else 0)


def test_controls_do_not_look_at_values():
    assert choose("first", [0.0, 1.0], seed=3).branch == 0
    drawn = [choose("random", [0.0, 1.0, 1.0], seed=seed).branch for seed in range(300)]
    assert all(70 < drawn.count(branch) < 130 for branch in range(3))
    assert drawn == [choose("random", [None] * 3, seed=seed).branch for seed in range(300)]


@pytest.mark.parametrize(
    ("values", "branch", "reason"),
    [
        ([0.2, 0.9], 1, "highest score"),
        ([0.9, 0.2], 0, "highest score"),
        ([0.5, 0.5], 0, "first of 2 with the highest score"),
        ([None, 0.1], 1, "highest score"),
        ([None, None], 0, "no candidate has a valid score, so branch 0"),
    ],
)
def test_the_winner_is_what_the_parent_gets(values, branch, reason):
    counts = (1, 3)
    act = Fake("player", pot(*counts))
    tree = play(act, purpose="eval", delegation=best_of(), scorer=scores(dict(zip(counts, values, strict=True))))
    row = chosen(tree)
    assert (row["branch"], row["selection_reason"], row["selected_by"]) == (branch, reason, "rubric")
    assert {(b["k"], b["selection"], b["complete"]) for b in tree.branches} == {(2, "best_of", True)}
    root, *candidates = tree.nodes
    assert json.loads(root["end_state"])["inventory"] == {"a": counts[branch], "z": 1}
    assert [node["on_path"] for node in candidates] == [branch == 0, branch == 1]
    (turn,) = (t for t in tree.turns if t["node_id"] == root["node_id"] and t["kind"] == "act" and t["step"] == 0)
    assert turn["observation"] == f"Child: made {counts[branch]}. Steps used: 2 of 20."
    assert json.loads(turn["tool_calls"][0]["delta"]) == {"a": counts[branch]}
    assert len(tree.scores) == 2
    assert tree.root.n_nodes == 2
    assert tree.root.success is (counts[branch] >= 2)


def test_one_rubric_is_frozen_before_all_candidates_and_none_sees_it():
    act = Fake("player", pot(1, 3))
    tree = play(act, purpose="eval", delegation=best_of(), scorer=scores({1: 0.1, 3: 0.9}))
    assert len(tree.rubrics) == 1
    assert all(RUBRIC["success_gate"] not in m.content for r in act.requests for m in r.messages)
    assert {row["rubric_id"] for row in tree.scores} == {tree.rubrics[0]["rubric_id"]}


def test_without_a_valid_rubric_branch_0_is_taken_and_the_reason_kept():
    writer = Fake("writer", lambda request: "no rubric")
    tree = play(Fake("player", pot(1, 3)), purpose="eval", delegation=best_of(), writer=writer)
    assert chosen(tree)["branch"] == 0
    assert chosen(tree)["selection_reason"].startswith("no valid rubric (")
    assert tree.scores == []


def test_a_candidate_is_scored_after_its_own_children_were_selected():
    turns = {"": [delegate(a=1), pot_done()]}
    for branch in range(2):
        turns[f"/t0d0b{branch}"] = [delegate(a=1), pot_done()]
        for inner, count in enumerate((2 + branch, 5 - branch)):
            turns[f"/t0d0b{branch}/t0d0b{inner}"] = [call("add", item="a", n=count), pot_done()]
    scorer = scores({2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5})
    tree = play(Fake("player", script(turns)), purpose="eval", delegation=best_of(), scorer=scorer)
    committed = {b["delegation_id"].partition("/")[2]: b["branch"] for b in tree.branches if b["committed"]}
    assert committed == {"t0d0": 0, "t0d0b0/t0d0": 1, "t0d0b1/t0d0": 1}
    gained = [r.messages[-1].content.rpartition("Gained: ")[2] for r in scorer.requests]
    assert sorted(gained[:4]) == ['{"a":2}', '{"a":3}', '{"a":4}', '{"a":5}']
    assert sorted(gained[4:]) == ['{"a":4}', '{"a":5}']
    assert json.loads(tree.nodes[0]["end_state"])["inventory"] == {"a": 5, "z": 1}
    assert [n["node_id"].partition("/")[2] for n in tree.nodes if n["on_path"]] == ["", "t0d0b0", "t0d0b0/t0d0b1"]


def test_siblings_run_one_after_another_on_the_winners_state():
    both = call("delegate", launches=[{"targets": {"a": 1}}, {"targets": {"b": 1}}])
    turns = {"": [both, pot_done()]}
    for item, launch in (("a", 0), ("b", 1)):
        for branch in range(2):
            turns[f"/t0d{launch}b{branch}"] = [call("add", item=item, n=1 + branch), pot_done()]
    act = Fake("player", script(turns))
    tree = play(act, purpose="eval", delegation=best_of(), scorer=scores({0: 0.1, 1: 0.1, 2: 0.9}))
    assert len({b["delegation_id"] for b in tree.branches}) == 2
    seen = {n["node_id"].partition("/")[2]: json.loads(n["start_state"])["inventory"] for n in tree.nodes}
    assert seen["t0d1b0"] == seen["t0d1b1"] == {"a": 2, "z": 1}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_delegations_fit_the_cap_and_the_next_is_done_locally(n):
    cap, rest = 32, 32 // n
    turns = {"": [delegate(a=1)] * (rest + 2) + [pot_done()]}
    turns |= {f"/t{step}d0b0": [pot_done("nothing")] for step in range(rest)}
    act = Fake("player", script(turns))
    tree = play(act, purpose="eval", delegation=best_of(n, "first"), budgets=Budgets(turns=rest + 3))
    assert len({b["delegation_id"] for b in tree.branches}) == rest
    assert sum(b["committed"] for b in tree.branches) == rest
    assert [b["budget_position"] for b in tree.branches if b["branch"] == 0] == list(range(0, rest * n, n))
    told = [t["observation"] for t in tree.turns if t["node_id"] == tree.nodes[0]["node_id"]]
    notice = f"Refused: all {cap} environments of the tree are used up and no child is left, do it yourself."
    assert told[rest:-1] == [notice, notice]
    assert [t["delegations"][0]["status"] for t in tree.turns[rest : rest + 2]] == ["refused", "refused"]


def test_sixteen_delegations_of_two_then_the_notice():
    turns = {"": [delegate(a=1)] * 17 + [pot_done()]}
    turns |= {f"/t{step}d0b0": [pot_done("nothing")] for step in range(16)}
    tree = play(
        Fake("player", script(turns)), purpose="eval", delegation=best_of(2, "random"), budgets=Budgets(turns=18)
    )
    assert (len(tree.branches), len(tree.nodes)) == (32, 33)
    assert "used up and no child is left" in tree.turns[16]["observation"]
    assert tree.root.outcome == "finished"


def test_one_candidate_in_order_is_the_sequential_control():
    act = Fake("player", pot(3, 1))
    tree = play(act, purpose="eval", delegation=best_of(1, "first"))
    assert [(b["branch"], b["committed"], b["selected_by"]) for b in tree.branches] == [(0, True, "first")]
    assert tree.rubrics == tree.scores == []
    assert tree.root.success is True


def test_candidates_sample_at_their_own_temperature_and_the_root_at_its_own():
    act = Fake("player", pot(1, 3))
    play(act, purpose="eval", delegation=best_of(2, "first", candidate_temperature=0.7))
    heats = {(r.session.partition("/")[2] != "", r.sampling.temperature) for r in act.requests}
    assert heats == {(False, 1.0), (True, 0.7)}


def test_a_random_choice_repeats_and_depends_on_the_run_seed():
    def branch(seed):
        tree = play(
            Fake("player", pot(1, 3)), purpose="eval", delegation=best_of(2, "random"), plan_changes={"seed": seed}
        )
        return chosen(tree)["branch"]

    first = [branch(seed) for seed in range(12)]
    assert first == [branch(seed) for seed in range(12)]
    assert set(first) == {0, 1}


def test_text_commands_fork_score_and_commit_the_same_way():
    turns = {
        "": [ask("make 1 a"), done()],
        "/t0d0b0": [say("go attic"), done("gave up")],
        "/t0d0b1": [say("add a"), done("made a")],
    }
    tree = play(
        Fake("player", script(turns)),
        world=Hut(),
        purpose="eval",
        delegation=best_of(),
        scorer=scores({0: 0.0, 1: 0.8}),
    )
    assert chosen(tree)["branch"] == 1
    items, _, left = json.loads(tree.nodes[0]["end_state"])
    assert (items, left) == ({"a": 1, "z": 1}, 98)  # the loser's step is no step of this world


class Sees:
    """A judge that calls a candidate successful when its report says what it wants to hear."""

    kind, concurrency = "judge", 4

    def __init__(self, word):
        self.word = word

    def signature(self, world):
        return "sees", "1"

    async def label(self, subject, *, attempt):
        if self.word is None:
            return Opinion(value=None, error="out of order")
        return Opinion(value=1.0 if self.word in (subject.message or "") else 0.0)

    async def close(self):
        pass


@pytest.mark.parametrize(
    ("word", "branch", "reason"),
    [
        ("made 3", 1, "first judged successful"),
        ("made", 0, "first judged successful"),
        ("cake", 0, "none judged successful, so branch 0"),
        (None, 0, "no candidate has a valid verdict, so branch 0"),
    ],
)
def test_a_judge_chooses_by_its_verdicts(word, branch, reason):
    judge = InlineJudge(Sees(word), JudgeConfig(spec="openai:x@http://localhost"))
    tree = play(Fake("player", pot(1, 3)), purpose="eval", delegation=best_of(2, "judge"), judge=judge)
    assert (chosen(tree)["branch"], chosen(tree)["selection_reason"]) == (branch, reason)
    votes = [label for label in tree.labels if label["source"] == "sees"]
    assert [(v["use"], v["inclusion_probability"], v["valid"]) for v in votes] == [("audit", 1.0, word is not None)] * 2
    assert tree.rubrics == []


def test_a_judge_must_be_there():
    with pytest.raises(UsageError, match="there is no judge"):
        play(Fake("player", pot(1, 3)), purpose="eval", delegation=best_of(2, "judge"))


def test_a_candidate_lost_to_infrastructure_is_no_choice():
    turns = {"": [delegate(a=1), pot_done()], "/t0d0b0": [pot_done()], "/t0d0b1": [call("add", item="crash", n=1)]}
    tree = play(Fake("player", script(turns)), purpose="eval", delegation=best_of())
    assert tree.root.outcome == "infra_error"
    assert {b["exclusion_reason"] for b in tree.branches} == {"infra_error in branch 1"}


def test_a_world_that_cannot_fork_refuses_best_of_n():
    class Single(Pot):
        fork = "none"

    with pytest.raises(UsageError, match="cannot fork"):
        play(Fake("player", pot(1, 3)), purpose="eval", world=Single(), delegation=best_of())
