import pytest

import sera_data as sd
from sera_data.errors import StoreError
from tests.sera_data.small_store import CONFIG_HASH, POLICY_HASH, small_store, task_id, unit_rows, write_unit

UNITS = [{"unit_id": "u0000", "purpose": "execution"}, {"unit_id": "u0001", "purpose": "rubric"}]


def claim(store, run="a-1", config=CONFIG_HASH, policy=POLICY_HASH, units=UNITS):
    return sd.claim_plan(store, run_id=run, phase="collect", policy_hash=policy, config_hash=config, units=units)


def test_a_restart_finds_its_own_plan_and_another_run_the_next_epoch(place):
    store = sd.create(place / "s")
    first, again, other = claim(store), claim(store), claim(store, run="b-1")
    assert (first.name, again.name, other.name) == ("e000000", "e000000", "e000001")
    assert first.unit_ids == ("u0000", "u0001")
    assert first.units[1]["purpose"] == "rubric"
    assert first.shard_id("u0001") == "e000000.u0001"
    assert first.committed() == set()


def test_a_sealed_plan_is_not_claimed_again(place):
    store = small_store(place / "s", tasks=1, samples=1, k=2)
    plan = sd.read_plan(store, "e000000")
    assert plan.sealed()
    assert plan.committed() == {"u0000"}
    assert claim(store).name == "e000001"


def test_two_policies_never_share_an_epoch(place):
    store = sd.create(place / "s")
    claim(store)
    with pytest.raises(StoreError, match="two policies must not share an epoch"):
        claim(store, policy="f" * 64)


def test_additions_count_from_one_and_need_their_epoch(place):
    store = sd.create(place / "s")
    keys = {"phase": "learn", "config_hash": CONFIG_HASH, "units": UNITS[:1]}
    with pytest.raises(StoreError, match="has no epoch 0"):
        sd.claim_addition(store, 0, run_id="a-1", **keys)
    claim(store)
    first = sd.claim_addition(store, 0, run_id="a-1", **keys)
    again = sd.claim_addition(store, 0, run_id="a-1", **keys)
    other = sd.claim_addition(store, 0, run_id="b-1", **keys)
    assert (first.name, first.epoch, first.addition) == ("e000000.a001", 0, 1)
    assert (again.name, other.name) == ("e000000.a001", "e000000.a002")
    assert first.shard_id("u0000") == "e000000.a001.u0000"
    assert claim(store, run="c-1").name == "e000001"


@pytest.mark.parametrize(
    "units, fault",
    [
        ([], "at least one unit"),
        ([{"unit_id": "u0"}, {"unit_id": "u0"}], "distinct unit ids"),
        ([{"unit_id": "../x"}], "must be 1 to 64 letters"),
        ([{"purpose": "execution"}], "unit id"),
    ],
)
def test_bad_units_are_refused(place, units, fault):
    with pytest.raises(StoreError, match=fault):
        claim(sd.create(place / "s"), units=units)


def test_an_unknown_phase_is_refused(place):
    store = sd.create(place / "s")
    with pytest.raises(StoreError, match="phase 'colect' is not one of collect"):
        sd.claim_plan(store, run_id="a", phase="colect", config_hash="c", units=UNITS)


def test_a_unit_outside_its_plan_is_refused(place):
    store = sd.create(place / "s")
    with pytest.raises(StoreError, match="has no unit 'u0009'"):
        sd.ShardWriter(store, claim(store), "u0009")


def test_a_damaged_plan_names_its_file(place):
    store = sd.create(place / "s")
    claim(store)
    store.layout.plan_file("e000000").write_bytes(b'{"run_id"')
    with pytest.raises(StoreError, match=r"plan .*e000000\.json cannot be read"):
        sd.read_plan(store, "e000000")
    with pytest.raises(StoreError, match="not a plan name"):
        sd.read_plan(store, "epoch3")


def test_committed_units_are_listed(place):
    store = sd.create(place / "s")
    plan = claim(store)
    write_unit(store, plan, "u0001", unit_rows(task_id(0), samples=1, k=2, run_id="a-1"))
    assert plan.committed() == {"u0001"}
