"""What long commands show where there is no terminal: few lines, the last one whole; nothing when quiet."""

from types import SimpleNamespace

import pytest

from collect import progress_display
from collect.label_progress import LabelProgress
from collect.progress import JobProgress

ROOT = SimpleNamespace(outcome="finished", success=True, n_prompt_tokens=3, n_completion_tokens=2)
VOTE = {"valid": True, "value": 1.0, "prompt_tokens": 3, "completion_tokens": 2}


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_display.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_when_it_is_time_and_one_at_the_end(capsys, clock, quiet):
    with JobProgress(4, label="collect e000000", quiet=quiet) as progress:
        for seconds in (1.0, 20.0, 21.0, 22.0):
            clock[0] = seconds
            progress.tree_done(ROOT)
    lines = capsys.readouterr().err.splitlines()
    wanted = ["collect e000000: 2/4 trees  success 1.00", "collect e000000: 4/4 trees  success 1.00"]
    assert [line.rpartition("  ")[0] for line in lines] == ([] if quiet else wanted)


def test_votes_are_counted_the_same_way(capsys, clock):
    with LabelProgress(1, label="label e000000.a001") as progress:
        progress.label_done(VOTE)
    assert capsys.readouterr().err == "label e000000.a001: 1/1 votes  success 1.00  5 tokens\n"
