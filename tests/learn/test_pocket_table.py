"""The pocket table's config: in either world every row is a loop that can be launched."""

import runpy
from pathlib import Path

import pytest

from learn.compare_config import CompareConfig
from learn.config import LoopConfig
from sera_data.config import load_config

ROOT = Path(__file__).parents[2]
TABLE = runpy.run_path(str(ROOT / "benchmarks" / "pocket_table.py"))


@pytest.mark.parametrize("world", ["textcraft", "textworld"])
def test_every_row_trains_on_tasks_of_its_world(world):
    changes = [*TABLE["CHANGES"][world], *(TABLE["common"]() if world == "textworld" else ())]
    config = load_config(CompareConfig, TABLE["CONFIG"], changes)
    loops = [load_config(LoopConfig, ROOT / config.loop, list(row.overrides)) for row in config.rows.values()]
    assert {loop.collect.world.name for loop in loops} == {world}
    updates = {"textcraft": 20, "textworld": 12}
    assert {loop.epochs * loop.learn.updates_per_collect for loop in loops} == {updates[world]}
    assert ("rao_hard" in config.rows) == (world == "textcraft")
    assert len(config.contrasts) == {"textcraft": 13, "textworld": 10}[world]
