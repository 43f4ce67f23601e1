"""Log-probabilities computed again: by the weights that sampled, resumable, and what a learn phase makes of them."""

import json
import shutil

import numpy as np
import pytest

import sera_data as sd
from collect.addition import own_additions
from collect.job import Share
from collect.policy_directory import read_policy_directory
from learn import logprobs_job
from learn.config import LearnConfig
from learn.given_logprobs import given_logprobs
from learn.logprobs_config import LogprobsConfig
from learn.logprobs_job import recompute
from learn.phase import learn_phase, open_phase
from learn.ranks import join
from learn.refreshed import method_of
from learn.registered import query
from learn.rehearsal import rehearse
from learn.replaying import replay_run
from learn.sequence import build_datums
from sera_data.cli import main
from sera_data.config import load_config
from sera_data.errors import StoreError
from tests.learn import feed_lab
from tests.learn.puppet import Puppet, make_policy
from tests.learn.test_phase import PLAYED, collect_epoch

PHASE = ("schedule=execution:1", "updates_per_collect=1", "optimizer.lr=1e-3", "method=rao")
SMALL = LogprobsConfig(tokens_per_unit=12_000)


def skew(logprobs):
    """What an engine with numerics of its own would have said: up to 0.2 nats beside the trainer, never above 0."""
    values = np.asarray(logprobs)
    return np.minimum(values + 0.2 * np.sin(1000 * values), -1e-6).tolist()


@pytest.fixture(scope="module")
def skewed(collected, tmp_path_factory):
    """The collected epoch as another engine would have stored it, its policy where a loop puts it: (root, turns)."""
    root = tmp_path_factory.mktemp("skewed")
    source, store = sd.open(collected / "store"), sd.create(root / "store")
    (body,) = [source.seal_document(name) for name in source.sealed_names()]
    units = [{"unit_id": shard.rpartition(".")[2]} for shard in body["shards"]]
    same = {name: body[name] for name in ("run_id", "phase", "config_hash", "policy_hash")}
    plan = sd.claim_plan(store, units=units, **same)
    rows = {name: source.table(name).arrow().to_pylist() for name in body["tables"]}
    for unit in plan.unit_ids:
        with sd.ShardWriter(store, plan, unit) as writer:
            for name, found in rows.items():
                own = [row for row in found if row["shard_id"] == writer.shard_id]
                said = [{**r, "logprobs": skew(r["logprobs"])} for r in own] if name == "turns" else own
                writer.extend(name, said)
            writer.commit()
    sd.seal(store, plan.name)
    shutil.copytree(collected / "policy", root / "learn" / "policies" / "v000000")
    return root, {row["turn_id"]: row["logprobs"] for row in rows["turns"] if row["trainable"]}


@pytest.fixture
def root(skewed, tmp_path):
    shutil.copytree(skewed[0], tmp_path / "r")
    return tmp_path / "r"


@pytest.fixture(scope="module")
def done(skewed, tmp_path_factory):
    """The same with all log-probabilities computed again: (root, run id)."""
    path = tmp_path_factory.mktemp("done") / "r"
    shutil.copytree(skewed[0], path)
    return path, recompute(sd.open(path / "store"), SMALL, quiet=True)


def recomputed(store):
    rows = store.sql("select turn_id, logprobs from logprobs order by turn_id").fetchall()
    assert len(rows) == len(dict(rows))
    return dict(rows)


def learn(root, *overrides, out):
    config = load_config(LearnConfig, None, [*PHASE, *overrides])
    policy = root / "learn" / "policies" / "v000000"
    store = sd.open(root / "store")
    phase = open_phase(store, config=config, method=method_of(config), policy=policy, out=root / out, epoch=None)
    return learn_phase(phase, ranks=join())


