"""What a phase's summary warns of."""

from collections import Counter

import pytest

from collect.summary import warnings


@pytest.mark.parametrize(
    ("totals", "forks", "says"),
    [
        ({"trees": 10, "truncated": 2}, (0, 0), []),
        ({"trees": 10, "truncated": 3}, (0, 0), ["3 of 10 trees were cut off"]),
        ({"trees": 10, "infra_error": 1}, (4, 1), ["1 of 10 trees were lost"]),
        ({"trees": 10}, (4, 0), ["none of 4 forked delegations"]),
        ({"trees": 0}, (0, 0), []),
    ],
)
def test_warnings(totals, forks, says):
    found = warnings(Counter(totals), forked=forks[0], mixed=forks[1])
    assert len(found) == len(says)
    assert all(text in warning for text, warning in zip(says, found, strict=True))
