"""Values of last expressions: as `repr` writes them, whatever they hold, within a bounded text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.shown import MAX_CHARS, MAX_DEPTH, shown

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3)
keys = st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.text(max_size=2))
values = st.recursive(
    leaves | st.frozensets(keys, max_size=3) | st.sets(keys, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner)
    ),
    max_leaves=12,
)


@given(values)
def test_values_are_written_as_python_writes_them(value):
    assert shown(value) == (value if isinstance(value, str) else repr(value))


def test_exceptions_and_objects_are_written_by_their_parts():
    class Proxy:
        name, attributes = "Plan", {"steps": [1, 2], "done": None}

    assert shown([ValueError("no", 1), Proxy()]) == "[ValueError('no', 1), Plan(steps=[1, 2], done=None)]"
    assert shown(10**5000).startswith("[a value that cannot be shown: Exceeds the limit")


def grown(value, wrap, levels):
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: [inner] * 10,
        lambda inner: (inner, inner),
        lambda inner: {1: inner, 2: inner},
        lambda inner: ValueError(inner, inner),
        lambda inner: [[], inner, inner],
    ],
)
def test_shared_parts_cost_no_more_than_the_text(wrap):
    text = shown(grown([], wrap, MAX_DEPTH))
    assert text.endswith(f"\n[a value of more than {MAX_CHARS} characters]")
    assert len(text) < MAX_CHARS + 100


def test_what_is_deeper_than_sixty_levels_is_left_out():
    value = []
    value.append(value)
    assert shown(value) == "[" * (MAX_DEPTH + 1) + "..." + "]" * (MAX_DEPTH + 1)
