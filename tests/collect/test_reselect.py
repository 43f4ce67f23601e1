"""Best of N as a command in both worlds and dialects, and the same choices made again from the store."""

import json

import pytest

import sera_data as sd
from collect.eval_request import Asked, requests
from collect.evaluation import find_evaluation, report, run_evaluation
from collect.rescoring import RescoreConfig, rescore
from sera_data.cli import main
from sera_data.errors import UsageError
from tests.collect.job_lab import POOL
from tests.collect.judge_lab import endpoint, say

TEXTCRAFT = ("world.profile=strict", POOL)
SOURCE = "{generator: textworld, split: train, difficulties: [easy], per_cell: 1}"
KITCHEN = (f"world={{name: textworld, profile: sync-v9, tasks: {SOURCE}}}",)
SLIPS = "policy.options={slips: {0.0: 0.5, 0.45: 0.5}, delegate: 1.0}"


def evaluate(path, *overrides, limit=4, **asked):
    store = sd.create(path)
    (request,) = requests(
        Asked(
            policy="scripted:teacher", samples=1, limit=limit, temperature=0.0, overrides=(SLIPS, *overrides), **asked
        )
    )
    run, complete = run_evaluation(store, request, quiet=True)
    assert complete
    sd.verify(store)
    return store, run


def committed(store):
    return {row["delegation_id"]: row["branch"] for row in store.branches.pl().to_dicts() if row["committed"]}


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    return evaluate(tmp_path_factory.mktemp("best"), *TEXTCRAFT, select="rubric", n=2)


