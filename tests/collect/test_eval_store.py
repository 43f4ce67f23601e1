"""Evaluations in a store: one unit a task, identity, resume after kill -9, damaged and foreign rows, lost trees."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect import eval_plan, evaluation
from collect.eval_request import Asked, requests
from collect.evaluation import find_evaluation, report, run_evaluation
from collect.job import Share
from collect.known_policy import task_number
from collect.policies import open_policy
from collect.policy import PolicyError
from collect.shard import InfrastructureError
from sera_data.cli import main
from sera_data.errors import StoreError, UsageError
from tests.collect.job_lab import Wrapped

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "tests/data/textcraft_synth/val.jsonl"
EVALUATOR = str(Path(__file__).with_name("evaluator.py"))
EASY = ("tasks.difficulties=[easy]",)


def asked(policy, *overrides, **more):
    body = {"protocol": "textcraft-632", "tasks": PUBLISHED, "limit": 12, "seeds": (0,), **more}
    return requests(Asked(policy=policy, overrides=(*EASY, *overrides), **body))


def run(store, request, **more):
    return run_evaluation(store, request, quiet=True, **more)


def rows_of(store):
    return store.sql("select * from evals order by task_id, sample").pl().to_dicts()


def test_a_known_success_rate_comes_back_exactly(tmp_path):
    (request,) = asked("known:3", limit=30)
    store = sd.create(tmp_path / "s")
    name, complete = run(store, request)
    body = report(find_evaluation(store, name))
    lost = sum(task_number(task) % 3 == 0 for task in request.drawn())
    assert complete
    assert (body["trees"], body["errors"]) == (30, 0)
    assert body["successes"] == 30 - lost
    assert body["success"] == body["benchmark_success"] == (30 - lost) / 30
    assert lost == sum(int(task.upstream_id.rpartition(".")[2]) % 3 == 0 for task in request.drawn()) > 5
    for row in rows_of(store):
        task = next(task for task in request.tasks if task.task_id == row["task_id"])
        assert row["success"] == (task_number(task) % 3 != 0)
        assert (row["dialect"], row["selection"], row["seed"], row["tries"]) == ("json", "none", 0, 1)
        assert row["true_depth"] in (1, 2, 3)
    sd.verify(store)


def test_shards_of_any_number_join_one_evaluation(tmp_path):
    (request,) = asked("scripted:oracle")
    store, alone = sd.create(tmp_path / "s"), sd.create(tmp_path / "alone")
    done = [run(store, request, part=Share(index, 3)) for index in (2, 0)]
    assert [complete for _, complete in done] == [False, False]
    assert len(rows_of(store)) == 8
    assert run(store, request, part=Share(0, 1)) == (done[0][0], True)
    run(alone, request)
    assert sd.content_hash(store, "e000000") == sd.content_hash(alone, "e000000")
    plan = json.loads((store.layout.plans / "e000000.json").read_text())
    assert {unit["task_id"] for unit in plan["units"]} == {task.task_id for task in request.drawn()}
    assert plan["about"]["evaluation"]["protocol"] == "textcraft-632"


def test_the_tasks_of_a_limit_do_not_depend_on_the_seed():
    first, second = asked("scripted:oracle", seeds=(1, 2))
    assert first.drawn() == second.drawn()
    assert (first.phase.seed, second.phase.seed) == (1, 2)


def test_an_unfinished_evaluation_of_other_code_or_settings_is_refused_with_its_path(tmp_path, monkeypatch):
    (request,) = asked("scripted:oracle")
    store = sd.create(tmp_path / "s")
    monkeypatch.setattr(eval_plan, "code_version", lambda: "one")
    run(store, request, part=Share(0, 2))
    path = store.layout.plans / "e000000.json"
    monkeypatch.setattr(eval_plan, "code_version", lambda: "two")
    with pytest.raises(StoreError, match=rf"{path} is an unfinished evaluation .*code_version one there, two now"):
        run(store, request)
    monkeypatch.setattr(eval_plan, "code_version", lambda: "one")
    (other,) = asked("scripted:oracle", "steps=19")
    with pytest.raises(StoreError, match=rf"{path} .*protocol_sha256"):
        run(store, other)
    assert len(list(store.layout.plans.iterdir())) == 1
    name, complete = run(store, request)
    assert complete
    monkeypatch.setattr(eval_plan, "code_version", lambda: "two")
    again, _ = run(store, request)  # a finished one of other code stays, and is no obstacle
    assert again != name


def test_an_evaluation_that_was_closed_early_is_not_begun_again(tmp_path):
    (request,) = asked("scripted:oracle", limit=4)
    store = sd.create(tmp_path / "s")
    run(store, request, part=Share(0, 2))
    sd.seal(store, "e000000", partial=True)
    with pytest.raises(StoreError, match=r"plans/e000000.json: this evaluation was sealed without all its tasks"):
        run(store, request)


def test_what_changes_nothing_names_nothing(tmp_path):
    (first,) = asked("scripted:oracle")
    (second,) = asked("scripted:oracle", "collect.concurrency=3", "tree_retries=5", "collect.budgets.retries=0")
    store = sd.create(tmp_path / "s")
    assert run(store, first) == run(store, second)
    assert store.sealed_names() == ["e000000"]


@pytest.mark.parametrize("when", ["resumed", "sealed"])
def test_damaged_rows_are_refused_with_the_path(tmp_path, when):
    (request,) = asked("scripted:oracle")
    store = sd.create(tmp_path / "s")
    run(store, request, part=Share(0, 2) if when == "resumed" else None)
    pattern = "shards/*/evals.parquet" if when == "resumed" else "epochs/*/evals.parquet"
    path = sorted(store.path.glob(pattern))[0]
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)
    with pytest.raises(StoreError, match=rf"{path} is damaged"):
        run(store, request)
    assert main(["eval", "report", str(store.path)]) == 1


def test_rows_of_another_evaluation_are_refused_with_the_path(tmp_path, capsys):
    (request,) = asked("scripted:oracle")
    (other,) = asked("scripted:oracle", seeds=(5,))
    store, foreign = sd.create(tmp_path / "s"), sd.create(tmp_path / "foreign")
    run(store, request, part=Share(0, 2))
    run(foreign, other, part=Share(1, 2))
    taken = {path.name for path in store.layout.shards.iterdir()}
    moved = next(path for path in sorted(foreign.layout.shards.iterdir()) if path.name not in taken)
    shutil.copytree(moved, store.layout.shards / moved.name)
    with pytest.raises(StoreError, match=rf"{moved.name}/commit.json is foreign: its run_id"):
        run(sd.open(store.path), request)
    assert main(["eval", "report", str(store.path)]) == 1
    assert f"{moved.name}/commit.json is foreign" in capsys.readouterr().err


def test_a_unit_with_the_task_of_another_is_refused_with_the_path(tmp_path):
    (request,) = asked("scripted:oracle")
    store = sd.create(tmp_path / "s")
    run(store, request, part=Share(0, 2))
    path = store.layout.plans / "e000000.json"
    plan = json.loads(path.read_text())
    first, second = plan["units"][0], plan["units"][1]
    first["task_id"], second["task_id"] = second["task_id"], first["task_id"]
    path.write_text(json.dumps(plan))
    with pytest.raises(
        StoreError, match=r"shards/e000000.u000[01]/evals.parquet does not belong to .*the plan gives it"
    ):
        run(sd.open(store.path), request)


def stormy(monkeypatch, fails):
    """Every policy opened fails a request when `fails(policy, request)` says so."""

    class Stormy(Wrapped):
        async def complete(self, request):
            self.requests += 1
            if fails(self, request):
                msg = "engine down"
                raise PolicyError(msg)
            return await self.inner.complete(request)

    def opened(config, *, roles):
        return {"act": Stormy(open_policy(config.model), None)}

    monkeypatch.setattr(evaluation, "open_policies", opened)


def test_lost_trees_are_replayed_and_then_reported_apart(tmp_path, monkeypatch):
    requests_of = asked("scripted:oracle", "collect.budgets.retries=0", "collect.budgets.retry_wait_s=0")
    victims = sorted(task.task_id for task in requests_of[0].drawn())
    struck = set()

    def fails(policy, request):
        task = request.facts["task"].task_id
        if task == victims[0]:
            return True  # always
        first = task == victims[1] and task not in struck
        struck.add(task)
        return first  # once: the replay succeeds

    stormy(monkeypatch, fails)
    store = sd.create(tmp_path / "s")
    name, complete = run(store, requests_of[0])
    assert complete
    body = report(find_evaluation(store, name))
    assert (body["trees"], body["errors"], body["infra_errors"], body["retried"]) == (11, 1, 1, 2)
    assert body["success"] == 1.0
    assert body["benchmark_success"] == 11 / 12
    assert body["benchmark_wilson"][0] < body["wilson"][0]
    rows = {row["task_id"]: row for row in rows_of(store)}
    assert (rows[victims[0]]["success"], rows[victims[0]]["tries"]) == (None, 2)
    assert "engine down" in rows[victims[0]]["error"]
    assert (rows[victims[1]]["success"], rows[victims[1]]["tries"]) == (True, 2)


def test_a_dead_engine_commits_nothing_and_the_same_command_continues(tmp_path, monkeypatch):
    quick = ("collect.budgets.retries=0", "collect.budgets.retry_wait_s=0", "tree_retries=0", "collect.concurrency=1")
    (request,) = asked("scripted:oracle", *quick)
    stormy(monkeypatch, lambda policy, request: policy.requests > 20)
    store = sd.create(tmp_path / "s")
    with pytest.raises(InfrastructureError, match=r"7 of 12 trees ended in infrastructure errors.*engine down"):
        run(store, request)
    kept = {row["task_id"] for row in rows_of(sd.open(store.path))}
    assert 0 < len(kept) < 12
    assert all(row["success"] for row in rows_of(store))
    monkeypatch.undo()
    name, complete = run(store, request)
    assert complete
    assert report(find_evaluation(store, name))["successes"] == 12


def test_k_samples_give_success_at_k_and_a_dialect_that_is_not_allowed_is_refused(tmp_path):
    (request,) = asked("scripted:careless", "temperature=1", "samples=4", limit=6)
    store = sd.create(tmp_path / "s")
    name, _ = run(store, request)
    body = report(find_evaluation(store, name))
    assert (body["tasks"], body["trees"]) == (6, 24)
    assert list(body["success_at"]) == ["1", "2", "4"]
    assert body["success_at"]["1"] == pytest.approx(body["success"])
    assert body["success_at"]["1"] <= body["success_at"]["2"] <= body["success_at"]["4"]
    with pytest.raises(UsageError, match="protocol textcraft-632 is played in json, code, got --dialect blocks"):
        asked("scripted:oracle", dialect="blocks")


def evaluate(store, *, last=0):
    """One evaluation process; with `last` it kills itself (-9) when it has committed so many units."""
    command = [
        sys.executable, EVALUATOR, "v1", str(last), "--protocol", "textcraft-632", "--tasks", str(PUBLISHED),
        "--policy", "scripted:careless", "--seed", "0", "--limit", "24", "--set", "tasks.difficulties=[easy]",
        "--set", "collect.concurrency=2", "--store", str(store), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_kill_9_in_the_middle_gives_the_same_report(tmp_path):
    kept = [0]
    for last in (3, 7):  # units of one process: the second one plays on where the first was killed
        code, _, err = evaluate(tmp_path / "s", last=last)
        assert code == -9, err
        kept.append(len(list((tmp_path / "s" / "shards").iterdir())))
        assert kept[-2] + last <= kept[-1] < 24
    code, resumed, err = evaluate(tmp_path / "s")
    assert code == 0, err
    code, undisturbed, err = evaluate(tmp_path / "alone")
    assert code == 0, err
    assert json.loads(resumed) == json.loads(undisturbed)
    assert 0 < json.loads(resumed)["successes"] < 24
    hashes = [sd.content_hash(sd.open(tmp_path / name), "e000000") for name in ("s", "alone")]
    assert hashes[0] == hashes[1]
