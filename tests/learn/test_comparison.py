"""Comparisons: cells and commands from the config, resuming, what may be added, labels read, and the tables."""

import json
import re
from pathlib import Path

import pytest
import yaml

import sera_data
from learn.compare_config import CompareConfig
from learn.comparison import Cell, cells, finished, open_comparison, play_cell, read_cell, steps
from learn.comparison_figures import Figures, labels_read, read_figures
from learn.comparison_page import page, write_report
from learn.comparison_table import compare_body, markdown, tables
from learn.method import open_method
from learn.power import power_table
from sera_data.config import checked
from sera_data.errors import ConfigError

BODY = {
    "name": "small",
    "loop": "loop.yaml",
    "rows": {"rao": {"method": "rao"}, "sera": {"method": "sera", "set": ["learn.optimizer.lr=1e-5"]}},
    "seeds": [1, 2],
    "tasks": "held_out.jsonl",
    "protocols": {"t1": {"samples": 2}, "cool": {"samples": 1, "temperature": 0.5, "rows": ["start"]}},
    "contrasts": [{"name": "sera helps", "better": "sera", "worse": "rao"}],
}


def config(tmp_path, **changes):
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump({"policy": "pocket"}))
    return checked(CompareConfig, {**BODY, "loop": str(tmp_path / "loop.yaml"), **changes})


def test_cells_come_seed_by_seed_after_the_start(tmp_path):
    names = [cell.name for cell in cells(config(tmp_path))]
    assert names == ["start", "rao.s1", "sera.s1", "rao.s2", "sera.s2"]


def test_commands_of_a_cell(tmp_path):
    found = dict(steps(config(tmp_path), Cell("sera", 2), tmp_path, policy="DIR"))
    assert list(found) == ["train", "eval t1"]
    train = list(map(str, found["train"]))
    assert train[0] == "loop"
    assert [a for a, b in zip(train[1:], train, strict=False) if b == "--set"] == [
        "seed=2", "learn.method=sera", "learn.optimizer.lr=1e-5"
    ]  # fmt: skip
    assert "--samples 2 --temperature 1.0 --protocol t1" in " ".join(map(str, found["eval t1"]))
    assert list(dict(steps(config(tmp_path), Cell("start", None), tmp_path, policy="pocket"))) == [
        "eval t1", "eval cool"
    ]  # fmt: skip


def test_from_a_snapshot_a_cell_is_one_learn_phase(tmp_path):
    found = dict(steps(config(tmp_path, snapshot={"store": "S", "epoch": 3}), Cell("sera", 1), tmp_path, policy="P"))
    text = " ".join(map(str, found["train"]))
    assert "--store S" in text
    assert "--from pocket --epoch 3" in text
    assert "--set method=sera --set optimizer.lr=1e-5" in text


def test_a_cell_goes_on_where_it_was_killed(tmp_path):
    known, played = config(tmp_path), []

    def run(command):
        played.append(str(command[0]))
        if len(played) == 2:
            raise KeyboardInterrupt
        return {"policy": "runs/v4"} if command[0] == "loop" else {"success": 1.0}

    with pytest.raises(KeyboardInterrupt):
        play_cell(known, Cell("rao", 1), tmp_path, run=run)
    assert list(read_cell(tmp_path, Cell("rao", 1))) == ["train"]
    assert not finished(known, Cell("rao", 1), tmp_path)
    done = play_cell(known, Cell("rao", 1), tmp_path, run=run)
    assert played == ["loop", "eval", "eval"]
    assert done["train"]["policy"] == "runs/v4"
    assert finished(known, Cell("rao", 1), tmp_path)


def test_a_snapshot_cell_leaves_open_what_the_loop_config_leaves_open(tmp_path):
    known = config(tmp_path, snapshot={"store": "S"})
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump({"policy": "pocket", "learn": {"updates_per_collect": 3}}))
    play_cell(known, Cell("rao", 1), tmp_path, run=lambda command: {"policy": "runs/v1"})
    assert yaml.safe_load((tmp_path / "rao.s1" / "learn.yaml").read_text()) == {"updates_per_collect": 3}


def test_evaluations_use_the_policy_that_was_trained(tmp_path):
    seen = []

    def run(command):
        seen.append(list(map(str, command)))
        return {"policy": "runs/v4"}

    play_cell(config(tmp_path), Cell("rao", 1), tmp_path, run=run)
    assert seen[1][seen[1].index("--policy") + 1] == "runs/v4"


