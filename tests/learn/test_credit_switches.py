"""Every switch of the shipped rules through the SQL: golden vectors, and what each word changes."""

from __future__ import annotations

import math

import pytest

from sera_data.errors import ConfigError
from tests.learn.forest import Forest
from tests.learn.one_stage import column, credit_of, one_stage
from tests.learn.test_credit_rubric import A, B, fork

NEAR = {"abs": 1e-7}


def flock(scores: dict[str, list[float]]) -> tuple[Forest, dict[str, str]]:
    """Per tree a root that succeeds (upper case name) or not, and children with the scores given."""
    forest, names = Forest(), {}
    for sample, (name, values) in enumerate(scores.items()):
        names[name] = forest.root("a", sample, int(name.isupper()), n_turns=2)
        for index, score in enumerate(values):
            names[f"{name}{index}"] = forest.child(names[name], 0, launch_index=index, score=score)
    return forest, names


def test_golden_rank_disc():
    forest = Forest()
    roots = [forest.root("a", sample, 1, purpose="rubric") for sample in range(2)]
    good, bad = fork(forest, roots[0], 0, *A), fork(forest, roots[1], 0, *B)
    got = column(credit_of(forest, "rubric", objective="rank_disc"), "reward")
    assert got == {good: pytest.approx(0.7963422852, abs=1e-9), bad: pytest.approx(0.1616025404, abs=1e-9)}
    order = column(credit_of(forest, "rubric", objective="rank_disc", order_weight=1.0), "reward")
    spread = column(credit_of(forest, "rubric", objective="rank_disc", order_weight=0.0), "reward")
    assert (order[good], order[bad]) == (1.0, pytest.approx(0.15))
    assert (spread[good], spread[bad]) == (pytest.approx(0.5926845704), pytest.approx(0.1732050808))


def test_brier_is_the_mean_square_of_scores_against_verdicts():
    forest = Forest()
    rubric = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, [0.9, 0.5, 0.2], [1, 1, 0])
    fork(forest, forest.root("a", 1, 1, purpose="rubric"), 0, [1.0, 0.0], [1, 1])
    got = column(credit_of(forest, "rubric", objective="brier"), "reward")
    assert got[rubric] == pytest.approx(-(0.01 + 0.25 + 0.04) / 3)
    assert len(got) == 2, "one outcome is enough for a proper score"


def test_the_first_k_branches_are_read():
    forest = Forest()
    rubric = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, *B)
    got = column(credit_of(forest, "rubric", k=2), "reward")
    assert got == {rubric: pytest.approx(-(0.2 - (0.5 - 0.6)))}
    assert column(credit_of(forest, "rubric", k=8), "reward") == {rubric: pytest.approx(-0.24)}


def second_rubric(forest: Forest, rubric_id: str, scores: list[float], k: int = 1) -> str:
    """Another rubric of the same delegation with its own scores of the same branches."""
    first = next(r for r in forest.rows["rubrics"] if r["rubric_id"] == rubric_id)
    turn = forest.turn(first["node_id"], kind="rubric", role="writer")
    name = rubric_id.replace("~0~0", f"~{k}~0")
    forest.rows["rubrics"].append({**first, "rubric_id": name, "turn_id": turn["turn_id"], "k": k})
    given = [s for s in forest.rows["scores"] if s["rubric_id"] == rubric_id]
    for row, score in zip(given, scores, strict=True):
        forest.rows["scores"].append({**row, "rubric_id": name, "final_score": score})
    return name


def test_rubrics_of_one_delegation_are_compared_with_each_other():
    forest = Forest()
    labels = [1, 0]
    first = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, [0.5, 0.5], labels)
    second = second_rubric(forest, first, [0.9, 0.1])
    third = second_rubric(forest, first, [0.6, 0.5], k=2)
    alone = fork(forest, forest.root("a", 1, 1, purpose="rubric"), 0, [0.5, 0.4], labels)
    rewards = {first: -0.2, second: 0.0, third: -0.1, alone: -0.1}
    reference = column(credit_of(forest, "rubric"))
    assert reference == {first: pytest.approx(-0.1), alone: pytest.approx(0.1)}
    got = column(credit_of(forest, "rubric", baseline="delegation"))
    assert got[first] == pytest.approx(rewards[first] - (0.0 - 0.1) / 2)
    assert got[second] == pytest.approx(0.0 - (-0.2 - 0.1) / 2)
    assert got[third] == pytest.approx(-0.1 - (-0.2 + 0.0) / 2)
    assert got[alone] == pytest.approx(-0.1 - (-0.3 / 3)), "a single one meets the mean of the other delegation"


