"""The checks of benchmarks/gpu_check.py: on a GPU at full size, on CPU at toy size with little but torch beside it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"
NAMES = ["attention", "packed", "bf16", "head", "step rows", "step tree"]
WITHOUT = ("pyarrow", "duckdb", "polars", "datasets", "typer", "peft")


@pytest.fixture(scope="module")
def script():
    found = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(found)
    sys.modules["gpu_check"] = module
    found.loader.exec_module(module)
    yield module
    del sys.modules["gpu_check"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu(script, name):
    figures = script.run_check(name, script.FULL, torch.device("cuda"))
    assert [f for f in figures if f.ok is False] == []


@pytest.mark.slow
def test_the_same_code_at_toy_size_on_cpu_with_torch_and_deepspeed_alone():
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in WITHOUT)
    code = f"import runpy, sys\n{hidden}sys.argv = ['x', '--tiny', '--device', 'cpu', '--json']\n"
    code += f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads(done.stdout.splitlines()[-1])
    assert list(dict.fromkeys(figure["check"] for figure in body["figures"])) == NAMES
    judged = [figure for figure in body["figures"] if figure["ok"] is not None]
    assert {figure["check"] for figure in judged} == set(NAMES)
    assert all(figure["ok"] for figure in judged)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_it_says_so(script, capsys):
    assert script.main([]) == 0
    assert "no GPU here" in capsys.readouterr().out
