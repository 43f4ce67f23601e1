"""The shape of the house: one-way imports, no torch where it does not belong, no `utils`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "schemas": set(),
    "sera_data": {"schemas"},
    "collect": {"schemas", "sera_data"},
    "learn": {"schemas", "sera_data", "collect"},
    "analysis": {"schemas", "sera_data"},
}
HEAVY = {"torch", "transformers", "deepspeed", "vllm"}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_run_one_way(package):
    house = set(ALLOWED)
    for path in (ROOT / package).rglob("*.py"):
        forbidden = (imported(path) & house) - ALLOWED[package] - {package}
        assert not forbidden, f"{path.relative_to(ROOT)} imports {forbidden}"


@pytest.mark.parametrize("package", ["schemas", "sera_data", "analysis"])
def test_store_and_audit_never_import_torch(package):
    for path in (ROOT / package).rglob("*.py"):
        assert not imported(path) & HEAVY, path.relative_to(ROOT)


def test_a_file_is_named_by_a_noun():
    for package in ALLOWED:
        assert not list((ROOT / package).rglob("util*.py"))


COMMANDS = ["data", "tasks", "worlds", "collect", "label", "refresh", "eval", "policy", "pocket", "credit", "learn",
            "loop", "compare", "plan", "demo", "audit", "notebook"]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_and_imports_nothing_heavy(command):
    code = (
        "import sys; from sera_data.cli import main; status = main(sys.argv[1:]);"
        "heavy = {'torch', 'transformers', 'deepspeed', 'marimo', 'altair'} & set(sys.modules);"
        "sys.exit(f'heavy imports: {heavy}' if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"sera {command}" in done.stdout
    assert "xample" in done.stdout


def test_unknown_command_is_a_usage_error():
    done = subprocess.run([sys.executable, "-m", "sera_data", "colect"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean 'sera collect'" in done.stderr