def test_rows_and_seeds_may_be_added_and_claims_not_changed(tmp_path):
    out = tmp_path / "out"
    open_comparison(config(tmp_path), out)
    open_comparison(config(tmp_path, seeds=[1, 2, 3]), out)
    open_comparison(config(tmp_path, seeds=[1, 2, 3], rows={**BODY["rows"], "sft": {"method": "rao"}}), out)
    grown = {"seeds": [1, 2, 3], "rows": {**BODY["rows"], "sft": {"method": "rao"}}}
    with pytest.raises(ConfigError, match="different here: contrasts"):
        open_comparison(config(tmp_path, **grown, contrasts=[]), out)
    with pytest.raises(ConfigError, match="different here: seeds"):
        open_comparison(config(tmp_path, **{**grown, "seeds": [1]}), out)
    with pytest.raises(ConfigError, match="different here: rows"):
        open_comparison(config(tmp_path, seeds=[1, 2, 3]), out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": {"start": {"method": "rao"}}}, "start"),
        ({"rows": {}}, "got none"),
        ({"seeds": [1, 1]}, "distinct"),
        ({"contrasts": [{"name": "x", "better": "sera", "worse": "nobody"}]}, "nobody"),
        ({"contrasts": [{"name": "x", "better": "sera", "worse": "rao", "measure": "hinge"}]}, "no probe"),
        ({"contrasts": [{"name": "x", "better": "sera", "worse": "rao", "protocol": "cool"}]}, "does not measure"),
        ({"protocols": {"t1": {"rows": ["nobody"]}}}, "nobody"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **change)


@pytest.mark.parametrize(
    ("method", "reads"),
    [
        ("rao", [("execution", "path")]),
        ("rubric_reward", [("execution", "roots")]),
        ("rubric_reward_training", [("execution", "roots"), ("rubric", "branches")]),
        ("sera", [("delegation", "roots"), ("execution", "roots"), ("rubric", "branches")]),
    ],
)
def test_labels_that_a_method_reads(method, reads):
    assert labels_read(open_method(method)) == reads


def figures():
    made = Figures()
    made.success = {
        "t1": {
            "start": {0: {"a": 0.0, "b": 0.5}},
            "rao": {1: {"a": 0.5, "b": 0.5}},
            "sera": {1: {"a": 1.0, "b": 0.5}, 2: {"a": 1.0, "b": 1.0}},
        }
    }
    made.success_at = made.success
    made.spent = {"rao": {1: {"labels": 10.0, "tokens": 5e4, "turns": 9.0, "updates": 4.0, "minutes": 1.5}}}
    made.curves = [
        {"row": "rao", "seed": 1, "epoch": e, "success": e / 2, "labels": e, "tokens": e, "turns": e, "updates": e,
         "updates_before": e, "minutes": e}
        for e in range(2)
    ]  # fmt: skip
    return made


def test_tables_say_with_how_many_seeds(tmp_path):
    body = compare_body(config(tmp_path, resamples=200), figures())
    text = markdown(tables(body))
    assert "| start weights | - | 25.0 |" in text
    assert re.search(r"\| rao \| 1 \| 50\.0 \| \+25\.0 \[", text)
    assert re.search(r"\| sera \| 2 \| 87\.5 \| \+62\.5 \[", text)
    assert re.search(r"\| sera helps \| \+37\.5 \[.*\] \| 2 of 2 \|", text)
    assert "| rao | 10.0 | 50,000 | 9.0 | 4.0 | 1.5 |" in text
    json.dumps(body)


def test_a_claim_may_set_training_against_a_lower_temperature(tmp_path):
    claim = {"name": "more than cooling", "better": "sera", "worse": "start", "worse_protocol": "cool"}
    found = figures()
    found.success["cool"] = {"start": {0: {"a": 1.0, "b": 0.5}}}
    body = compare_body(config(tmp_path, resamples=200, contrasts=[claim]), found)
    assert body["contrasts"][0]["difference"]["value"] == pytest.approx(0.125)  # (1.0 + 0.5 + 1.0 + 1.0) / 4 - 0.75
    with pytest.raises(ConfigError, match="does not measure"):
        config(tmp_path, contrasts=[{**claim, "worse": "rao"}])
    with pytest.raises(ConfigError, match="'cold'; allowed: cool, t1"):
        config(tmp_path, contrasts=[{**claim, "worse_protocol": "cold"}])


def test_what_a_loop_spent_is_read_from_its_store(tmp_path):
    home = tmp_path / "out" / "rao.s1"
    (home / "loop").mkdir(parents=True)
    (home / "loop" / "store").symlink_to(Path(__file__).parents[2] / "examples" / "store")
    (home / "cell.json").write_text('{"train": {"policy": "P"}}')
    known = config(tmp_path, contrasts=[])
    body = json.loads(json.dumps(compare_body(known, read_figures(known, tmp_path / "out"))))
    first, second = body["curves"]
    assert (first["updates_before"], first["updates"], second["updates"]) == (0, 4, 8)
    assert 0 < first["labels"] < second["labels"]
    with sera_data.open(home / "loop" / "store").connect() as connection:
        turns = connection.sql("select count(*) from turns where kind = 'act'").fetchall()
    assert second["turns"] == turns[0][0]


def test_an_empty_comparison_has_tables_of_dashes(tmp_path):
    body = compare_body(config(tmp_path), Figures())
    assert "| sera helps | - | - | - | - |" in markdown(tables(body))
    assert "2 seeds are planned" in page(body, tables(body))


def test_a_protocol_of_some_rows_has_a_table_of_these_alone(tmp_path):
    body = compare_body(config(tmp_path, protocols={"t1": {}, "cool": {"rows": ["start"]}}, contrasts=[]), figures())
    by_title = {title: rows for title, _, rows in tables(body)}
    assert [row[0] for row in by_title["Success: t1"]] == ["start weights", "rao", "sera"]
    assert [row[0] for row in by_title["Success: cool"]] == ["start weights"]


def test_the_page_loads_nothing(tmp_path):
    body = compare_body(config(tmp_path, resamples=200, name="small"), figures())
    path = write_report(body, tmp_path)
    text = path.read_text()
    assert text.count("<svg") == 5
    assert not re.search(r'(src|href)="http', text)
    assert Path(tmp_path / "compare.md").read_text().startswith("# small")


def test_power_falls_with_seeds_and_uses_what_is_measured(tmp_path):
    body = power_table(config(tmp_path), Figures(), tasks=400)
    effects = [row["smallest_effect"] for row in body["rows"]]
    assert effects == sorted(effects, reverse=True)
    assert body["spreads"]["source"] == "the rest assumed"
    measured = power_table(config(tmp_path), figures(), tasks=400)
    assert "between seeds from 1 methods" in measured["spreads"]["source"]
    assert measured["spreads"]["within"] == pytest.approx(0.25)
