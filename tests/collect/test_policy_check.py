"""The check of an engine against the trainer's forward pass: figures, chains, and the command."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from collect.policy_check import chains, compare
from collect.policy_cli import app
from sera_data.errors import GateFailed


def test_figures_of_known_differences():
    engine = np.log([0.5, 0.25, 0.01])
    trainer = np.log([0.5, 0.5, 0.06])
    report = compare(engine, trainer, trees=1)
    assert report.mismatch_max == pytest.approx(math.log(6))
    assert report.mismatch_mean == pytest.approx((math.log(2) + math.log(6)) / 3)
    assert (report.ratio_mean, report.ratio_min, report.ratio_max) == pytest.approx((3, 1, 6))
    assert report.clip_share == pytest.approx(1 / 3)
    assert report.kl == pytest.approx((1 - math.log(2) + 5 - math.log(6)) / 3)


def row(turn_id, prompt, completion, base=None, **changes):
    logprobs = [-float(i) for i in completion]
    made = {"turn_id": turn_id, "kind": "act", "trainable": True, "base_turn": base, "prompt_ids": prompt}
    return made | {"completion_ids": completion, "logprobs": logprobs} | changes


def test_turns_that_extend_each_other_are_one_sequence():
    rows = [
        row("a", [1, 2], [3]),
        row("x", [8], [9], kind="score"),
        row("b", [4], [5, 6], base="a"),
        row("c", [1], [7]),
        row("d", [1], [7], trainable=False),
    ]
    sequences, logprobs = chains(rows)
    assert sequences == [([1, 2, 3, 4, 5, 6], [2, 4, 5]), ([1, 7], [1])]
    assert [values.tolist() for values in logprobs] == [[-3, -5, -6], [-7]]


def test_the_command_compares_the_embedded_engine_with_the_learner():
    settings = ["--set", "budgets.turns=3", "--set", "sampling.act={temperature: 0.7, max_tokens: 32}"]
    command = ["check", "pocket", "--engine", "transformers", "--trees", "2", "--json", *settings]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    report = json.loads(done.stdout)
    assert report["holds"]
    assert report["tokens"] > 20
    assert report["mismatch_max"] < 1e-4  # the temperature and the mask of the policy are on both sides
    with pytest.raises(GateFailed, match="engine and trainer disagree"):
        CliRunner().invoke(app, [*command, "--bound", "0"], catch_exceptions=False)
