"""`logprobs`: an overlay of the store that few epochs have, whose rows align with their turns."""

import json
import shutil

import pytest

import sera_data as sd
from schemas import TABLES
from sera_data.cli import main
from sera_data.errors import RowError, StoreError
from sera_data.plan import claim_addition
from tests.sera_data.small_store import CONFIG_HASH, POLICY, run_row, small_store, task_id, unit_rows, write_unit
from tests.sera_data.small_store import RUN as COLLECTED

RUN = "logprobs-00000001"
ROLES = ("act", "writer", "scorer")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    return small_store(tmp_path_factory.mktemp("logprobs") / "s", tasks=1, samples=1, k=2)


@pytest.fixture
def store(sealed, tmp_path):
    return sd.open(shutil.copytree(sealed.path, tmp_path / "s"))


def turns(store):
    return store.sql("from turns order by turn_id").pl().to_dicts()


def row(turn, **changes):
    same = {name: turn[name] for name in ("turn_id", "tree_id", "task_id", "policy", "policy_version", "temperature")}
    values = {"weights_sha256": "a" * 64, "engine": "trainer", "dtype": "float32", "logprobs": [-0.25] * 4}
    return {**same, **values, "logprobs_mode": "processed_logprobs", "n_tokens": 4, "seconds": 0.5, **changes}


def written(store, rows, *, run=RUN, weights=None):
    plan = claim_addition(store, 0, run_id=run, phase="refresh", config_hash=CONFIG_HASH, units=[{"unit_id": "u0000"}])
    write_unit(store, plan, "u0000", {"runs": [run_row(phase="refresh")], "logprobs": rows})
    return plan


def test_only_epochs_with_rows_have_the_table_and_older_seals_keep_their_hash(store):
    before = store.seal_document("e000000")
    assert "logprobs" not in before["tables"]
    assert not list((store.path / "epochs" / "e000000").glob("logprobs*"))
    assert sd.content_hash(store, "e000000") == before["content_hash"]
    plan = written(store, [row(turn) for turn in turns(store)])
    sealed = sd.seal(store, plan.name)
    assert sealed.rows["logprobs"] == len(store.turns)
    assert sd.content_hash(store, plan.name) == sealed.content_hash
    assert sd.verify(store).problems == ()
    assert sorted(p.name for p in (store.path / "epochs" / plan.name).glob("logprobs*")) == ["logprobs.parquet"]
    first = store.logprobs.pl().to_dicts()[0]
    assert (first["run_id"], first["epoch"], first["logprobs"], first["n_tokens"]) == (RUN, 0, [-0.25] * 4, 4)
    assert store.logprobs.pl().equals(store.sql("from logprobs").pl())
    sd.collect_garbage(store, sealed_hours=0)
    sd.take_snapshot(store, "later", directories=["e000000", plan.name])
    with store.connect(snapshot="later") as connection:
        ((n,),) = connection.sql("select count(*) from logprobs join turns using (turn_id)").fetchall()
    assert n == len(store.turns)


def test_seconds_and_times_are_no_content(store, tmp_path):
    hashes = set()
    for seconds in (1.0, 2.0):
        other = sd.open(shutil.copytree(store.path, tmp_path / f"s{seconds}"))
        plan = written(other, [row(turn, seconds=seconds) for turn in turns(other)[:2]])
        hashes.add(sd.seal(other, plan.name).content_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"logprobs": [-0.1] * 3, "n_tokens": 3}, "it has 3 log-probabilities for 4 completion ids"),
        ({"turn_id": "nobody#0000"}, "turn_id nobody#0000 is not in turns"),
        ({"policy_version": 3}, "computed by version 3, the turn was sampled by version 0"),
        ({"temperature": 0.5}, "computed at temperature 0.5, the turn was sampled at 1"),
        ({"logprobs_mode": "raw_logprobs"}, "logprobs_mode must be processed_logprobs"),
    ],
)
def test_a_row_that_does_not_fit_its_turn_is_not_sealed(store, changes, fault):
    plan = written(store, [row(turns(store)[0], **changes)])
    with pytest.raises(StoreError, match=rf"logprobs: .*{fault}"):
        sd.seal(store, plan.name)


def test_turns_that_are_not_trainable_have_none(tmp_path):
    store = small_store(tmp_path / "text", tasks=1, samples=1, k=2, tokens=False)
    plan = written(store, [row(turns(store)[0])])
    with pytest.raises(StoreError, match="the turn is not trainable"):
        sd.seal(store, plan.name)


def test_other_weights_than_those_that_sampled_are_not_sealed(tmp_path):
    store = sd.create(tmp_path / "s")
    plan = sd.claim_plan(
        store, run_id=COLLECTED, phase="collect", config_hash=CONFIG_HASH, units=[{"unit_id": "u0000"}]
    )
    rows = unit_rows(task_id(0), samples=1, k=2)
    served = [{"role": role, "name": POLICY, "engine": "t", "version": 0, "weights_sha256": "a" * 64} for role in ROLES]
    write_unit(store, plan, "u0000", {**rows, "runs": [{**run_row(), "policies": served}]})
    sd.seal(store, plan.name)
    first = turns(store)[0]
    bad = written(store, [row(first, weights_sha256="b" * 64)], run="logprobs-00000002")
    with pytest.raises(StoreError, match=f"computed by weights {'b' * 12}, the turn was sampled by {'a' * 12}"):
        sd.seal(store, bad.name)
    good = written(store, [row(first)])
    assert sd.seal(store, good.name).rows["logprobs"] == 1


def test_a_turn_has_one_row_of_a_run_and_may_have_one_of_another(store):
    first = turns(store)[0]
    with pytest.raises(RowError, match="the key is twice"):
        written(store, [row(first), row(first)])
    for run in (RUN, "logprobs-00000002"):
        sd.seal(store, written(store, [row(first)], run=run).name)
    assert len(store.logprobs) == 2
    again = written(store, [row(first)])
    with pytest.raises(StoreError, match="was sealed before"):
        sd.seal(store, again.name)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"logprobs": [-0.1, float("-inf"), -0.1, -0.1]}, "logprob 1 is -inf; logprobs must be finite"),
        ({"logprobs": [-0.1, float("nan")], "n_tokens": 2}, "logprob 1 is nan"),
        ({"n_tokens": 5}, "n_tokens is 5, got 4 logprobs"),
        ({"logprobs": None}, "column 'logprobs' is null"),
        ({"logprobs": [-0.1, None, -0.1, -0.1]}, "null element"),
        ({"dtype": "float64"}, "got 'float64'; allowed: float32, bfloat16, float16"),
    ],
)
def test_a_bad_row_refuses_its_unit_by_name(store, changes, fault):
    first = turns(store)[0]
    with pytest.raises(RowError, match=rf"{first['turn_id'].replace('/', '.')}.*{fault}"):
        written(store, [row(first, **changes)])


def test_it_is_described_with_meaning_alignment_and_nullability(capsys):
    assert main(["data", "describe", "--table", "logprobs", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["tables"]
    assert told["key"] == ["run_id", "turn_id"]
    assert {"column", "type", "nullable", "doc"} <= set(told["columns"][0])
    columns = {column.name: column for column in TABLES["logprobs"].columns}
    assert "same length and order as completion_ids" in columns["logprobs"].doc
    assert not columns["logprobs"].nullable
    assert {name for name, column in columns.items() if column.nullable} == {"seconds", "computed_at"}
    assert {name for name, column in columns.items() if column.volatile} == {"seconds", "computed_at"}
