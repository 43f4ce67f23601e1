"""Method files: every row of the paper is there, a file says only what it changes, and faults are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from collect.config import CollectConfig
from learn.config import LoopConfig
from learn.loop import Loop
from learn.method import METHODS, open_method, rule_set, shipped
from sera_data.cli import main
from sera_data.errors import ConfigError

ROWS = {
    "rao": "RAO", "rao_delegation": "RAO + D", "rao_rubric": "RAO + RT", "rubric_reward": "SERA w/o D & RT",
    "rubric_reward_training": "SERA w/o D", "sera": "SERA", "external_writer": "Kimi / Policy",
    "external_scorer": "Kimi / Kimi", "global_rubric": "Policy (global) / Policy", "rank_disc": "Rank + Disc",
    "single_cispo": "single agent + CISPO", "single_grpo": "single agent + GRPO",
}  # fmt: skip
OURS = {
    "sera_branch", "scorer_training", "alternate", "frozen_scorer", "direct", "brier_rubric", "joint", "sera_k2",
    "sera_k4", "sera_k8", "rao_matched", "rao_shuffled", "sera_shuffled", "rao_coin_flip", "sera_coin_flip",
    "sft",
}  # fmt: skip
SCHEDULES = {
    "rao": "execution:1", "rao_delegation": "execution:12,delegation:4", "rao_rubric": "execution:16,rubric:2",
    "rubric_reward": "execution:1", "rubric_reward_training": "execution:16,rubric:2",
    "sera": "execution:16,delegation:2,rubric:2", "rank_disc": "execution:16,rubric:2",
}  # fmt: skip


def params(name: str, credit: str) -> dict:
    return next(dict(rule.params) for rule in open_method(name).rules if rule.path.stem == credit)


def test_every_row_of_the_paper_and_every_other_method_is_there():
    methods = {name: open_method(name) for name in shipped()}
    assert {name: m.paper for name, m in methods.items() if m.paper} == ROWS
    assert set(methods) == set(ROWS) | OURS
    assert {name: str(methods[name].schedule) for name in SCHEDULES} == SCHEDULES
    assert all(m.name == name and m.title for name, m in methods.items())


def test_the_published_switches():
    assert params("sera", "execution")["reward"] == "rubric"
    assert params("rao", "execution")["reward"] == "verdict"
    assert (params("rao", "execution")["lambda"], params("sera", "rubric")["margin"]) == (0.0, 0.2)
    disc = params("rank_disc", "rubric")
    assert (disc["objective"], disc["order_weight"], disc["spread"]) == ("rank_disc", 0.5, 2.0)
    assert params("sera_k4", "rubric")["k"] == params("sera_k4", "execution")["k"] == 4.0
    assert open_method("rao_rubric").needs.rubrics == ("rubric",)
    assert open_method("external_scorer").needs.model_dump(include={"writer", "scorer"}) == {
        "writer": "external", "scorer": "external",
    }  # fmt: skip


def test_recommended_rules_change_what_their_file_says_and_nothing_else():
    changes = yaml.safe_load((METHODS.parent / "rules" / "recommended.yaml").read_text())
    for credit, reference in rule_set("reference").credits.items():
        assert rule_set("recommended").credits[credit] == {**reference, **changes["credits"].get(credit, {})}
    assert open_method("sera:recommended").name == "sera:recommended"
    assert open_method("sera:reference") == open_method("sera")
    assert dict(open_method("rank_disc:recommended").rules[-1].params)["objective"] == "rank_disc"
    assert open_method("sera:recommended").depth_weights.cap == 4.0
    assert open_method("single_grpo:recommended").depth_weights.rule == "none"


@pytest.mark.parametrize("text, fault", [
    ("base: serra", "base 'serra' is not another shipped method; allowed: alternate"),
    ("base: sera\nstages: {rubric: {params: {marjin: 1}}}", "credit 'rubric' has no parameter 'marjin'; it has: base"),
    ("base: sera\nstages: {rubric: {params: {objective: best}}}", "objective='best' of credit rule 'rubric': allowed"),
    ("base: sera\nstages: {rubric: null}", "names 'rubric', which has no credit"),
    ("schedule: execution:1\nstages: {execution: {params: {k: 2}}}", "stage 'execution' names no credit"),
    ("base: sera\nrules: best", "rules"), ("base: sera\nneeds: {writer: nobody}", "needs.writer"),
])  # fmt: skip
def test_faults_of_a_method_file_are_named(tmp_path, text, fault):
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: mine\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        open_method(path)
    assert fault in str(caught.value)


def test_a_users_file_says_what_it_changes(tmp_path):
    path = tmp_path / "mine.yaml"
    stages = "{rubric: {params: {margin: 0.1}}, delegation: null}"
    path.write_text(f"name: mine\nbase: sera\nrules: recommended\nstages: {stages}\n")
    with pytest.raises(ConfigError, match="names 'delegation', which has no credit"):
        open_method(path)
    path.write_text(path.read_text() + "schedule: execution:8,rubric:1\n")
    method = open_method(path)
    assert (method.name, method.stages, method.paper) == ("mine:recommended", ("execution", "rubric"), "")
    assert dict(method.rules[1].params) == {**rule_set("recommended").credits["rubric"], "margin": 0.1}
    assert open_method(f"{path}:reference").name == "mine"


def test_methods_are_listed_and_shown(capsys):
    assert main(["methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in listed] == list(shipped())
    assert main(["credit", "--method", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(shipped()) + 1
    assert any(line.split()[0] == "sera" and "[SERA]" in line for line in lines)
    assert main(["methods", "sera_k4:recommended"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["collect"] == "--set rubric.for=[execution,rubric] --set delegation.k=4"
    assert shown["stages"][2]["params"]["invalid"] == "penalty"
    assert main(["credit"]) == 2
    assert "no store given" in capsys.readouterr().err


def test_a_loop_collects_what_its_method_needs(tmp_path):
    config = LoopConfig(learn={"method": "sera_k4"})
    Loop(config, tmp_path / "run").open()
    written = yaml.safe_load((tmp_path / "run" / "collect.yaml").read_text())
    assert (written["delegation"]["k"], written["rubric"]["for"]) == (4, ["execution", "rubric"])
    assert CollectConfig(**written).delegation.k == 4
    against = LoopConfig(learn={"method": "sera_k4"}, collect={"delegation": {"k": 8}})
    with pytest.raises(ConfigError, match=r"needs delegation.k=4, the config says 8"):
        Loop(against, tmp_path / "other").open()
    grpo = LoopConfig(learn={"method": "single_grpo"})
    Loop(grpo, tmp_path / "third").open()  # a method brings its loss where the config says nothing
    trained = yaml.safe_load((tmp_path / "third" / "learn.yaml").read_text())
    assert (trained["loss"]["kind"], trained["loss"]["ratio_max"]) == ("grpo", 1.2)
    stated = LoopConfig(learn={"method": "single_grpo", "loss": {"kind": "cispo"}})
    with pytest.raises(ConfigError, match=r"is trained with loss.kind=grpo"):
        Loop(stated, tmp_path / "fourth").open()
    assert not Path(tmp_path / "fourth" / "collect.yaml").exists()
