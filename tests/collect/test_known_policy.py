"""The policy with a known success rate: which tasks it fails, and what is refused."""

from dataclasses import replace

import pytest

from collect.known_policy import open_policy, task_number
from collect.textcraft_tasks import build_tasks
from sera_data.errors import UsageError


def test_the_number_of_a_task_is_that_of_its_published_id_or_its_own():
    task = build_tasks({"worlds": "1000", "n": 1})[0]
    assert task_number(task) == int(task.task_id[1:], 16)
    assert task_number(replace(task, upstream_id="textcraft_synth.val.120")) == 120


@pytest.mark.parametrize("argument", ["", "1", "three", "-3"])
def test_a_rate_is_a_whole_number_from_2(argument):
    with pytest.raises(UsageError, match="known:N wants a whole number from 2"):
        open_policy(argument, options={})


def test_it_has_no_options_and_a_name_of_its_own():
    assert open_policy("3", options={}).identity.name == "known:3"
    with pytest.raises(UsageError, match="takes no options, got slips"):
        open_policy("3", options={"slips": {}})
