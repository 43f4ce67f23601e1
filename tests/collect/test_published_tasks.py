"""The published TextCraft-Synth validation tasks through the full runner, under the published budgets."""

from pathlib import Path

import pytest

import sera_data as sd
from collect.config import CollectConfig
from collect.task_file import import_published
from sera_data.config import load_config
from tests.collect.job_lab import play, sealed_hash

CONFIG = Path("configs/textcraft_scripted.yaml")
PUBLISHED = Path("tests/data/textcraft_synth/val.jsonl")


@pytest.mark.slow
def test_the_delegating_script_solves_easy_medium_and_hard(tmp_path, request):
    root = request.config.rootpath
    everything = import_published(root / PUBLISHED)
    extreme = [task for task in everything if task.difficulty == "extreme"]
    # nobody must win the extreme ones, and they take half of the time: every eighth
    tasks = [task for task in everything if task.difficulty != "extreme"] + extreme[::8]
    config = load_config(CollectConfig, root / CONFIG)
    assert (config.budgets.turns, config.budgets.depth) == (20, 3)
    store, job, work = play(tmp_path / "store", config, tasks=tasks)
    assert work.complete
    bands = store.sql("select difficulty, count(*), avg(success) from trees group by difficulty").fetchall()
    shares = {band: (n, success) for band, n, success in bands}
    assert len(everything) == 632
    assert {band: n for band, (n, _) in shares.items()} == {"easy": 147, "medium": 213, "hard": 136, "extreme": 17}
    assert {band: shares[band][1] for band in ("easy", "medium", "hard")} == {"easy": 1.0, "medium": 1.0, "hard": 1.0}
    sealed_hash(store, job)
    assert sd.open(store.path).sealed_names() == ["e000000"]
