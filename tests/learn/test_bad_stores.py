"""Stores that cannot be trained from: what is wrong, why, and the command that mends it."""

from __future__ import annotations

import pytest

import sera_data as sd
from learn.credit import compute_credit
from learn.epochs import choose_epoch
from learn.method import open_method
from sera_data.cli import main
from sera_data.errors import StoreError
from sera_data.plan import read_plan
from tests.sera_data.small_store import small_store, task_id, unit_rows, write_unit


def test_an_epoch_that_is_not_sealed_names_the_command_that_seals_it(tmp_path):
    store = small_store(tmp_path / "store", tasks=1, samples=1, k=2, sealed=False)
    with pytest.raises(StoreError, match=r"none is sealed; sealed are: none .hint: sera data seal .*store e000000"):
        choose_epoch(store, None)
    sd.seal(store, "e000000")
    assert choose_epoch(store, None) == 0
    with pytest.raises(StoreError, match=r"epoch 3 is not among them; sealed are: \[0\] .hint: collect and seal one"):
        choose_epoch(store, 3)


def test_an_epoch_whose_units_are_missing_says_how_many(tmp_path):
    store = sd.create(tmp_path / "store")
    plan = sd.claim_plan(
        store,
        run_id="r-00000001",
        phase="collect",
        policy_hash="b" * 64,
        config_hash="c" * 64,
        units=[{"unit_id": "u0000", "purpose": "execution"}, {"unit_id": "u0001", "purpose": "delegation"}],
    )
    write_unit(store, plan, "u0000", unit_rows(task_id(0), run_id="r-00000001", samples=1, k=2))
    assert read_plan(store, plan.name).committed() == {"u0000"}
    with pytest.raises(StoreError, match=r"1 units of e000000 are not collected: run its sera collect again"):
        choose_epoch(store, None)


@pytest.mark.parametrize("harm, fault", [("gone", "is missing"), ("short", "has 10 bytes"), ("wrong", "is damaged")])
def test_a_table_that_is_missing_or_damaged_is_named_with_its_repair(tmp_path, capsys, harm, fault):
    small_store(tmp_path / "store", tasks=1, samples=1, k=2)
    (path,) = (tmp_path / "store" / "epochs" / "e000000").glob("scores*.parquet")
    content = path.read_bytes()
    path.unlink()
    if harm != "gone":
        path.write_bytes(content[:10] if harm == "short" else content[:4] + b"\xff" * (len(content) - 8) + content[-4:])
    assert main(["credit", str(tmp_path / "store"), "--method", "sera"]) == 1
    err = capsys.readouterr().err
    assert path.name in err
    assert fault in err
    assert "restore epochs/e000000 from a copy" in err


def test_a_label_of_another_node_is_caught(tmp_path):
    store = small_store(tmp_path / "store", tasks=1, samples=2, k=2)
    path = tmp_path / "mine.sql"
    path.write_text(
        "select t.turn_id, l.node_id as trajectory_id, 'execution' as stage, 0 as token_start, 1 as token_end,"
        " l.value as reward, 0.0 as baseline, l.value as advantage, 0 as depth,"
        " concat(t.epoch, '/', t.task_id) as group_id"
        " from turns t join labels l on l.task_id = t.task_id and l.node_id <> t.node_id"
        " where t.kind = 'act' qualify row_number() over (partition by t.turn_id order by l.node_id) = 1"
    )
    with pytest.raises(StoreError, match=r"turn .* is of node .*, the credit row pays it as trajectory .*its label"):
        compute_credit(store.connect(), open_method(path))
    path.write_text(
        path.read_text().replace("l.node_id as traj", "t.node_id as traj").replace("t.epoch", "t.epoch + 1")
    )
    with pytest.raises(StoreError, match=r"belongs to group 0/.*, the credit row puts it into 1/"):
        compute_credit(store.connect(), open_method(path))
