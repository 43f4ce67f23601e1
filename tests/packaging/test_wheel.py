"""The wheel works in an empty environment outside the checkout: base install, SQL and audit, no torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*args, cwd):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([str(a) for a in args], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    place = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", place / "dist", ROOT, cwd=place)
    run(sys.executable, "-m", "venv", "--without-pip", place / "env", cwd=place)
    (wheel,) = (place / "dist").glob("*.whl")
    pip(place, "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt", wheel)
    return place


def pip(place, *args):
    """The pip of the tests at work in the empty environment, which needs none of its own."""
    return run(sys.executable, "-m", "pip", "--python", place / "env/bin/python", *args, cwd=place)


@pytest.mark.slow
def test_base_install_has_no_torch_and_audits_the_example(installed):
    sera = installed / "env/bin/sera"
    packages = pip(installed, "list", "--format", "freeze")
    assert "duckdb==" in packages
    assert "torch==" not in packages
    assert "transformers==" not in packages
    page = installed / "report.html"
    text = run(sera, "audit", ROOT / "examples/store", "--html", page, cwd=installed)
    assert "pair accuracy" in text.lower()
    assert page.stat().st_size > 10_000
    assert "node_id" in run(sera, "data", "describe", cwd=installed)
    assert "2" in run(sera, "data", "sql", ROOT / "examples/store", "select 1 + 1 as two", cwd=installed)


@pytest.mark.slow
def test_a_missing_extra_is_named(installed):
    done = subprocess.run(
        [installed / "env/bin/sera", "learn", "--store", "x", "--from", "pocket", "--out", "z"],
        cwd=installed, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert "sera-data[learn]" in done.stderr or "no store" in done.stderr.lower()


@pytest.mark.slow
def test_the_wheel_carries_its_data(installed):
    code = (
        "from importlib.resources import files;"
        "import collect, learn, analysis, sera_data;"
        "need = ['collect/pocket/model.safetensors', 'collect/pocket/tokenizer.json', 'collect/prompts/terse.yaml'];"
        "root = files('collect').joinpath('..');"
        "missing = [n for n in need if not root.joinpath(n).is_file()];"
        "assert not missing, missing;"
        "assert list(files('learn').joinpath('credits').iterdir());"
        "assert list(files('analysis').joinpath('sql').iterdir());"
        "assert list(files('sera_data').joinpath('views').iterdir())"
    )
    run(installed / "env/bin/python", "-c", code, cwd=installed)
