"""Crossing writers and scorers on the shipped store with scripted policies: who is asked, and what is kept."""

import json
import shutil
from pathlib import Path

import pytest

from collect import cross as module
from collect.cross import run_cross
from sera_data.cli import main
from sera_data.errors import ConfigError

ORACLE = "scripted:delegating_oracle"
CONFIG = f"""writers: {{rule: "{ORACLE}", stored: stored, global: global}}
scorers: {{rule: "{ORACLE}"}}
delegations: 2
"""


@pytest.fixture
def store(tmp_path):
    shutil.copytree("examples/store", tmp_path / "store")
    (tmp_path / "cross.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path / "store"


def test_every_writer_and_control_scores_the_same_branches(store, tmp_path, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*.parquet")}
    lines, about = run_cross(store, tmp_path / "cross.yaml")
    asked = {}
    for line in lines:
        asked.setdefault(line["writer"], []).append((line["node_id"], line["y"]))
    assert list(asked) == ["rule", "stored", "global", "other", "none"]
    assert all(nodes == asked["rule"] for nodes in asked.values())
    assert len({line["delegation_id"] for line in lines}) == 2
    assert 0 < sum(y for _, y in asked["rule"]) < len(asked["rule"]) == about["probes"]
    assert any(line["score"] is not None for line in lines if line["writer"] == "rule")
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*.parquet")} == before
    kept = (tmp_path / "store-cross.jsonl").read_text(encoding="utf-8")
    monkeypatch.setattr(module, "write_rubric", lambda *_: pytest.fail("asked again"))
    monkeypatch.setattr(module, "score_node", lambda *_: pytest.fail("asked again"))
    again, _ = run_cross(store, tmp_path / "cross.yaml")
    assert again == lines
    assert (tmp_path / "store-cross.jsonl").read_text(encoding="utf-8") == kept


@pytest.mark.slow
def test_a_stopped_crossing_continues_where_it_was(store, tmp_path):
    whole, _ = run_cross(store, tmp_path / "cross.yaml")
    kept = (tmp_path / "store-cross.jsonl").read_text(encoding="utf-8").splitlines()
    half = "\n".join(kept[: len(kept) // 2]) + "\n" + kept[len(kept) // 2][:20]
    (tmp_path / "store-cross.jsonl").write_text(half + "\n", encoding="utf-8")
    again, _ = run_cross(store, tmp_path / "cross.yaml")
    name = ("writer", "scorer", "node_id")
    assert sorted(again, key=lambda line: [line[n] for n in name]) == sorted(
        whole, key=lambda line: [line[n] for n in name]
    )


@pytest.mark.slow
def test_the_command_shows_the_table(store, tmp_path, capsys):
    command = ["audit", str(store), "--cross", str(tmp_path / "cross.yaml"), "--reps", "50", "--json"]
    assert main(command) == 0
    body = json.loads(capsys.readouterr().out)
    assert [c["writer"] for c in body["combinations"]] == ["rule", "stored", "global", "other", "none"]
    rule, none = body["combinations"][0], body["combinations"][-1]
    assert rule["pair_accuracy"] > 0.9
    assert none["against_first"] == pytest.approx(none["pair_accuracy"] - rule["pair_accuracy"])
    page = tmp_path / "page.html"
    assert main([*command[:-1], "--html", str(page), "--gates", "none"]) == 0
    said = capsys.readouterr().out
    assert "Writers x scorers" in said
    assert str(page) in said
    text = page.read_text(encoding="utf-8")
    assert "Is it the writer or the scorer?" in text
    assert text.index("rule × rule") < text.index("none × rule")
    assert f"{100 * rule['pair_accuracy']:.1f}\u00a0%" in text


def test_wrong_configurations_are_refused(store, tmp_path):
    bad = Path(tmp_path / "bad.yaml")
    bad.write_text("writers: {other: stored}\nscorers: {rule: scripted:flat_oracle}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="that is a control"):
        run_cross(store, bad)
    bad.write_text("writers: {}\nscorers: {}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="at least one each"):
        run_cross(store, bad)
