"""Every number of every configuration has a range: no setting takes NaN, infinity or a number that no column holds."""

from typing import get_args, get_origin

import pytest

from analysis.gates import GateFile
from collect.config import CollectConfig
from collect.label_config import LabelConfig
from collect.textcraft_tasks import PoolParams, PublishedParams
from collect.textworld_tasks import TextWorldParams
from learn.config import LearnConfig, LoopConfig
from sera_data.config import Config, checked
from sera_data.errors import ConfigError

GIVEN = {LabelConfig: {"labeller": "rule:finish"}, CollectConfig: {"judge": {"spec": "rule:finish"}}}
MODELS = (CollectConfig, LearnConfig, LoopConfig, LabelConfig, PoolParams, PublishedParams, TextWorldParams)
WRONG = (float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 10**30, 1e19, True)


def numeric(annotation):
    """Whether a field holds numbers: `scalar`, `tuple`, `dict`, or None."""
    if annotation in (int, float):
        return "scalar"
    inner = [numeric(option) for option in get_args(annotation)]
    if get_origin(annotation) in (tuple, dict):
        return get_origin(annotation).__name__ if inner[-1] or inner[0] else None
    return next((kind for kind in inner if kind), None)


def group(annotation):
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return annotation
    return next((found for option in get_args(annotation) if (found := group(option))), None)


def leaves(model, path=()):
    for name, field in model.model_fields.items():
        if (inner := group(field.annotation)) and name != "tasks":
            yield from leaves(inner, (*path, name))
        elif kind := numeric(field.annotation):
            yield (*path, name), kind


def wrapped(value, kind, name):
    if kind == "dict":
        return {"rubric" if name == "stage_scale" else 1: value}
    return [value, value] if kind == "tuple" else value


def merged(base, path, value):
    if not path:
        return value
    return {**base, path[0]: merged(base.get(path[0], {}), path[1:], value)}


@pytest.mark.parametrize("model", MODELS)
def test_no_setting_takes_a_number_without_sense(model):
    found = list(leaves(model))
    assert found
    bodies = {
        (path, value): merged(GIVEN.get(model, {}), path, wrapped(value, kind, path[-1]))
        for path, kind in found
        for value in WRONG
    }
    assert [key for key, body in bodies.items() if takes(model, body)] == []


def takes(model, body):
    try:
        checked(model, body)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("value", [1e-300, -1.0, 101.0])
def test_temperatures_that_overflow_are_refused(value):
    for role in ("act", "writer", "scorer"):
        with pytest.raises(ConfigError, match="temperature"):
            checked(CollectConfig, {"sampling": {role: {"temperature": value}}})
    with pytest.raises(ConfigError, match="temperature"):
        checked(LearnConfig, {"loss": {"temperature": value}})


def test_thresholds_of_gates_are_finite():
    rule = {"metric": "pair_acc", "side": "below", "warn": 0.5}
    assert checked(GateFile, {"gates": [rule]}).gates[0].warn == 0.5
    with pytest.raises(ConfigError, match="finite"):
        checked(GateFile, {"gates": [{**rule, "fail": float("nan")}]})
