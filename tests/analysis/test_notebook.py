"""The calibration notebook runs as a script, is a sound marimo notebook, and its command refuses wrong names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.audit import run_audit
from sera_data.cli import main

sys.path.insert(0, str(Path(__file__).parent))
from noisy_store import noisy_store

NOTEBOOK = Path("analysis/notebooks/calibration.py")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return noisy_store(tmp_path_factory.mktemp("noisy") / "store", epochs=1, tasks=3, samples=1, updates=False)


def test_runs_as_a_script_and_prints_the_audit(store):
    command = [sys.executable, "-m", "sera_data", "notebook", "calibration", str(store.path), "--run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == run_audit(store, reps=200).summary


def test_json_says_what_would_start_and_starts_nothing(store, tmp_path, capsys, monkeypatch):
    copy = tmp_path / "mine.py"
    monkeypatch.setattr("subprocess.call", lambda *_: pytest.fail("something was started"))
    assert main(["notebook", "calibration", str(store.path), "--json", "--port", "2718", "--headless"]) == 0
    app = json.loads(capsys.readouterr().out)
    assert app["store"] == str(store.path.resolve())
    assert app["command"][1:4] == ["-m", "marimo", "run"]
    assert app["command"].index("--port") < app["command"].index("--")
    assert main(["notebook", "calibration", str(store.path), "--json", "--edit", str(copy)]) == 0
    assert json.loads(capsys.readouterr().out)["command"][3:5] == ["edit", str(copy)]
    assert not copy.exists()


def test_json_of_a_run_holds_the_output(store, capsys):
    assert main(["notebook", "calibration", str(store.path), "--run", "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert (ran["exit_code"], ran["output"].splitlines()) == (0, run_audit(store, reps=200).summary)


def test_marimo_finds_nothing_to_mend():
    marimo = subprocess.run(
        [sys.executable, "-m", "marimo", "check", str(NOTEBOOK)], capture_output=True, text=True, check=False
    )
    assert marimo.returncode == 0, marimo.stdout + marimo.stderr


def test_no_metric_is_written_in_the_notebook():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert "avg(" not in text
    assert "sum(" not in text


def test_wrong_names_are_refused(store, tmp_path, capsys):
    assert main(["notebook", "callibration", str(store.path)]) == 2
    assert "allowed: calibration" in capsys.readouterr().err
    assert main(["notebook", "calibration", str(tmp_path / "none"), "--run"]) == 1
    (tmp_path / "mine.py").write_text("", encoding="utf-8")
    assert main(["notebook", "calibration", str(store.path), "--edit", str(tmp_path / "mine.py")]) == 2


def test_missing_marimo_says_what_to_install(store, monkeypatch, capsys):
    monkeypatch.setattr("analysis.notebook_cli.find_spec", lambda name: None)
    assert main(["notebook", "calibration", str(store.path), "--run"]) == 1
    assert "pip install 'sera-data[notebook]'" in capsys.readouterr().err