def reselected(store, capsys, *options):
    assert main(["eval", "reselect", str(store.path), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_evaluation_says_how_it_chose(chosen):
    store, run = chosen
    rows = find_evaluation(store, run)
    assert {(row["selection"], row["candidates"]) for row in rows} == {("rubric", 2)}
    assert report(rows)["selection"] == "rubric"
    branches = store.branches.pl().to_dicts()
    assert {(b["k"], b["selection"], b["selected_by"]) for b in branches} == {(2, "best_of", "rubric")}
    assert {b["branch"] for b in branches if b["committed"]} == {0, 1}
    heats = {(t["kind"], t["node_id"].count("/") > 0, t["temperature"]) for t in store.turns.pl().to_dicts()}
    assert ("act", False, 0.0) in heats
    assert ("act", True, 1.0) in heats
    assert {heat for kind, _, heat in heats if kind != "act"} == {0.0}


def test_the_stored_choice_is_made_again(chosen, capsys):
    store, _ = chosen
    body = reselected(store, capsys)
    assert (body["agreement"], body["trees_unchanged"]) == (1.0, body["trees"])
    assert {each["delegation_id"]: each["chosen"] for each in body["choices"]} == committed(store)
    assert body["root_success_unchanged"] == report(find_evaluation(store, chosen[1]))["success"]


def test_other_rules_choose_otherwise_and_say_what_is_known(chosen, capsys):
    store, _ = chosen
    first = reselected(store, capsys, "--select", "first")
    assert {each["chosen"] for each in first["choices"]} == {0}
    assert first["agree"] == sum(branch == 0 for branch in committed(store).values())
    assert first["trees_unchanged"] < first["trees"]
    best = reselected(store, capsys)
    assert best["mean_candidate_success"] < best["chosen_success"] <= best["best_candidate_success"]
    judged = reselected(store, capsys, "--select", "judge")
    assert judged["fallbacks"] == judged["delegations"]


def test_a_scorer_scores_the_stored_candidates_again_with_the_same_prompts(chosen, capsys):
    store, _ = chosen
    before = {row["node_id"]: row for row in store.scores.pl().to_dicts()}
    body = reselected(store, capsys, "--scorer", "scripted:random")
    assert body["additions"] == ["e000000.a001"]
    sd.verify(store)
    added = [row for row in store.scores.pl().to_dicts() if row["phase"] == "refresh"]
    assert {row["node_id"] for row in added} == set(before)
    assert {row["scorer"] for row in added} == {"scripted:random"}
    assert all(row["prompt_sha256"] == before[row["node_id"]]["prompt_sha256"] for row in added)
    assert body["agreement"] < 1.0
    again = reselected(store, capsys, "--scorer", "scripted:random")
    assert again["additions"] == []
    assert again["choices"] == body["choices"]
    same = RescoreConfig(scorer="scripted:teacher")
    assert rescore(store, same) == ({n: r["final_score"] for n, r in before.items() if r["valid"]}, [])


def test_a_random_choice_of_a_tree_is_that_of_the_store(tmp_path, capsys):
    store, run = evaluate(tmp_path, *TEXTCRAFT, select="random", n=3, limit=3)
    assert {row["selection"] for row in find_evaluation(store, run)} == {"random"}
    assert store.scores.pl().is_empty()
    body = reselected(store, capsys, "--select", "random", "--run", run)
    assert body["agreement"] == 1.0
    assert len({each["chosen"] for each in body["choices"]}) > 1


@pytest.mark.parametrize("world", [TEXTCRAFT, KITCHEN], ids=["textcraft", "kitchens"])
def test_a_served_judge_chooses_and_its_verdicts_choose_again_without_it(world, tmp_path, capsys):
    with endpoint(say(False), say(True)) as server:
        judge = f"judge={{spec: 'openai:m-1@{server.url}', retries: 0}}"
        store, _ = evaluate(tmp_path, *world, judge, select="judge", n=2, limit=2)
    branches = store.branches.pl().to_dicts()
    votes = [row for row in store.labels.pl().to_dicts() if row["kind"] == "judge"]
    assert {b["selected_by"] for b in branches} == {"judge"}
    assert {row["node_id"] for row in votes} == {b["node_id"] for b in branches}
    assert len(server.requests) == len(votes) == len(branches)
    assert [row["value"] for row in votes].count(0.0) == 1
    assert sum(b["selection_reason"] == "first judged successful" for b in branches if b["committed"]) > 1
    body = reselected(store, capsys, "--select", "judge")
    assert (body["agreement"], body["fallbacks"]) == (1.0, 0)
    assert {each["delegation_id"]: each["chosen"] for each in body["choices"]} == committed(store)


def test_kitchens_are_chosen_and_scored_again_too(tmp_path, capsys):
    store, _ = evaluate(tmp_path, *KITCHEN, select="rubric", n=2, limit=3)
    assert {row["dialect"] for row in store.evals.pl().to_dicts()} == {"blocks"}
    assert {b["scheduling"] for b in store.branches.pl().to_dicts()} == {"sequential"}
    before = {row["node_id"]: row["prompt_sha256"] for row in store.scores.pl().to_dicts()}
    assert reselected(store, capsys)["agreement"] == 1.0
    reselected(store, capsys, "--scorer", "scripted:random")
    added = [row for row in store.scores.pl().to_dicts() if row["phase"] == "refresh"]
    assert {row["node_id"]: row["prompt_sha256"] for row in added} == before


def test_cells_of_code_launch_candidates_too(tmp_path, capsys):
    store, _ = evaluate(tmp_path, *TEXTCRAFT, dialect="code", select="rubric", n=2, limit=2)
    branches = store.branches.pl().to_dicts()
    assert {(b["k"], b["selected_by"]) for b in branches} == {(2, "rubric")}
    assert reselected(store, capsys)["agreement"] == 1.0


def test_two_numbers_of_candidates_are_two_evaluations(tmp_path):
    names = {evaluate(tmp_path, *TEXTCRAFT, select="first", n=n, limit=1)[1] for n in (1, 2)}
    assert len(names) == 2
    store = sd.open(tmp_path)
    assert {(r["candidates"], r["selection"]) for r in store.evals.pl().to_dicts()} == {(1, "first"), (2, "first")}
    assert store.evals.pl()["protocol_sha256"].n_unique() == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(n=2), "there is none"),
        (Asked(select="best"), "is no selector; allowed: first, random, rubric, judge"),
        (Asked(select="judge"), "needs a judge"),
        (Asked(select="first", n=40), "has no room for the 40 candidates"),
    ],
)
def test_senseless_selections_are_refused(asked, words):
    with pytest.raises(UsageError, match=words):
        requests(asked)
