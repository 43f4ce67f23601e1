"""Whatever moment a process dies or the disk fails: the store shows the old state or the new one, never one between."""

import errno
import gc
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sera_data as sd
from schemas import TABLES
from sera_data.errors import StoreError
from tests.sera_data.crash import Crash, FailingDisk
from tests.sera_data.small_store import CONFIG_HASH, RUN, task_id, unit_rows, write_unit

ROWS = {unit: unit_rows(task_id(i), samples=1, k=2) for i, unit in enumerate(("u0000", "u0001"))}
SETTINGS = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)


def full_disk():
    return OSError(errno.ENOSPC, "No space left on device")


def planned(path):
    store = sd.create(path)
    units = [{"unit_id": unit} for unit in ROWS]
    return store, sd.claim_plan(store, run_id=RUN, phase="collect", config_hash=CONFIG_HASH, units=units)


def counts(path):
    """Rows per table as a new process sees them."""
    store = sd.open(path)
    return {name: store.table(name).arrow([TABLES[name].key[0]]).num_rows for name in TABLES}


def run(action, at=None, fault=Crash):
    """Do `action` on a disk that fails at call `at`; returns (calls counted, what was raised)."""
    with pytest.MonkeyPatch.context() as patch:
        disk = FailingDisk(patch, at=at, fault=fault)
        try:
            action()
        except (Crash, StoreError) as error:
            gc.collect()  # writers that the crash left half done are closed on the dead disk, as by a kill
            return disk.calls, error
    return disk.calls, None


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Three stores to start from: planned, with the first unit committed, with both."""
    root = tmp_path_factory.mktemp("crash")
    store, plan = planned(root / "one")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    shutil.copytree(root / "one", root / "two")
    write_unit(sd.open(root / "two"), sd.read_plan(sd.open(root / "two"), plan.name), "u0001", ROWS["u0001"])
    return root


@pytest.fixture(scope="module")
def rows(template):
    """What a new process sees in the stores with one unit and with both; every copy of them begins so."""
    return {name: counts(template / name) for name in ("one", "two")}


def commit(path):
    store = sd.open(path)
    return write_unit(store, sd.read_plan(store, "e000000"), "u0001", ROWS["u0001"])


def seal(path):
    return sd.seal(sd.open(path), "e000000")


@pytest.fixture(scope="module")
def calls(template):
    """How many disk calls an undisturbed commit and seal make."""
    out = {}
    for name, action, start in (("commit", commit, "one"), ("seal", seal, "two")):
        with tempfile.TemporaryDirectory() as place:
            path = Path(shutil.copytree(template / start, Path(place) / "s"))
            out[name], error = run(lambda path=path, action=action: action(path))
            assert error is None
    return out


def commit_survives(template, rows, fault, at):
    old, new = rows["one"], rows["two"]
    with tempfile.TemporaryDirectory() as place:
        path = Path(shutil.copytree(template / "one", Path(place) / "s"))
        _, error = run(lambda: commit(path), at=at, fault=fault)
        seen = counts(path)
        assert seen in (old, new)
        assert sd.verify(sd.open(path)).problems == ()
        if fault is full_disk and error is not None:
            assert "the disk is full" in str(error)
            assert "nothing was lost" in str(error)
        assert commit(path).already_committed == (seen == new)
        assert counts(path) == new


def seal_survives(template, rows, at):
    before = rows["two"]
    with tempfile.TemporaryDirectory() as place:
        path = Path(shutil.copytree(template / "two", Path(place) / "s"))
        run(lambda: seal(path), at=at)
        store = sd.open(path)
        assert store.sealed_names() in ([], ["e000000"])
        assert counts(path) == before
        assert sd.verify(store).problems == ()
        was_sealed = bool(store.sealed_names())
        assert seal(path).already_sealed == was_sealed
        assert counts(path) == before


def moments(n):
    """Any disk call, or one of the last ones, where the rename happens."""
    return st.one_of(st.integers(1, n), st.integers(max(1, n - 14), n))


@pytest.mark.parametrize("fault", [Crash, full_disk], ids=["crash", "full disk"])
@settings(SETTINGS, max_examples=4)
@given(data=st.data())
def test_a_commit_is_there_whole_or_not_at_all(template, rows, calls, fault, data):
    commit_survives(template, rows, fault, data.draw(moments(calls["commit"])))


@settings(SETTINGS, max_examples=2)
@given(data=st.data())
def test_a_seal_is_there_whole_or_not_at_all(template, rows, calls, data):
    seal_survives(template, rows, data.draw(moments(calls["seal"])))


@pytest.mark.slow
@settings(SETTINGS, max_examples=24)
@given(data=st.data())
def test_many_moments_of_a_commit(template, rows, calls, data):
    commit_survives(template, rows, data.draw(st.sampled_from([Crash, full_disk])), data.draw(moments(calls["commit"])))


@pytest.mark.slow
@settings(SETTINGS, max_examples=12)
@given(data=st.data())
def test_many_moments_of_a_seal(template, rows, calls, data):
    seal_survives(template, rows, data.draw(moments(calls["seal"])))


@pytest.mark.parametrize("at", range(1, 8))
def test_a_plan_is_there_whole_or_not_at_all(tmp_path, at):
    path = sd.create(tmp_path / "s").path
    run(lambda: planned(path), at=at)
    store = sd.open(path)
    names = [p.name for p in store.layout.plans.iterdir()]
    assert names in ([], ["e000000.json"])
    assert planned(path)[1].unit_ids == tuple(ROWS)
    assert [p.name for p in store.layout.plans.iterdir()] == ["e000000.json"]


@pytest.mark.parametrize("at", range(1, 12))
def test_a_store_is_there_whole_or_not_at_all(tmp_path, at):
    run(lambda: sd.create(tmp_path / "s"), at=at)
    assert sd.create(tmp_path / "s").store_id
    assert sd.open(tmp_path / "s").nodes.pl().height == 0


@pytest.fixture(scope="module")
def sealed_path(template):
    """The third store, sealed."""
    path = Path(shutil.copytree(template / "two", template / "sealed"))
    seal(path)
    return path


@pytest.mark.parametrize("fault", [Crash, full_disk], ids=["crash", "full disk"])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_snapshot_is_there_whole_or_not_at_all(sealed_path, tmp_path, at, fault):
    path = Path(shutil.copytree(sealed_path, tmp_path / "s"))
    run(lambda: sd.take_snapshot(sd.open(path), "mine", directories=["e000000"]), at=at, fault=fault)
    assert sd.verify(sd.open(path)).problems == ()
    taken = sd.take_snapshot(sd.open(path), "mine", directories=["e000000"])
    assert [p.name for p in (path / "snapshots").iterdir()] == ["mine.json"]
    assert sd.open(path).connect(snapshot=taken.name).sql("select count(*) > 0 from nodes").fetchall() == [(True,)]


@pytest.mark.parametrize("at", range(1, 8))
def test_gc_that_dies_loses_no_row(sealed_path, tmp_path, at):
    path = Path(shutil.copytree(sealed_path, tmp_path / "s"))
    before = counts(path)
    run(lambda: sd.collect_garbage(sd.open(path), staging_hours=0, sealed_hours=0), at=at)
    assert counts(path) == before
    assert sd.verify(sd.open(path)).problems == ()
    sd.collect_garbage(sd.open(path), staging_hours=0, sealed_hours=0)
    assert (counts(path), sd.open(path).shard_ids()) == (before, [])


def test_gc_clears_what_crashes_leave(template, tmp_path, calls):
    path = Path(shutil.copytree(template / "one", tmp_path / "s"))
    run(lambda: commit(path), at=calls["commit"] // 2)
    store = sd.open(path)
    assert len(list(store.layout.staging.iterdir())) == 1
    assert len(sd.collect_garbage(store, staging_hours=0).staging) == 1
    assert list(store.layout.staging.iterdir()) == []
    assert not commit(path).already_committed


def test_a_full_disk_during_a_seal_loses_nothing(template, tmp_path, calls):
    path = Path(shutil.copytree(template / "two", tmp_path / "s"))
    before = counts(path)
    _, error = run(lambda: seal(path), at=calls["seal"] // 2, fault=full_disk)
    assert "plan e000000 was not sealed: the disk is full" in str(error)
    assert counts(path) == before
    assert not seal(path).already_sealed