def test_every_trainable_turn_gets_what_the_learner_computes_and_its_own_row_stays(done, skewed):
    (root, summary), (_, truth) = done, skewed
    store = sd.open(root / "store")
    assert sd.verify(store).problems == ()
    found = recomputed(store)
    assert found.keys() == truth.keys()
    assert summary.turns == len(truth)
    assert summary.tokens == sum(map(len, truth.values()))
    assert max(np.abs(np.subtract(found[name], truth[name])).max() for name in truth) < 1e-5
    engine = dict(store.sql("select turn_id, logprobs from turns where trainable").fetchall())
    assert all(engine[name] == pytest.approx(skew(truth[name]), abs=1e-5) for name in truth)
    (plan,) = summary.sealed
    assert len(store.seal_document(plan)["shards"]) > 2
    row = store.sql("from logprobs limit 1").pl().to_dicts()[0]
    parent = read_policy_directory(root / "learn" / "policies" / "v000000")
    wanted = ("puppet", 0, parent.weights_sha256, "trainer", "float32", "processed_logprobs")
    names = ("policy", "policy_version", "weights_sha256", "engine", "dtype", "logprobs_mode")
    assert tuple(row[name] for name in names) == wanted
    assert row["seconds"] > 0
    served = store.sql(f"select distinct unnest(policies) from runs where run_id = '{summary.run_id}'").fetchall()
    assert {p["role"] for (p,) in served} == {"act", "writer"}  # scores are greedy, so no ratio is taken of them
    assert {(p["engine"], p["weights_sha256"]) for (p,) in served} == {("trainer", parent.weights_sha256)}


def test_the_mismatch_query_is_what_numpy_makes_of_the_lists(done):
    store = sd.open(done[0] / "store")
    rows = mismatches(store)
    pairs = store.sql("select t.role, t.turn_id, l.logprobs, t.logprobs from logprobs l join turns t using (turn_id)")
    by_role = {}
    for role, turn, again, engine in pairs.fetchall():
        by_role.setdefault(role, []).append((turn, np.subtract(again, engine, dtype=np.float64)))
    assert [(row["epoch"], row["role"]) for row in rows] == [(0, role) for role in sorted(by_role)]
    for row in rows:
        own = by_role[row["role"]]
        gap = np.concatenate([part for _, part in own])
        assert (row["turns"], row["tokens"]) == (len(own), len(gap))
        assert row["mean_abs"] == pytest.approx(np.abs(gap).mean())
        assert row["max_abs"] == pytest.approx(np.abs(gap).max())
        assert row["mean"] == pytest.approx(gap.mean())
        assert row["over_bound"] == pytest.approx((np.abs(gap) > 0.02).mean())
        assert row["ratio_max"] == pytest.approx(np.exp(gap).max())
        assert row["kl"] == pytest.approx((np.exp(gap) - 1 - gap).mean())
        assert np.abs(dict(own)[row["worst_turn"]]).max() == np.abs(gap).max()
        assert 0.02 < row["mean_abs"] < row["max_abs"] <= 0.2 + 1e-5


class Killed(Exception):
    pass


@pytest.mark.slow
def test_killed_it_leaves_whole_units_and_the_same_command_ends_with_the_same_rows(root, done, monkeypatch):
    store, commits = sd.open(root / "store"), []
    commit = logprobs_job._Job._commit

    def dying(job, plan, unit, rows, started):
        if len(commits) == 2:
            raise Killed
        commits.append(unit)
        commit(job, plan, unit, rows, started)

    monkeypatch.setattr(logprobs_job._Job, "_commit", dying)
    with pytest.raises(Killed):
        recompute(store, SMALL, quiet=True)
    monkeypatch.undo()
    (plan,) = own_additions(store, SMALL, "open")
    assert plan.committed() == set(commits)
    with store.connect(view="sealed") as connection:
        assert not connection.sql("from logprobs").fetchall()
    parts = [recompute(store, SMALL, part=Share(i, 2), quiet=True) for i in (0, 1)]
    assert [part.plans for part in parts] == [[plan.name], [plan.name]]
    assert [part.sealed for part in parts] == [[], [plan.name]]
    assert recomputed(store) == recomputed(sd.open(done[0] / "store"))
    again = recompute(store, SMALL, quiet=True)
    assert (again.plans, again.turns) == ([], 0)


