"""A signal before anything is loaded, while a module is, and when all is done: one line at most, the right code."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODES = [("SIGINT", 130), ("SIGTERM", 75), ("SIGUSR1", 75)]
STRIKE = "import atexit, os, signal, sys\ndef strike(): os.kill(os.getpid(), signal.{name})\n"
BEFORE = """
class Striking:
    def find_spec(self, name, *rest):
        if name == "sera_data.cli":
            strike()
sys.meta_path.insert(0, Striking())
from sera_data.start import main
sys.exit(main())
"""
AFTER = """
atexit.register(strike)
from sera_data.start import main
code = main()
strike() if "now" in sys.argv else None
sys.exit(code)
"""
WHILE = """
from sera_data.stops import Stops
with Stops().active():
    try:
        import struck
    except BaseException:
        print("it was raised")
"""
WHILE_INTERRUPTION = WHILE.replace("sera_data.stops import Stops", "collect.interruption import Interruption").replace(
    "Stops()", "Interruption()"
)


def run(script, *arguments, name, path=ROOT):
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{path}"}
    command = [sys.executable, "-c", STRIKE.format(name=name) + script, *arguments]
    return subprocess.run(
        command,
        env=env,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize(("name", "code"), CODES)
def test_before_anything_is_loaded(name, code):
    done = run(BEFORE, "--version", name=name)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert done.stderr.startswith("error: interrupted" if code == 130 else f"error: stopped by {name}")


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "now"]])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_when_all_is_done_the_code_stays(name, arguments):
    done = run(AFTER, *arguments, name=name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sera-data ")


@pytest.mark.parametrize("script", [WHILE, WHILE_INTERRUPTION])
@pytest.mark.parametrize(("name", "code"), CODES)
def test_while_a_module_is_loaded_nothing_is_raised_into_it(tmp_path, script, name, code):
    (tmp_path / "struck.py").write_text("import __main__\n__main__.strike()\n")
    done = run(script, name=name, path=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
