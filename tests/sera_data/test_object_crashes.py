"""A crash between any two changes of a bucket: a commit, a seal or a gc leaves the old state or the new one."""

import pytest

import sera_data as sd
from sera_data.bucket import Bucket
from sera_data.place import ObjectPath
from tests.sera_data.crash import Crash
from tests.sera_data.object_lab import ROWS, counts, keys, planned
from tests.sera_data.object_server import copied
from tests.sera_data.small_store import write_unit

CHANGES = ("upload", "create", "delete")


class FailingBucket:
    """The process dies at the n-th change of the bucket: before the request, or after it with its answer unread."""

    def __init__(self, monkeypatch, *, at=None, after=False):
        self.calls, self.at, self.after, self.dead = 0, at, after, False
        for name in CHANGES:
            monkeypatch.setattr(Bucket, name, self.wrapped(getattr(Bucket, name)))

    def wrapped(self, call):
        def changed(*args):
            if self.dead:
                raise Crash
            self.calls += 1
            self.dead = self.calls == self.at
            if self.dead and not self.after:
                raise Crash
            done = call(*args)
            if self.dead:
                raise Crash
            return done

        return changed


def struck(action, **how):
    with pytest.MonkeyPatch.context() as patch:
        failing = FailingBucket(patch, **how)
        try:
            action()
        except Crash:
            return failing.calls
    return failing.calls


@pytest.fixture(scope="module")
def template(bucket):
    """Stores to start from: one unit of two committed, and both."""
    root = ObjectPath(bucket, "template")
    store, plan = planned(root / "one")
    write_unit(store, plan, "u0000", ROWS["u0000"])
    copied(root / "one", root / "two")
    commit(root / "two")
    return root


def commit(where):
    store = sd.open(where)
    return write_unit(store, sd.read_plan(store, "e000000"), "u0001", ROWS["u0001"])


def seal(where):
    return sd.seal(sd.open(where), "e000000")


COMMIT_CALLS, SEAL_CALLS = 9, 11
MOMENTS = [(at, after) for at in (1, 5, COMMIT_CALLS - 1, COMMIT_CALLS) for after in (False, True)]


@pytest.mark.slow
def test_the_calls_that_a_crash_can_strike_are_known(template, objects):
    copied(template / "one", objects / "s")
    assert struck(lambda: commit(objects / "s")) == COMMIT_CALLS
    assert struck(lambda: seal(objects / "s")) == SEAL_CALLS


def commit_survives(template, objects, at, after):
    where = copied(template / "one", objects / "s")
    old, new = counts(where), counts(template / "two")
    assert struck(lambda: commit(where), at=at, after=after) == at
    seen = counts(where)
    assert seen == (new if (at, after) == (COMMIT_CALLS, True) else old)
    assert sd.verify(sd.open(where)).problems == ()
    assert commit(where).already_committed == (seen == new)
    assert counts(where) == new
    assert sd.verify(sd.open(where)).problems == (), "what the dead writer left is no fault"
    gone = sd.collect_garbage(sd.open(where), staging_hours=0).staging
    assert len(gone) == (0 if (at, after) in ((1, False), (COMMIT_CALLS, True)) else 1)
    assert counts(where) == new
    assert sd.verify(sd.open(where)).problems == ()


@pytest.mark.parametrize(("at", "after"), [(COMMIT_CALLS, False), (COMMIT_CALLS, True)])
def test_a_crash_at_the_deciding_put_leaves_the_old_state_or_the_new(template, objects, at, after):
    commit_survives(template, objects, at, after)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, COMMIT_CALLS))
def test_a_crash_between_any_two_puts_of_a_commit(template, objects, at, after):
    commit_survives(template, objects, at, after)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, SEAL_CALLS + 1))
def test_a_crash_between_any_two_puts_of_a_seal(template, objects, at, after):
    where = copied(template / "two", objects / "s")
    before = counts(where)
    assert struck(lambda: seal(where), at=at, after=after) == at
    store = sd.open(where)
    assert store.sealed_names() == (["e000000"] if (at, after) == (SEAL_CALLS, True) else [])
    assert counts(where) == before
    assert sd.verify(store).problems == ()
    was_sealed = bool(store.sealed_names())
    assert seal(where).already_sealed == was_sealed
    assert counts(where) == before


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, 10))
def test_a_crash_of_gc_loses_no_row(template, objects, at):
    where = copied(template / "two", objects / "s")
    seal(where)
    before = counts(where)
    struck(lambda: sd.collect_garbage(sd.open(where), staging_hours=0, sealed_hours=0), at=at)
    assert counts(where) == before
    assert sd.verify(sd.open(where)).problems == ()
    sd.collect_garbage(sd.open(where), staging_hours=0, sealed_hours=0)
    assert (counts(where), sd.open(where).shard_ids()) == (before, [])
    sd.collect_garbage(sd.open(where), staging_hours=0, sealed_hours=0)
    assert not any(key.startswith("shards/") for key in keys(where))
