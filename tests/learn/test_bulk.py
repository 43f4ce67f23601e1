"""Datums in bulk: those of the turns one by one, from the same files; what is not ordinary is left to them."""

import dataclasses
import pickle
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch.testing import assert_close

import sera_data as sd
from learn.bulk import bulk_datums
from learn.credit import compute_credit
from learn.datum import Datum
from learn.depth_weights import weigh
from learn.method import open_method
from learn.packing import micro_batch, plan_packs
from learn.sequence import _one_by_one, build_datums
from learn.turn_files import local_files
from sera_data.errors import StoreError
from tests.learn.forest import Forest

EXAMPLE = Path(__file__).parents[2] / "examples" / "store"
FIELDS = list(Datum.__dataclass_fields__)


@pytest.fixture(scope="module")
def epoch():
    """The connection of a real epoch, its turn files, and the credit rows of each stage."""
    connection = sd.open(EXAMPLE).connect(view="sealed", epochs=[0])
    credit = compute_credit(connection, open_method("sera"))
    rows = {s: credit.training_rows(s, credit.groups(s)) for s in ("execution", "delegation", "rubric")}
    yield connection, local_files(connection), {stage: part for stage, part in rows.items() if len(part)}
    connection.close()


def same(mine, theirs):
    assert [d.datum_id for d in mine] == [d.datum_id for d in theirs]
    for one, other in zip(mine, theirs, strict=True):
        for name in FIELDS:
            left, right = getattr(one, name), getattr(other, name)
            assert type(left) is type(right), name
            if isinstance(left, np.ndarray):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right, err_msg=name)
            else:
                assert left == right, name
        assert one._fault() is None


def test_equal_to_one_by_one_on_a_real_epoch(epoch):
    connection, files, rows = epoch
    assert len(rows) >= 2
    for part in rows.values():
        same(bulk_datums(files, part), list(_one_by_one(connection, part, chunk=256)))


def test_micro_batches_are_those_of_one_by_one_to_the_bit(epoch):
    connection, files, rows = epoch
    for part in rows.values():
        half = part.filter(pl.int_range(pl.len()) % 2 == 0)
        for share in ("off", "on"):
            mine, theirs = (
                plan_packs(weigh(found), budget=2048, world_size=3, share=share)
                for found in (bulk_datums(files, half), list(_one_by_one(connection, half, chunk=256)))
            )
            assert mine.sha256 == theirs.sha256
            for one, other in zip(mine.packs, theirs.packs, strict=True):
                assert_close(tensors(micro_batch(one)), tensors(micro_batch(other)), rtol=0, atol=0)


def tensors(made):
    found = [getattr(part, field.name) for part in (made, made.tokens) for field in dataclasses.fields(part)]
    return [value for value in found if torch.is_tensor(value)]


def test_a_copy_is_a_datum_with_an_array_a_token(epoch):
    _, files, rows = epoch
    mine = bulk_datums(files, rows["execution"])
    sent = pickle.loads(pickle.dumps(mine[1]))
    assert type(sent) is Datum
    same([sent], [mine[1]])


def test_part_of_the_turns_of_part_of_the_trajectories(epoch):
    connection, files, rows = epoch
    draw = random.Random(0)
    for part in rows.values():
        for share in (0.05, 0.5):
            some = part.filter(pl.Series([draw.random() < share for _ in range(len(part))]))
            if len(some):
                shuffled = some.sample(fraction=1.0, shuffle=True, seed=1)
                same(bulk_datums(files, shuffled), list(_one_by_one(connection, some, chunk=7)))


def test_pieces_of_a_completion(epoch):
    connection, files, rows = epoch
    part = rows["execution"].filter(pl.col("token_end") - pl.col("token_start") > 4)
    first = part.with_columns(token_end=pl.col("token_start") + 1)
    rest = part.with_columns(token_start=pl.col("token_start") + 3, advantage=-pl.col("advantage"))
    both = pl.concat([rest, first])
    same(bulk_datums(files, both), list(_one_by_one(connection, both, chunk=256)))


def test_stages_together_come_in_order(epoch):
    connection, _, rows = epoch
    together = pl.concat(list(rows.values())).sample(fraction=1.0, shuffle=True, seed=2)
    same(list(build_datums(connection, together)), list(_one_by_one(connection, together, chunk=256)))


@pytest.mark.parametrize(
    "change",
    [
        {"turn_id": pl.lit("nowhere#0000")},
        {"token_end": pl.col("token_end") + 10_000},
        {"token_start": pl.col("token_end")},
    ],
)
def test_what_is_wrong_is_said_by_the_other_way(epoch, change):
    connection, files, rows = epoch
    third = pl.int_range(pl.len()) == 3
    wrong = rows["execution"].with_columns(
        pl.when(third).then(value).otherwise(pl.col(name)).alias(name) for name, value in change.items()
    )
    assert bulk_datums(files, wrong) is None
    with pytest.raises(StoreError):
        list(build_datums(connection, wrong))


def test_overlapping_spans_are_left_to_the_other_way(epoch):
    _, files, rows = epoch
    twice = pl.concat([rows["execution"], rows["execution"]])
    assert bulk_datums(files, twice) is None


def test_a_damaged_file_is_no_reason_to_guess(epoch, tmp_path):
    _, files, rows = epoch
    broken = tmp_path / "turns.parquet"
    broken.write_bytes(files[0].read_bytes()[:-100])
    with pytest.raises(Exception, match="Parquet"):
        bulk_datums([broken], rows["execution"])


def test_a_connection_of_tables_has_no_files():
    forest = Forest()
    forest.root("a", 0, 1)
    assert local_files(forest.connect()) == []
