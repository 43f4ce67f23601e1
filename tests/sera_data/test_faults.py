"""Faults nobody foresaw, Ctrl-C, closed pipes and damaged documents: one line, the right code, never a traceback."""

import json
import os
import signal
import sys
from types import SimpleNamespace

import pytest

from sera_data import cli
from sera_data.config import Config, load_config
from sera_data.documents import SHAPES, read_document, require_shape
from sera_data.errors import ConfigError, StoreError


def run(monkeypatch, capsys, fault):
    def app(**_):
        raise fault

    entry = SimpleNamespace(load=lambda: app, value="x")
    monkeypatch.setattr(cli, "commands", lambda: {"boom": entry})
    code = cli.main(["boom"])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (RuntimeError("a\nb"), 1, "unforeseen RuntimeError: a b"),
        (KeyError("run_id"), 1, "'sera boom' stopped at an unforeseen KeyError"),
        (RecursionError("deep"), 1, "SERA_TRACEBACK=1"),
        (ModuleNotFoundError("no x", name="x"), 1, "unforeseen ModuleNotFoundError"),
        (OSError(28, "No space left on device", "f"), 1, "No space left on device: f"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(130), 130, "interrupted"),
    ],
)
def test_a_fault_is_one_line(monkeypatch, capsys, fault, code, words):
    got, err = run(monkeypatch, capsys, fault)
    assert (got, err.count("\n")) == (code, 1)
    assert words in err


@pytest.mark.parametrize("argument", ["", "  ", "--store="])
def test_an_empty_argument_is_refused_before_it_means_this_directory(tmp_path, monkeypatch, capsys, argument):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["collect", "--policy", "scripted:oracle", "--store", argument]) == 2
    assert "an argument is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_at_any_moment_has_its_code(monkeypatch, capsys, number):
    before = signal.getsignal(number)
    monkeypatch.setattr(cli, "commands", lambda: os.kill(os.getpid(), number))
    assert cli.main(["data", "ls", "x"]) == 75
    error = capsys.readouterr().err
    assert error.startswith(f"error: stopped by {signal.Signals(number).name}")
    assert error.count("\n") == 1
    assert signal.getsignal(number) is before


def test_ctrl_c_before_a_command_is_chosen(monkeypatch, capsys):
    def struck():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "commands", struck)
    assert cli.main(["data"]) == 130
    assert capsys.readouterr().err.startswith("error: interrupted")


class Output:
    def __init__(self, error):
        self.error = error

    def flush(self):
        raise self.error


def test_output_that_cannot_leave(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_silence", lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Output(OSError(28, "No space left on device")))
        assert cli._flushed(0) == 1
        patched.setattr(sys, "stdout", Output(BrokenPipeError()))
        assert cli._flushed(1) == 0
    assert "the output was not written: No space left" in capsys.readouterr().err


class Free(Config):
    number: float = 0.0
    options: dict = {}


@pytest.mark.parametrize("override", ["number=.inf", "number=.nan", "options.a=.inf", "number=2020-13-45"])
def test_a_setting_without_a_json_form_is_refused(override):
    with pytest.raises(ConfigError):
        load_config(Free, None, [override])


@pytest.mark.parametrize("text", ["number: 2020-99-99", "number: " + "[" * 5000, "number: \x01"])
def test_yaml_that_cannot_be_read_names_the_file(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"c\.yaml"):
        load_config(Free, path)


WHOLE = {
    "store file": {"store_id": "x"},
    "plan": {"run_id": "r", "phase": "collect", "policy_hash": None, "config_hash": "c", "units": [{"unit_id": "u"}]},
    "commit": {"files": {"nodes": {"path": "p", "rows": 1, "bytes": 2, "sha256": "s"}}},
    "seal": {"shards": ["s"], "missing": [], "partial": False, "content_hash": "c"}
    | {"tables": {"nodes": {"rows": 1, "files": [{"path": "p", "rows": 1, "bytes": 2, "sha256": "s"}]}}},
    "snapshot": {"directories": {"e000000": "s"}, "hashes": {"policy_hash": None}},
}


@pytest.mark.parametrize("kind", SHAPES)
def test_a_document_without_a_key_is_named(tmp_path, kind):
    path = tmp_path / "d.json"
    assert require_shape(WHOLE[kind], path, kind=kind) == WHOLE[kind]
    for key in SHAPES[kind]:
        for body in ({k: v for k, v in WHOLE[kind].items() if k != key}, {**WHOLE[kind], key: 5}):
            with pytest.raises(StoreError, match=rf"d\.json is damaged: {key} must be"):
                require_shape(body, path, kind=kind)


def test_a_deep_fault_is_named(tmp_path):
    plan = {**WHOLE["plan"], "units": [{"unit_id": "u"}, {"id": 3}]}
    with pytest.raises(StoreError, match=r"units\[1\]\.unit_id must be there"):
        require_shape(plan, tmp_path, kind="plan")
    commit = json.loads(json.dumps(WHOLE["commit"]).replace("rows", "row"))
    with pytest.raises(StoreError, match=r"files\.nodes\.rows must be there"):
        require_shape(commit, tmp_path, kind="commit")


def test_bottomless_json_is_damage(tmp_path):
    path = tmp_path / "seal.json"
    path.write_text("[" * 100_000)
    with pytest.raises(StoreError, match="cannot be read"):
        read_document(path, kind="seal", hint="")
