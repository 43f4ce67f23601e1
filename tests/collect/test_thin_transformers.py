"""Packages hidden from an import: as if not installed, and there again afterwards."""

import importlib
import sys
from importlib.metadata import version
from importlib.util import find_spec

import pytest

from collect.thin_transformers import hidden, transformers


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of an installed package that nobody has imported."""
    (tmp_path / "hidden_here.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield "hidden_here"
    sys.modules.pop("hidden_here", None)


def test_a_package_is_hidden_while_another_is_imported_and_no_longer(package):
    with hidden(package):
        assert find_spec(package) is None
        with pytest.raises(ImportError):
            importlib.import_module(package)
    loaded = importlib.import_module(package)
    with hidden(package):  # nothing is gained by hiding it now
        assert sys.modules[package] is loaded
    assert sys.modules[package] is loaded


def test_a_fault_inside_shows_the_package_again(package):
    with pytest.raises(ZeroDivisionError), hidden(package):
        raise ZeroDivisionError
    assert find_spec(package) is not None


def test_it_is_the_library_itself():
    assert transformers.__version__ == version("transformers")
    assert transformers.Qwen3Config.model_type == "qwen3"
