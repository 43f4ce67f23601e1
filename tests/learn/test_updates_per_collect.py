"""The sweep over updates per collect: its rows differ in the age of the data and in nothing else."""

from pathlib import Path

from learn.compare_config import CompareConfig
from learn.config import LoopConfig
from sera_data.config import load_config

ROOT = Path(__file__).parents[2]


def test_rows_are_equal_in_updates_and_samples():
    config = load_config(CompareConfig, ROOT / "configs" / "updates_per_collect.yaml", [])
    loops = {key: load_config(LoopConfig, ROOT / config.loop, list(row.overrides)) for key, row in config.rows.items()}
    ages = {key: loop.learn.updates_per_collect for key, loop in loops.items()}
    assert ages == {"every_1": 1, "every_5": 5, "every_20": 20}
    assert {loop.epochs * loop.learn.updates_per_collect for loop in loops.values()} == {20}
    rest = {
        loop.model_copy(update={"epochs": 1, "learn": loop.learn.model_copy(update={"updates_per_collect": 1})}).hash()
        for loop in loops.values()
    }
    assert len(rest) == 1
    assert {row.method for row in config.rows.values()} == {"rao"}
