"""Every notebook runs as a script, is a sound marimo notebook and writes no metric; its command refuses wrong names.

As apps the notebooks run in a real browser: `test_browser.py`.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.audit import run_audit
from sera_data.cli import main

sys.path.insert(0, str(Path(__file__).parent))
from noisy_store import noisy_store

HERE = Path("analysis/notebooks")
NOTEBOOKS = sorted(HERE.glob("*.py"))
PRINTS = {
    "calibration": "pair accuracy",
    "cost": "Calls and tokens",
    "learning": "epoch 0: success",
    "trees": "Worst-ranked delegations: ",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return noisy_store(tmp_path_factory.mktemp("noisy") / "store", epochs=1, tasks=3, samples=1, updates=False)


@pytest.mark.slow
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


def test_every_notebook_is_known():
    assert [path.stem for path in NOTEBOOKS] == sorted(PRINTS)


@pytest.mark.parametrize("name", ["cost", "learning", "trees"])
def test_the_others_run_as_scripts_too(store, name):
    command = [sys.executable, str(HERE / f"{name}.py"), "--", "--store", str(store.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert PRINTS[name] in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_as_a_notebook_cell_by_cell(store, tmp_path, path):
    """marimo runs every cell as its editor does and ends with 1 when one of them fails."""
    page = tmp_path / "notebook.html"
    copy = shutil.copy(path, tmp_path)  # marimo keeps a session beside the notebook
    command = [sys.executable, "-m", "marimo", "export", "html", str(copy), "-o", str(page), "--"]
    done = subprocess.run([*command, "--store", str(store.path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert page.stat().st_size > 0


def test_marimo_finds_nothing_to_mend():
    command = [sys.executable, "-m", "marimo", "check", *map(str, NOTEBOOKS)]
    marimo = subprocess.run(command, capture_output=True, text=True, check=False)
    assert marimo.returncode == 0, marimo.stdout + marimo.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_metric_is_written_in_a_notebook(path):
    text = path.read_text(encoding="utf-8")
    for word in ("avg(", "sum(", ".mean(", "select count"):
        assert word not in text


def test_the_jupyter_twin_is_the_calibration_notebook(tmp_path):
    twin = tmp_path / "calibration.ipynb"
    command = [sys.executable, "-m", "marimo", "export", "ipynb", str(HERE / "calibration.py"), "-o", str(twin)]
    subprocess.run(command, check=True, capture_output=True)
    assert twin.read_text() == (HERE / "calibration.ipynb").read_text(), (
        f"run: {' '.join(command[1:-1])} {HERE}/calibration.ipynb"
    )


@pytest.mark.slow
def test_the_jupyter_twin_runs(store, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("SERA_STORE", str(store.path))
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    book = nbformat.read(HERE / "calibration.ipynb", as_version=4)
    NotebookClient(book, timeout=600, kernel_name="python3").execute()
    outputs = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    assert not [out for out in outputs if out.output_type == "error"]
    assert any("Do rubric scores mean anything?" in str(out.get("data", "")) for out in outputs)


def test_files_for_the_tree_explorer(store, tmp_path, capsys):
    rows = tmp_path / "credit.parquet"
    assert main(["notebook", "trees", str(store.path), "--credit", str(rows), "--json"]) == 2
    assert "does not exist" in capsys.readouterr().err
    rows.write_bytes(b"")
    assert main(["notebook", "cost", str(store.path), "--credit", str(rows), "--json"]) == 2
    assert "belongs to the notebook trees" in capsys.readouterr().err
    assert main(["notebook", "trees", str(store.path), "--credit", str(rows), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["command"][-2:] == ["--credit", str(rows)]


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