def test_a_where_file_says_which_turns_and_is_another_run(root, tmp_path, capsys):
    where = tmp_path / "my.sql"
    where.write_text("select turn_id from turns where kind = 'rubric';\n", encoding="utf-8")
    command = ["refresh", "logprobs", str(root / "store"), "--where", str(where), "--json"]
    assert main([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert not sd.open(root / "store").logprobs.files
    assert main([*command, "--policy", str(root / "learn")]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["run_id"], body["turns"]) == (planned["run_id"], planned["turns"])
    assert body["run_id"] != SMALL.run_id
    store = sd.open(root / "store")
    kinds = store.sql("select kind, count(*) from logprobs join turns using (turn_id) group by all").fetchall()
    assert kinds == [("rubric", body["turns"])]
    assert body["turns"] > 0
    assert main(["refresh", "mismatch", str(root / "store"), "--run", body["run_id"], "--json"]) == 0
    assert [row["role"] for row in json.loads(capsys.readouterr().out)] == ["writer"]
    assert main(["refresh", "mismatch", str(root / "store"), "--run", "other"]) == 2
    assert f"no recomputed log-probabilities of run 'other'; its runs: {body['run_id']}" in capsys.readouterr().err
    for text, fault in (
        ("select turn_id, node_id from turns", "--where returns turn_id, node_id; allowed is one column"),
        ("select nothing from turns", "--where does not run: Binder Error"),
        ("select turn_id from turns where role = $role", "has parameters"),
        ("delete from turns", "must hold exactly one SELECT"),
    ):
        where.write_text(text, encoding="utf-8")
        assert main(command) == 2
        assert fault in capsys.readouterr().err


def test_weights_that_are_not_at_hand_are_refused_by_name(root, tmp_path, capsys):
    shutil.move(root / "learn", tmp_path / "elsewhere")
    other = make_policy(tmp_path / "other", seed=1)
    sha = read_policy_directory(tmp_path / "elsewhere" / "policies" / "v000000").weights_sha256[:12]
    for places in (["behaviour"], [str(other.path)]):
        flags = [text for place in places for text in ("--policy", place)]
        assert main(["refresh", "logprobs", str(root / "store"), *flags]) == 1
        said = capsys.readouterr().err
        assert f"the weights of 'puppet' version 0 ({sha}), which sampled" in said
        assert f"are not at hand; looked at {places[0]}" in said
        assert "--policy" in said
    assert f"{other.path} (version 0, {other.weights_sha256[:12]})" in said
    assert main(["refresh", "logprobs", str(root / "store"), "--policy", str(tmp_path / "empty")]) == 2
    assert "neither a policy directory nor holds policies" in capsys.readouterr().err
    assert not sd.open(root / "store").logprobs.files


def test_with_them_the_first_ratios_are_one_and_without_them_they_are_the_engines(done, tmp_path):
    root, summary = done
    result = learn(root, f"logprobs={summary.run_id}", out="again")
    (own,) = result.rows
    assert own["n_datums"] > 0
    assert own["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert own["ratio_max"] == pytest.approx(1, abs=1e-5)
    assert own["mismatch"] < 1e-5
    (engine,) = learn(root, out="engine").rows
    assert engine["datum_ids"] == own["datum_ids"]
    assert engine["mismatch"] > 0.02
    assert engine["ratio_max"] > 1.05
    store = sd.open(root / "store")  # a replay takes them again, to the bit
    snapshot = sd.read_snapshot(store, next(p.stem for p in store.layout.snapshots.glob(f"{result.run_id}*")))
    assert snapshot.hashes["logprobs"] == summary.run_id
    policy = root / "learn" / "policies" / "v000000"
    (repeated,) = replay_run(store, result.run_id, policy=policy, out=tmp_path, ranks=join())
    assert (repeated.differences, repeated.updates) == ((), 1)


@pytest.mark.slow
def test_each_epoch_is_computed_by_the_version_that_sampled_it(root):
    first = learn(root, out="learn")
    collect_epoch(root / "store", Puppet(read_policy_directory(first.policy)), *PLAYED)
    store = sd.open(root / "store")
    summary = recompute(store, LogprobsConfig(), quiet=True)
    assert summary.sealed == ["e000000.a002", "e000001.a001"]
    found = store.sql("select distinct epoch, policy_version, weights_sha256 from logprobs order by all").fetchall()
    weights = [read_policy_directory(root / "learn/policies" / f"v00000{v}").weights_sha256 for v in (0, 1)]
    assert found == [(0, 0, weights[0]), (1, 1, weights[1])]
    gaps = {(row["epoch"], row["role"]): row for row in mismatches(store)}
    assert all(row["max_abs"] < 1e-5 if epoch else row["mean_abs"] > 0.02 for (epoch, _), row in gaps.items())
    assert {epoch for epoch, _ in gaps} == {0, 1}


def mismatches(store):
    return store.sql(query("logprob_mismatch"), {"run_id": None}).pl().to_dicts()


def feed(root, *overrides):
    return feed_lab.feed(root / "store", root / "learn" / "policies" / "v000000", *PHASE, *overrides)


def test_read_in_bulk_and_one_by_one_they_are_the_same_datums(done):
    root, summary = done
    meals = feed(root, f"logprobs={summary.run_id}")
    rows = meals.credit.training_rows("execution", meals.order["execution"])
    given = given_logprobs(meals.connection, summary.run_id, rows["turn_id"])
    ways = [list(build_datums(meals.connection, rows, read=how, logprobs=given)) for how in ("auto", "one_by_one")]
    engine = list(build_datums(meals.connection, rows))
    assert [d.datum_id for d in ways[0]] == [d.datum_id for d in ways[1]] == [d.datum_id for d in engine]
    for fast, slow, stored in zip(*ways, engine, strict=True):
        assert np.array_equal(fast.logprobs, slow.logprobs)
        assert np.array_equal(fast.token_ids, stored.token_ids)
        assert np.array_equal(fast.advantages, stored.advantages)
        assert not np.array_equal(fast.logprobs, stored.logprobs)
    assert type(ways[0][0]) is not type(ways[1][0])  # the first way was the bulk one
    some = given.slice(1)
    mixed = list(build_datums(meals.connection, rows, logprobs=some))
    assert sum(not np.array_equal(a.logprobs, b.logprobs) for a, b in zip(mixed, ways[0], strict=True)) == 1


def test_a_run_that_lacks_turns_or_is_not_there_is_refused_by_name(root):
    some = SMALL.model_copy(update={"where": "select turn_id from turns where kind = 'act' and step = 0"})
    store, policy = sd.open(root / "store"), root / "learn" / "policies" / "v000000"
    run = recompute(store, some, quiet=True).run_id
    with pytest.raises(
        StoreError, match=rf"{run} has no log-probabilities for \d+ turns of stage execution, the first"
    ):
        feed(root, f"logprobs={run}")
    with pytest.raises(StoreError, match=rf"no recomputed log-probabilities 'logprobs-none' of epoch 0; .*: {run}"):
        learn(root, "logprobs=logprobs-none", out="none")
    config = load_config(LearnConfig, None, [*PHASE, "logprobs=logprobs-none"])
    with pytest.raises(StoreError, match="no recomputed log-probabilities"):
        rehearse(root / "store", config, method_of(config), policy, None)
    assert not (root / "none").exists()


def test_an_unfinished_run_is_refused(root):
    store = sd.open(root / "store")
    claimed = logprobs_job._Job(store, SMALL, ("behaviour",), Share(), quiet=True)
    claimed._finish = lambda plan, selection: None
    claimed.look()
    with pytest.raises(StoreError, match=rf"{SMALL.run_id} of epoch 0 is not finished: plan e000000.a001"):
        learn(root, f"logprobs={SMALL.run_id}", out="none")


def test_the_command_line_names_the_run(done, capsys):
    root, summary = done
    policy = str(root / "learn" / "policies" / "v000000")
    command = ["learn", "--store", str(root / "store"), "--from", policy, "--out", str(root / "shown")]
    command += ["--method", "rao", "--stage", "execution", "--logprobs", summary.run_id, "--dry-run", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["config"]["logprobs"] == summary.run_id


def test_what_changes_nothing_that_is_asked_for_keeps_the_run():
    assert LogprobsConfig(tokens_per_unit=7, device="cuda", threads=2).run_id == LogprobsConfig().run_id
    for other in ({"dtype": "bfloat16"}, {"epochs": (0,)}, {"where": "select 1"}):
        assert LogprobsConfig(**other).run_id != LogprobsConfig().run_id
