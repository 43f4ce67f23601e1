"""`logprobs`: an overlay of the store that few epochs have, whose rows align with their turns."""

import json
import shutil

import pytest

import sera_data as sd
from schemas import TABLES
from sera_data import sealing_checks
from sera_data.cli import main
from sera_data.errors import RowError, StoreError
from sera_data.plan import claim_addition
from tests.sera_data.small_store import CONFIG_HASH, run_row, task_id, unit_rows, write_unit
from tests.sera_data.small_store import RUN as COLLECTED
from tests.sera_data.small_tree import POLICY

RUN = "logprobs-00000001"
ROLES = ("act", "writer", "scorer")
WEIGHTS = "a" * 64


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """One tree sampled by known weights; its last turn is not trainable."""
    store = sd.create(tmp_path_factory.mktemp("logprobs") / "s")
    units = [{"unit_id": "u0000"}]
    plan = sd.claim_plan(store, run_id=COLLECTED, phase="collect", config_hash=CONFIG_HASH, units=units)
    rows = unit_rows(task_id(0), samples=1, k=2)
    max(rows["turns"], key=lambda turn: turn["turn_id"])["trainable"] = False
    served = [{"role": role, "name": POLICY, "engine": "t", "version": 0, "weights_sha256": WEIGHTS} for role in ROLES]
    write_unit(store, plan, "u0000", {**rows, "runs": [{**run_row(), "policies": served}]})
    sd.seal(store, plan.name)
    return store


@pytest.fixture
def store(sealed, tmp_path):
    return sd.open(shutil.copytree(sealed.path, tmp_path / "s"))


def turns(store):
    return store.sql("from turns order by turn_id").pl().to_dicts()


def row(turn, **changes):
    same = {name: turn[name] for name in ("turn_id", "tree_id", "task_id", "policy", "policy_version", "temperature")}
    values = {"weights_sha256": WEIGHTS, "engine": "trainer", "dtype": "float32", "logprobs": [-0.25] * 4}
    return {**same, **values, "logprobs_mode": "processed_logprobs", "n_tokens": 4, "seconds": 0.5, **changes}


def written(store, rows, *, run=RUN):
    plan = claim_addition(store, 0, run_id=run, phase="refresh", config_hash=CONFIG_HASH, units=[{"unit_id": "u0000"}])
    write_unit(store, plan, "u0000", {"runs": [run_row(phase="refresh")], "logprobs": rows})
    return plan


def test_only_epochs_with_rows_have_the_table_and_a_turn_one_row_of_each_run(store):
    before = store.seal_document("e000000")
    assert "logprobs" not in before["tables"]
    assert not list((store.path / "epochs" / "e000000").glob("logprobs*"))
    assert sd.content_hash(store, "e000000") == before["content_hash"]
    trainable = [turn for turn in turns(store) if turn["trainable"]]
    plan = written(store, [row(turn) for turn in trainable])
    sealed = sd.seal(store, plan.name)
    assert sealed.rows["logprobs"] == len(trainable) == len(store.turns) - 1
    assert sd.content_hash(store, plan.name) == sealed.content_hash
    assert sorted(p.name for p in (store.path / "epochs" / plan.name).glob("logprobs*")) == ["logprobs.parquet"]
    again = written(store, [row(trainable[0])])
    with pytest.raises(StoreError, match=rf"logprobs {RUN}/.*: the key \(run_id, turn_id\) was sealed before"):
        sd.seal(store, again.name)
    assert sd.seal(store, written(store, [row(trainable[0])], run="logprobs-00000002").name).rows["logprobs"] == 1
    shutil.rmtree(store.path / "shards" / f"{again.name}.u0000")
    sd.collect_garbage(store, sealed_hours=0)
    assert sd.verify(store).problems == ()
    first = store.logprobs.pl().sort("turn_id", "run_id").to_dicts()[0]
    assert (first["run_id"], first["epoch"], first["logprobs"], first["n_tokens"]) == (RUN, 0, [-0.25] * 4, 4)
    assert store.logprobs.arrow().num_rows == len(store.logprobs) == len(trainable) + 1
    sd.take_snapshot(store, "later", directories=["e000000", plan.name])
    with store.connect(snapshot="later") as connection:
        ((n,),) = connection.sql("select count(*) from logprobs join turns using (turn_id)").fetchall()
    assert n == len(trainable)


def test_rows_that_do_not_fit_their_turns_are_not_sealed(store, monkeypatch):
    faults = [
        ({"logprobs": [-0.1] * 3, "n_tokens": 3}, "it has 3 log-probabilities for 4 completion ids"),
        ({"turn_id": "nobody#0000"}, "turn_id nobody#0000 is not in turns"),
        ({"policy_version": 3}, "it was computed by version 3, the turn was sampled by version 0"),
        ({"temperature": 0.5}, "it was computed at temperature 0.5, the turn was sampled at 1"),
        ({"logprobs_mode": "raw_logprobs"}, "logprobs_mode must be processed_logprobs, got raw_logprobs"),
        ({"weights_sha256": "b" * 64}, f"it was computed by weights {'b' * 12}, the turn was sampled by {'a' * 12}"),
    ]
    found = turns(store)
    bad = [row(turn, **changes) for turn, (changes, _) in zip(found, faults, strict=False)]
    plan = written(store, [*bad, row(found[-1])])
    monkeypatch.setattr(sealing_checks, "SHOWN", 100)
    with pytest.raises(StoreError) as caught:
        sd.seal(store, plan.name)
    said = caught.value.args[0].partition(": ")[2].split("; ")
    for bad_row, (_, fault) in zip(bad, faults, strict=True):
        own = f"logprobs: {bad_row['turn_id']} of run {RUN}: "
        assert [text for text in said if text.startswith(own + fault)], (own, fault, said)
    assert f"logprobs: {found[-1]['turn_id']} of run {RUN}: the turn is not trainable" in " ".join(said)
    assert len(said) == len(faults) + 1


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
    with pytest.raises(RowError, match=rf"{first['turn_id']}.*{fault}"):
        written(store, [row(first, **changes)])
    with pytest.raises(RowError, match="the key is twice"):
        written(store, [row(first), row(first)])


def test_it_is_described_with_meaning_alignment_and_nullability(capsys):
    assert main(["data", "describe", "--table", "logprobs", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["tables"]
    assert told["key"] == ["run_id", "turn_id"]
    columns = {column["column"]: column for column in told["columns"]}
    assert "same length and order as completion_ids" in columns["logprobs"]["doc"]
    assert not columns["logprobs"]["nullable"]
    assert {name for name, column in columns.items() if column["nullable"]} == {"seconds", "computed_at"}
    assert {name for name, column in columns.items() if column["volatile"]} == {"seconds", "computed_at"}
    assert not {"seconds", "computed_at"} & set(TABLES["logprobs"].stable_columns)
