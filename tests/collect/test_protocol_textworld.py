"""The TextWorld-Sync protocols: the published tasks are recognised, dealt as published, and played to the end."""

from collections import Counter

import pytest

import sera_data as sd
from collect.eval_request import Asked, requests
from collect.evaluation import find_evaluation, report, run_evaluation
from collect.protocol import read_protocol
from collect.protocol_tasks import protocol_tasks
from collect.sharding import deal_shards

BANDS = {"easy": 350, "medium": 350, "hard": 350, "extreme": 350}


@pytest.fixture(scope="module")
def published():
    return protocol_tasks(read_protocol("textworld-1400", ["tasks.build.food_db=installed"]), None)


def test_the_published_tasks_are_recognised_under_both_protocols(published):
    assert published.source == "published"
    assert dict(published.counts()) == BANDS
    assert Counter((task.family, task.difficulty) for task in published.tasks).most_common()[-1][1] == 50
    alone = read_protocol("single-agent-textworld").tasks.published
    assert alone == read_protocol("textworld-1400").tasks.published


def test_1400_tasks_are_dealt_as_published(published):
    for n, size in ((4, {87, 88}), (7, {50})):
        shards = deal_shards(published.tasks, [task.difficulty for task in published.tasks], of=n)
        assert [len(shard) for shard in shards] == [1400 // n] * n
        assert {count for shard in shards for count in Counter(t.difficulty for t in shard).values()} == size
        assert len({task.task_id for shard in shards for task in shard}) == 1400


def test_scripted_cooks_are_evaluated_by_band_and_family(tmp_path):
    (request,) = requests(Asked(protocol="textworld-1400", policy="scripted:dish_sequential", limit=6, seeds=(0,)))
    assert request.chosen.source == "own"
    assert (request.phase.delegation.scheduling, request.phase.budgets.world_steps) == ("parallel", "task")
    store = sd.create(tmp_path / "s")
    name, complete = run_evaluation(store, request, quiet=True)
    body = report(find_evaluation(store, name))
    assert complete
    assert (body["dialect"], body["trees"], body["errors"]) == ("blocks", 6, 0)
    assert sum(cell["trees"] for cell in body["by_family"].values()) == 6
    assert body["by_true_depth"] == {}
    assert body["success"] > 0
