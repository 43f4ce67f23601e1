"""Phases as processes: what each prints comes back, in order; a fault is that of the process which had it."""

import json
import sys

import pytest

from learn.process import PhaseError, run_side_by_side, visible_devices


def command(code):
    return [sys.executable, "-c", f"import json, os, sys; {code}"]


def test_each_process_answers_for_itself_with_its_own_environment():
    commands = [command("print(json.dumps(os.environ['CUDA_VISIBLE_DEVICES']))")] * 3
    extra = [{"CUDA_VISIBLE_DEVICES": device} for device in "abc"]
    assert run_side_by_side(commands, names=["a", "b", "c"], extra=extra) == ["a", "b", "c"]


def test_a_fault_names_its_process_after_the_others_have_ended(tmp_path):
    done = tmp_path / "done"
    commands = [command("sys.exit(75)"), command(f"open({json.dumps(str(done))}, 'w').close(); print('{{}}')")]
    with pytest.raises(PhaseError, match=r"collect --shard 0/2.*stopped") as caught:
        run_side_by_side(commands, names=["collect --shard 0/2", "collect --shard 1/2"])
    assert caught.value.exit_code == 75
    assert done.exists()


@pytest.mark.parametrize(
    "listed,parts,want",
    [(None, 3, ["0", "1", "2"]), ("4,5", 2, ["4", "5"]), ("4, 5", 3, ["4", "5", "4"]), ("", 1, ["0"])],
)
def test_parts_share_the_gpus_that_are_visible(listed, parts, want):
    assert visible_devices(listed, parts) == want
