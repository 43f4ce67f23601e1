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
    tasks = import_published(root / PUBLISHED)
    config = load_config(CollectConfig, root / CONFIG)
    assert (config.budgets.turns, config.budgets.depth) == (20, 3)
    store, job, work = play(tmp_path / "store", config, tasks=tasks)
    assert work.complete
    bands = store.sql("select difficulty, count(*), avg(success) from trees group by difficulty").fetchall()
    shares = {band: (n, success) for band, n, success in bands}
    assert sum(n for n, _ in shares.values()) == 632
    assert {band: shares[band][1] for band in ("easy", "medium", "hard")} == {"easy": 1.0, "medium": 1.0, "hard": 1.0}
    sealed_hash(store, job)
    assert sd.open(store.path).sealed_names() == ["e000000"]
