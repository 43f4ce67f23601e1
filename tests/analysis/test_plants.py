"""Plants x sections: one fault in otherwise calibrated scores is found by the section that should find it and no other.

Scores are simulated so that everything is right (tests/analysis/simulated_store.sql); a plant spoils one thing.
"""

import sys
from pathlib import Path

import pytest

from analysis import measure
from analysis.audit import measured
from analysis.sections import SECTIONS

sys.path.insert(0, str(Path(__file__).parent))
from simulated_store import PLANTS, connection

FOUND_BY = {
    "late rubric": {"coverage"},
    "ties": {"ranking"},
    "inflation": {"bias"},
    "timid": {"curve"},
    "lottery": {"proper"},
    "easy tasks": {"rank"},
    "slice": {"slices"},
    "drift": {"drift"},
    "coin judge": {"agreement"},
    "constant item": {"items"},
    "leak": {"cheating"},
    "length": {"cheating"},
}
BY_METRIC = {"leak": {"label_leak"}, "length": {"length_partial"}}  # one section, told apart
CLEAN_STORES = 20
FAST = ("inflation", "leak", "slice")  # the other plants with the slow tests


def alarms(*, reps, **options):
    """Keys of the sections whose gates warn or fail, and the metrics of those gates."""
    con = connection(**options)
    measure.prepare(con, reps=reps)
    found = measured(con, margin=measure.MARGIN)
    con.close()
    gates = [gate for gate in found["gates"] if gate.status in ("warn", "fail")]
    assert {s.key for s in found["sections"] if s.status in ("warn", "fail")} == {gate.section for gate in gates}
    return {gate.section for gate in gates}, {gate.metric for gate in gates}, len(found["gates"])


@pytest.mark.parametrize("plant", [p if p in FAST else pytest.param(p, marks=pytest.mark.slow) for p in PLANTS])
def test_a_plant_is_found_by_its_section_and_no_other(plant):
    sections, metrics, _ = alarms(plant=plant, reps=60)
    assert sections == FOUND_BY[plant], metrics
    assert metrics == BY_METRIC.get(plant, metrics)


def test_every_plant_has_its_place_in_the_table():
    assert set(FOUND_BY) == set(PLANTS)
    assert set().union(*FOUND_BY.values()) <= {section.key for section in SECTIONS}


@pytest.mark.slow
def test_clean_stores_raise_at_most_one_false_alarm_in_twenty():
    found = [alarms(seed=100 + seed, reps=60) for seed in range(CLEAN_STORES)]
    false = sum(bool(sections) for sections, _, _ in found)
    judged = sum(gates for _, _, gates in found)
    assert false <= 0.05 * CLEAN_STORES, [metrics for _, metrics, _ in found if metrics]
    assert judged > 20 * CLEAN_STORES