def test_refreshed_rubrics_are_read_only_when_their_run_is_named():
    forest = Forest()
    first = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, [0.5, 0.5], [1, 0])
    new = second_rubric(forest, first, [0.9, 0.1])
    for table in ("rubrics", "scores"):
        for row in forest.rows[table]:
            if row["rubric_id"] == new:
                row.update(phase="refresh", run_id="again", shard_id="e000003.a001.u0000")
    assert list(column(credit_of(forest, "rubric", baseline="delegation"))) == [first]
    assert list(column(credit_of(forest, "rubric", baseline="delegation", refresh="again"))) == [new]


@pytest.mark.parametrize("objective, worst, partly", [
    ("rank", -1.2, -1.2 / 2), ("rank_disc", 0.0, 0.5 * 0.5 + 0.5 * 0.8), ("brier", -1.0, -(0.01 + 0.01 + 1) / 3),
])  # fmt: skip
def test_invalid_rubrics_and_scores_cost_where_the_penalty_is_on(objective, worst, partly):
    forest = Forest()
    labels = [1, 0, 0]
    broken = fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, [0.9, 0.1, 0.1], labels)
    half = fork(forest, forest.root("a", 1, 1, purpose="rubric"), 0, [0.9, 0.1, 0.1], labels)
    forest.rows["rubrics"][0]["valid"] = False
    forest.rows["scores"] = [s for s in forest.rows["scores"] if s["rubric_id"] != broken]
    forest.rows["scores"][-1].update(valid=False, final_score=None)
    kind = {"objective": objective}
    assert list(column(credit_of(forest, "rubric", **kind))) == [half]
    got = column(credit_of(forest, "rubric", invalid="penalty", **kind), "reward")
    assert got == {broken: pytest.approx(worst), half: pytest.approx(partly)}


def test_even_and_odd_epochs():
    forest = Forest(epoch=3)
    fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, *B)
    assert len(credit_of(forest, "rubric", epochs="odd").rows) == 1
    assert len(credit_of(forest, "rubric", epochs="even").rows) == 0
    assert len(credit_of(forest, "scorer", epochs="even").rows) == 0


def test_scores_are_paid_by_the_verdict_of_their_branch():
    forest = Forest()
    fork(forest, forest.root("a", 0, 1, purpose="rubric"), 0, [0.9, 0.5, 0.2], [1, 0, 0])
    for row in forest.rows["scores"]:
        row["turn_id"] = forest.turn(row["node_id"], kind="score", role="scorer")["turn_id"]
    forest.rows["scores"][2].update(valid=False, final_score=None)
    got = credit_of(forest, "scorer").rows
    assert got["reward"].to_list() == [pytest.approx(-0.01), pytest.approx(-0.25)]
    assert got["advantage"].to_list() == [pytest.approx(0.24), pytest.approx(-0.24)]
    assert got["turn_id"].to_list() == [row["turn_id"] for row in forest.rows["scores"][:2]]
    assert credit_of(forest, "scorer", invalid="penalty").rows["reward"].to_list()[2] == -1.0


def delegating() -> tuple[Forest, dict[str, str]]:
    """Event rewards [[.75, .25], [], [0], [1]] of trees whose roots got 1, 1, 0, 1."""
    forest = Forest()
    first = forest.root("a", 0, 1, purpose="delegation", n_turns=2)
    for index in range(3):
        forest.child(first, 0, launch_index=index, label=int(index > 0))
    forest.child(first, 1)
    forest.root("a", 1, 1, purpose="delegation")
    third = forest.root("a", 2, 0, purpose="delegation")
    forest.child(third, 0)
    fourth = forest.root("a", 3, 1, purpose="delegation")
    forest.child(fourth, 0)
    return forest, {"e1": f"{first}#0000", "e2": f"{first}#0001", "e3": f"{third}#0000", "e4": f"{fourth}#0000"}


