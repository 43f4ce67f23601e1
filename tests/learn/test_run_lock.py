"""One process at a time in a run's directory: the second waits, a kill lets go, a bad directory is named."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from learn.run_lock import POLL_S, sole_process
from sera_data.errors import SeraError

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from learn.run_lock import POLL_S, sole_process
with sole_process(Path(sys.argv[1]), work="run"):
    print("held", flush=True)
    time.sleep(600)
"""


def holder(directory):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)], env=env, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_waits_for_the_first_and_a_kill_lets_go(tmp_path, capfd, monkeypatch):
    first, waits = holder(tmp_path / "run"), []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            first.kill()
            os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)  # the kernel has let go

    monkeypatch.setattr("learn.run_lock.time.sleep", wait)
    with sole_process(tmp_path / "run", work="run"):
        assert waits == [POLL_S] * 3
    assert f"waiting for process {first.pid} on" in capfd.readouterr().err
    assert first.wait() == -signal.SIGKILL
    first.stdout.close()


def test_it_is_free_again_afterwards(tmp_path, capfd):
    for _ in range(2):
        with sole_process(tmp_path / "a" / "b", work="run"):
            pass
    assert capfd.readouterr().err == ""


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(SeraError, match=r"cannot write in .*file.*--out"), sole_process(path, work="run"):
            pass
