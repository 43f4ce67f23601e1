"""Sinks: off by default, readers of rows only."""

import types

import pytest

from learn import sinks
from learn.sinks import numbers, open_sinks, parse_sinks
from sera_data.errors import SeraError, UsageError

ROW = {"stage": "execution", "version_out": 3, "loss": 0.5, "lr": None, "group_ids": ["0/t"], "skip_reason": None}


def test_names_are_checked():
    assert parse_sinks("") == []
    assert parse_sinks("tensorboard, wandb") == ["tensorboard", "wandb"]
    with pytest.raises(UsageError, match="tensorboard, wandb, trackio"):
        parse_sinks("mlflow")


def test_only_numbers_are_shown():
    assert numbers(ROW) == {"execution/version_out": 3.0, "execution/loss": 0.5}


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_get_every_row(name, tmp_path, monkeypatch):
    calls = []
    fake = types.SimpleNamespace(
        init=lambda **kw: calls.append(("init", kw["name"])),
        log=lambda row: calls.append(("log", row["execution/loss"], row["version"])),
        finish=lambda: calls.append(("finish",)),
    )
    monkeypatch.setattr(sinks, "import_module", lambda module: fake)
    (sink,) = open_sinks([name], directory=tmp_path, run_id="r-1")
    sink.add(ROW)
    sink.close()
    assert calls == [("init", "r-1"), ("log", 0.5, 3), ("finish",)]


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_writes_events(tmp_path):
    (sink,) = open_sinks(["tensorboard"], directory=tmp_path, run_id="r-1")
    sink.add(ROW)
    sink.close()
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    def missing(module):
        raise ModuleNotFoundError(name=module)

    monkeypatch.setattr(sinks, "import_module", missing)
    with pytest.raises(SeraError, match="pip install wandb"):
        open_sinks(["wandb"], directory=tmp_path, run_id="r-1")