@pytest.mark.parametrize("switches, wanted", [
    ({}, [0.4166667, -0.0833333, -0.5, 0.8333333]),
    ({"baseline": "flat"}, [0.3333333, -0.3333333, -0.6666667, 0.6666667]),
    ({"baseline": "credit_weighted"}, [0.75 * (1 - 2 / 3), 0.25 * (1 - 2 / 3), 0 - 1, 1 - 2 / 3]),
    ({"no_event": "root"}, [0.75 - 2 / 3, 0.25 - 2 / 3, 0 - 2.5 / 3, 1 - 1.5 / 3]),
    ({"no_event": "exclude"}, [0.75 - 1 / 2, 0.25 - 1 / 2, 0 - 1.5 / 2, 1 - 0.5 / 2]),
    ({"gate": "success"}, [0.5 - 1 / 3, 0.25 - 1 / 3, 0 - 1.375 / 3, 1 - 0.375 / 3]),
])  # fmt: skip
def test_golden_delegation_baselines_and_the_gate(switches, wanted):
    forest, names = delegating()
    got = column(credit_of(forest, "delegation", **switches), by="turn_id")
    assert [got[names[f"e{i}"]] for i in range(1, 5)] == pytest.approx(wanted, **NEAR)


def test_workload_is_the_share_of_the_least_steps():
    forest, names = delegating()
    steps = {0: 4, 1: 4, 2: 4, 3: 4}
    for row in forest.rows["labels"]:
        node = forest.node(row["node_id"])
        least = steps[node["sample"]] if node["parent_id"] is None else 2
        row["details"] = f'{{"least_steps":{least}}}'
    got = column(credit_of(forest, "delegation", weight="workload"), "reward", by="turn_id")
    assert [got[names[f"e{i}"]] for i in range(1, 5)] == [1.0, 0.5, 0.0, 0.5], "3 x 2 of 4 steps are cut at 1"
    more = column(credit_of(forest, "delegation", weight="workload", workload_cap=2), "reward", by="turn_id")
    assert more[names["e1"]] == 1.5
    forest.rows["labels"][0]["details"] = None
    assert names["e1"] not in column(credit_of(forest, "delegation", weight="workload"), by="turn_id")


def test_invalid_attempts_can_cost():
    forest, _ = delegating()
    root = forest.root("a", 4, 1, purpose="delegation", n_turns=0)
    turn = forest.turn(root, delegations=[{"status": "refused", "token_start": 0, "token_end": 2}], ok=False)
    got = column(credit_of(forest, "delegation", invalid_reward=-0.5), "reward", by="turn_id")
    assert got[turn["turn_id"]] == -0.5


def test_children_are_compared_with_their_depth():
    forest, names = flock({"A": [0.9, 0.7], "b": [0.5], "c": []})
    reference = column(credit_of(forest, "execution", reward="rubric"))
    assert reference[names["A0"]] == pytest.approx(0.9 - 0.0)
    got = column(credit_of(forest, "execution", reward="rubric", child_baseline="depth"))
    assert got[names["A0"]] == pytest.approx(0.9 - 0.5)
    assert got[names["A1"]] == pytest.approx(0.7 - 0.5)
    assert got[names["b0"]] == pytest.approx(0.5 - (0.9 + 0.7) / 2)
    assert got[names["A"]] == reference[names["A"]] == pytest.approx(1.0)


def test_the_depth_baseline_takes_a_shift_of_all_scores_away():
    forest, names = flock({"A": [0.5], "b": [0.3]})
    lifted, _ = flock({"A": [0.9], "b": [0.7]})
    for baseline, same in (("root", False), ("depth", True)):
        one, two = (
            column(credit_of(f, "execution", reward="rubric", child_baseline=baseline)) for f in (forest, lifted)
        )
        assert (one[names["A0"]] == pytest.approx(two[names["A0"]])) is same


def test_a_child_without_a_peer_gets_no_row():
    forest, names = flock({"A": [0.9], "b": []})
    got = column(credit_of(forest, "execution", reward="rubric", child_baseline="depth"))
    assert set(got) == {names["A"], names["b"]}


def branched() -> tuple[Forest, list[str], str]:
    forest = Forest()
    root = forest.root("a", 0, 1, n_turns=2)
    forest.root("a", 1, 0)
    scores = [0.9, 0.6, 0.0, 0.3]
    branches = [forest.child(root, 0, branch=i, k=4, label=int(s > 0.5), score=s) for i, s in enumerate(scores)]
    below = forest.child(branches[2], 0, score=1.0)
    plain = forest.child(root, 1, score=0.4)
    return forest, [root, *branches, below], plain


