"""One task, one replica."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from collect.replicas import Replicas, ranked

NAMES = st.lists(st.text("abc:/0123", min_size=1), min_size=1, max_size=6, unique=True)


@given(NAMES, st.text())
def test_a_group_has_one_order_whatever_the_order_of_the_replicas(names, group):
    assert ranked(group, names) == ranked(group, names[::-1])
    assert sorted(ranked(group, names)) == sorted(names)
    assert Replicas(names).of(group) == ranked(group, names)[0]


@given(NAMES.filter(lambda names: len(names) > 1), st.lists(st.text(), min_size=1))
def test_only_the_groups_of_a_failed_replica_move(names, groups):
    replicas = Replicas(names)
    before = {group: replicas.of(group) for group in groups}
    replicas.failed(names[0])
    for group, home in before.items():
        assert replicas.of(group) == (ranked(group, names)[1] if home == names[0] else home)
    for name in names[1:]:
        replicas.failed(name)
    assert {group: replicas.of(group) for group in groups} == before  # none is left: all are tried again


def test_groups_are_spread():
    counts = Counter(Replicas(["a", "b", "c", "d"]).of(f"t{i}") for i in range(2000))
    assert len(counts) == 4
    assert min(counts.values()) > 400
