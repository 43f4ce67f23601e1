"""`sera refresh`: new rubrics and scores for stored branches, apart from what the trees themselves were credited by."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

import sera_data as sd
from collect.addition import own_additions
from collect.job import Share
from collect.policies import open_policy, policy_hash
from collect.policy import PolicyError
from collect.refresh_config import RefreshConfig
from collect.refresh_job import run_refresh
from collect.shard import InfrastructureError
from sera_data.cli import main
from sera_data.config import checked
from sera_data.errors import ConfigError
from tests.collect import job_lab

TEACHER = "scripted:teacher"
SLIPS = ("policy.model=scripted:teacher", "policy.options={slips: {0.0: 0.5, 0.45: 0.5}, delegate: 1.0}")


def refresh(store, *, writer=TEACHER, scorer=TEACHER, wrap=lambda policy: policy, part=None, **values):
    """One run without its command: (config, summary)."""
    policies = {"writer": wrap(open_policy(writer or scorer)), "scorer": wrap(open_policy(scorer))}
    work = "scores" if writer is None else "rubrics"
    served = policy_hash(policies)
    config = RefreshConfig(work=work, writer=writer, scorer=scorer, served=served, **{"only": "complete", **values})
    return config, run_refresh(store, config, policies, part=part, quiet=True)


def rows(store, table, phase):
    return store.sql(f"from {table} where phase = '{phase}' order by all").pl().to_dicts()


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    path = tmp_path_factory.mktemp("refresh")
    store, job, _ = job_lab.play(path / "store", job_lab.small_config(*SLIPS, "groups={rubric: 2}"))
    sd.seal(store, job.plan.name)
    return store


@pytest.fixture
def store(played, tmp_path):
    return sd.open(shutil.copytree(played.path, tmp_path / "store"))


def test_rubrics_are_written_from_the_prompts_of_the_trees_and_score_every_branch(store):
    config, summary = refresh(store, k=3)
    sd.verify(store)
    own = {row["delegation_id"]: row for row in rows(store, "rubrics", "collect")}
    new = rows(store, "rubrics", "refresh")
    forked = [row for row in store.branches.pl().to_dicts() if row["k"] > 1]
    assert len({row["delegation_id"] for row in forked}) == summary.counts["delegations"] > 1
    assert {row["delegation_id"] for row in new} == {row["delegation_id"] for row in forked}
    assert all(row["prompt_sha256"] == own[row["delegation_id"]]["prompt_sha256"] for row in new)
    assert {row["run_id"] for row in new} == {config.run_id}
    assert {row["k"] for row in new} == {0, 1, 2}
    assert all(f"~{config.run_id}~" in row["rubric_id"] for row in new)
    assert all(row["order_stamp"] > own[row["delegation_id"]]["order_stamp"] for row in new)
    scored = {(row["rubric_id"], row["node_id"]) for row in rows(store, "scores", "refresh")}
    wanted = {(r["rubric_id"], b["node_id"]) for r in new for b in forked if b["delegation_id"] == r["delegation_id"]}
    assert scored == {pair for pair in wanted if next(r for r in new if r["rubric_id"] == pair[0])["valid"]}


def test_nothing_that_was_collected_changes_nor_what_reads_it(store):
    queries = ("from scored order by all", "from pairs order by all", "from factual order by node_id")
    before = [store.sql(query).pl() for query in queries]
    epoch = sd.content_hash(store, "e000000")
    refresh(store, k=2)
    assert all(store.sql(query).pl().equals(old) for query, old in zip(queries, before, strict=True))
    assert sd.content_hash(store, "e000000") == epoch


def test_a_scorer_is_asked_with_the_prompts_of_the_trees_and_only_once(store):
    _, summary = refresh(store, writer=None, scorer="scripted:random")
    sd.verify(store)
    own = {(row["rubric_id"], row["node_id"]): row for row in rows(store, "scores", "collect")}
    new = rows(store, "scores", "refresh")
    assert len(new) == summary.counts["scores"] > 0
    assert all(row["prompt_sha256"] == own[row["rubric_id"], row["node_id"]]["prompt_sha256"] for row in new)
    assert {row["scorer"] for row in new} == {"scripted:random"}
    _, again = refresh(store, writer=None, scorer="scripted:random", seed=1)
    assert again.plans == []
    _, same = refresh(store, writer=None, scorer=TEACHER)
    assert same.plans == []


def test_refreshed_rubrics_are_scored_by_another_scorer(store):
    config, _ = refresh(store, k=2)
    _, summary = refresh(store, writer=None, scorer="scripted:random", rubrics_of=config.run_id)
    sd.verify(store)
    of = {row["rubric_id"]: row["run_id"] for row in rows(store, "rubrics", "refresh")}
    new = [row for row in rows(store, "scores", "refresh") if row["scorer"] == "scripted:random"]
    assert len(new) == summary.counts["scores"] > 0
    assert {of[row["rubric_id"]] for row in new} == {config.run_id}


def test_only_delegations_with_both_outcomes_are_asked_about_unless_all_are(store):
    verdicts = dict(store.sql("select node_id, value from verdicts").fetchall())
    outcomes = {}
    for row in store.branches.pl().to_dicts():
        if row["k"] > 1:
            outcomes.setdefault(row["delegation_id"], set()).add(verdicts[row["node_id"]])
    _, summary = refresh(store, k=1, only="mixed")
    assert 0 < summary.counts["delegations"] == sum(len(found) == 2 for found in outcomes.values()) < len(outcomes)


class Stop(Exception):
    """The end of a process, as the job sees it."""


def breaking(after, fault):
    """A wrapper whose policy fails from its n-th request on."""
    count = iter(range(10**6))

    def before(policy):
        if next(count) >= after:
            raise fault

    return lambda inner: job_lab.Wrapped(inner, before)


def test_a_run_that_was_stopped_is_continued_and_ends_with_the_same_rows(store, tmp_path):
    other = sd.open(shutil.copytree(store.path, tmp_path / "other"))
    values = {"k": 2, "delegations_per_unit": 1, "concurrency": 1}
    with pytest.raises(Stop):
        refresh(store, wrap=breaking(15, Stop()), **values)
    done = len(store.shard_ids())
    config, summary = refresh(store, **values)
    (plan,) = own_additions(store, config, "all")
    assert 0 < summary.counts["delegations"] < len(plan.unit_ids)
    assert plan.sealed()
    assert done > 0
    refresh(other, **values)
    assert sd.content_hash(store, plan.name) == sd.content_hash(other, plan.name)


@pytest.mark.slow
def test_two_parts_of_one_plan_give_what_one_process_gives(store, tmp_path):
    other = sd.open(shutil.copytree(store.path, tmp_path / "other"))
    values = {"k": 2, "delegations_per_unit": 1}
    _, first = refresh(store, part=Share(0, 2), **values)
    _, second = refresh(store, part=Share(1, 2), **values)
    assert (first.sealed, second.sealed) == ([], ["e000000.a001"])
    refresh(other, **values)
    assert sd.content_hash(store, "e000000.a001") == sd.content_hash(other, "e000000.a001")


def test_a_policy_that_fails_leaves_nothing_and_its_plan_open(store):
    with pytest.raises(InfrastructureError, match="calls were lost"):
        refresh(store, wrap=breaking(0, PolicyError("no engine")), k=1)
    assert rows(store, "rubrics", "refresh") == []
    _, summary = refresh(store, k=1)
    assert summary.sealed == ["e000000.a001"]


@pytest.mark.slow
def test_a_killed_command_is_continued_by_the_same_command(store, capsys):
    command = ["refresh", "rubrics", str(store.path), "--policy", TEACHER, "--k", "3", "--only", "complete", "--json"]
    process = subprocess.Popen([sys.executable, "-m", "sera_data", *command], stderr=subprocess.DEVNULL)
    plan = store.path / "plans" / "e000000.a001.json"
    while not plan.exists() and process.poll() is None:
        os.sched_yield()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(command) == 0
    body = json.loads(capsys.readouterr().out)
    sd.verify(store)
    assert plan.exists()
    assert (store.path / "epochs" / "e000000.a001").is_dir()
    assert body["run_id"].startswith("rubrics-")
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["plans"] == []


def test_the_report_sets_fresh_rubrics_beside_refreshed_ones_by_age_and_holds_tasks_out(store, capsys):
    refresh(store, k=2, only="mixed")
    command = ["refresh", "report", str(store.path), "--json"]
    assert main(command) == 0
    body = json.loads(capsys.readouterr().out)
    assert {row["phase"] for row in body} == {"collect", "refresh"}
    fresh = next(row for row in body if row["phase"] == "collect")
    assert (fresh["age"], fresh["held_out"], fresh["pairs"]) == (
        0,
        False,
        len(store.sql("from pairs").fetchall()),
    )
    gaps = [row["gap"] for row in store.sql("from pairs").pl().to_dicts()]
    assert fresh["pair_accuracy"] == pytest.approx(sum((gap > 0) + (gap == 0) / 2 for gap in gaps) / len(gaps))
    assert main([*command, "--hold-out", "1"]) == 0
    assert {row["held_out"] for row in json.loads(capsys.readouterr().out)} == {True}


def by_task(store, phase):
    """{task: [1, 0.5 or 0 for each pair]}, worked out from the tables alone."""
    verdicts = dict(store.sql("select node_id, value from verdicts").fetchall())
    forked = {row["node_id"] for row in store.branches.pl().to_dicts() if row["k"] > 1}
    valid = {row["rubric_id"]: row["task_id"] for row in rows(store, "rubrics", phase) if row["valid"]}
    scores = {}
    for row in rows(store, "scores", phase):
        if row["valid"] and row["attempt"] == 0 and row["rubric_id"] in valid and row["node_id"] in forked:
            scores.setdefault(row["rubric_id"], []).append((verdicts[row["node_id"]], row["final_score"]))
    found = {}
    for rubric, given in scores.items():
        gaps = [won - lost for y, won in given for z, lost in given if y and not z]
        found.setdefault(valid[rubric], []).extend((gap > 1e-9) + (abs(gap) <= 1e-9) / 2 for gap in gaps)
    return {task: wins for task, wins in found.items() if wins}


def clustered(*parts):
    """(first mean minus the second, its standard error), over tasks that may be in both."""
    moves, means = {}, []
    for sign, tasks in zip((1, -1), parts, strict=False):
        n = sum(map(len, tasks.values()))
        mean = sum(map(sum, tasks.values())) / n
        means.append(sign * mean)
        for task, wins in tasks.items():
            moves[task] = moves.get(task, 0) + sign * sum(win - mean for win in wins) / n
    tasks = len(moves)
    return sum(means), (sum(move**2 for move in moves.values()) * tasks / (tasks - 1)) ** 0.5


def test_the_reports_intervals_hold_over_tasks_and_the_control_knows_the_tasks_of_both(store, capsys):
    refresh(store, k=2, only="mixed")
    assert main(["refresh", "report", str(store.path), "--json"]) == 0
    body = {row["phase"]: row for row in json.loads(capsys.readouterr().out)}
    pairs = {phase: by_task(store, phase) for phase in body}
    for phase, row in body.items():
        mean, error = clustered(pairs[phase])
        assert row["tasks"] == len(pairs[phase]) > 1
        assert row["pair_accuracy"] == pytest.approx(mean)
        assert (row["low"], row["high"]) == (
            pytest.approx(max(mean - 1.96 * error, 0)),
            pytest.approx(min(mean + 1.96 * error, 1)),
        )
    difference, error = clustered(pairs["refresh"], pairs["collect"])
    refreshed = body["refresh"]
    assert refreshed["versus_fresh"] == pytest.approx(difference)
    assert (refreshed["versus_low"], refreshed["versus_high"]) == (
        pytest.approx(difference - 1.96 * error),
        pytest.approx(difference + 1.96 * error),
    )
    assert body["collect"]["versus_fresh"] is None


def test_a_dry_run_counts_calls_and_writes_nothing(store, capsys):
    command = ["refresh", "rubrics", str(store.path), "--policy", TEACHER, "--k", "2", "--only", "complete"]
    assert main([*command, "--dry-run", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["rubric_calls"] == 2 * body["delegations"] > 0
    assert body["score_calls"] == 2 * body["branches"] == 2 * 3 * body["delegations"]
    assert not (store.path / "plans" / "e000000.a001.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rubrics", "--policy", "nobody"), "no policy 'nobody'"),
        (("rubrics", "--policy", TEACHER, "--epoch", "7"), "no sealed epoch 7"),
        (("rubrics", "--policy", TEACHER, "--k", "0"), "k: "),
        (("scores", "--scorer", TEACHER, "--of", "rubrics-none"), "no refreshed rubrics of run 'rubrics-none'"),
        (("scores", "--scorer", TEACHER, "--purpose", "play"), "purposes"),
    ],
)
def test_what_cannot_be_refreshed_is_refused_in_one_line(store, arguments, words, capsys):
    work, *rest = arguments
    assert main(["refresh", work, str(store.path), *rest]) in (1, 2)
    message = capsys.readouterr().err
    assert words in message
    assert "Traceback" not in message


def test_work_and_writer_go_together():
    with pytest.raises(ConfigError, match="needs a writer"):
        checked(RefreshConfig, {"work": "rubrics", "scorer": TEACHER, "served": ""})
    with pytest.raises(ConfigError, match="goes with work: scores"):
        checked(RefreshConfig, {"work": "rubrics", "writer": "a", "scorer": "a", "served": "", "rubrics_of": "r"})