def test_a_committed_branch_can_be_compared_with_its_siblings():
    forest, (root, first, *_), plain = branched()
    got = column(credit_of(forest, "execution", reward="rubric", child_baseline="delegation"))
    assert got == {root: 1.0, f"{root[:-1]}1": -1.0, first: pytest.approx(0.9 - 0.3)}, f"{plain} has no sibling"


def test_all_branches_are_trained_and_count_once():
    forest, (root, first, second, third, fourth, below), plain = branched()
    credit = credit_of(forest, "execution", reward="rubric", branches="all")
    got = column(credit)
    assert below not in got, "what was launched below a branch off the path stays out"
    assert (got[root], got[plain]) == (1.0, pytest.approx(0.4))
    wanted = [(0.9 - 0.3) / 4, (0.6 - 0.4) / 4, (0.0 - 0.6) / 4, (0.3 - 0.5) / 4]
    assert [got[n] for n in (first, second, third, fourth)] == pytest.approx(wanted)
    two = column(credit_of(forest, "execution", reward="rubric", branches="all", k=2))
    assert [two[first], two[second]] == pytest.approx([0.3 / 2, -0.3 / 2])
    assert third not in two


def test_only_branches_are_the_labels_that_sera_buys():
    forest, (_, first, second, *_), _ = branched()
    for node in forest.rows["nodes"]:
        node["purpose"] = "rubric"
    credit = credit_of(forest, "execution", purpose="rubric", branches="only")
    assert set(credit.rows["stage"]) == {"rubric"}
    got = column(credit)
    assert len(got) == 4
    assert (got[first], got[second]) == (pytest.approx((1 - 1 / 3) / 4), pytest.approx((1 - 1 / 3) / 4))


def test_incomplete_forks_have_no_siblings():
    forest, (_, first, *_), _ = branched()
    for row in forest.rows["branches"]:
        row["complete"] = row["complete"] and row["k"] == 1
    got = column(credit_of(forest, "execution", reward="rubric", branches="all"))
    assert got[first] == pytest.approx(0.9), "the committed one is a plain child then"


def test_rewards_by_kind_of_label():
    forest = Forest()
    root = forest.root("a", 0, 1)
    forest.root("a", 1, 0)
    child = forest.child(root, 0, label=1, score=0.25)
    row = next(r for r in forest.rows["labels"] if r["node_id"] == child)
    for attempt in range(3):
        forest.rows["labels"].append(
            {**row, "kind": "judge", "source": "llm", "attempt": attempt, "value": float(attempt == 0)}
        )
    forest.rows["scores"][0]["weighted_score"] = 0.75
    wanted = {"verdict": 1.0, "program": 1.0, "judge": 0.0, "rubric": 0.25, "weighted": 0.75}
    for reward, value in wanted.items():
        assert column(credit_of(forest, "execution", reward=reward), "reward")[child] == value
    assert child not in column(credit_of(forest, "execution", reward="root"))


def test_grpo_divides_by_the_deviation_of_the_roots():
    forest = Forest()
    roots = [forest.root("a", i, r) for i, r in enumerate([1, 0, 0, 1])]
    same = [forest.root("b", i, 1) for i in range(2)]
    got = column(credit_of(forest, "execution", reward="root", normalise="deviation"))
    assert [got[r] for r in roots] == pytest.approx([1.0, -1.0, -1.0, 1.0])
    assert [got[r] for r in same] == [0.0, 0.0]
    forest.root("a", 4, 1)
    got = column(credit_of(forest, "execution", reward="root", normalise="deviation"))
    assert got[roots[0]] == pytest.approx(0.4 / math.sqrt(0.24))


def test_error_turns_follow_the_world():
    counts = {}
    for world in ("textcraft", "textworld", "my_world"):
        forest = Forest(world=world)
        for sample in range(2):
            root = forest.root("a", sample, sample)
            forest.turn(root, ok=False)
        counts[world] = [len(credit_of(forest, "execution", rules=r).rows) for r in ("reference", "recommended")]
    assert counts == {"textcraft": [3, 3], "textworld": [4, 3], "my_world": [3, 3]}


def test_unknown_words_are_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"objective='hinge'.*allowed are rank, rank_disc, brier"):
        one_stage("rubric", objective="hinge")
    with pytest.raises(ConfigError, match="margin='wide' of credit rule 'rubric': a number is wanted"):
        one_stage("rubric", margin="wide")
