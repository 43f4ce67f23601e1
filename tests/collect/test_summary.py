"""What a phase's summary says of caches, and what it warns of."""

from collections import Counter
from importlib.resources import files

import duckdb
import pytest

from collect.summary import warnings

PREFIXES = files("collect").joinpath("sql", "phase_prefixes.sql").read_text(encoding="utf-8")


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


def turn(turn_id, n_prompt, n_new, n_cached, *, base=None, opening="a", second=0, **other):
    made = {"turn_id": turn_id, "run_id": "r", "epoch": 1, "policy": "p", "started_at": second}
    ids = None if n_new is None else [0] * n_new
    named = {"prompt_ids": ids, "n_prompt": n_prompt, "n_cached": n_cached, "base_turn": base, "prompt_sha256": opening}
    return made | named | other


@pytest.mark.parametrize(
    ("turns", "shared", "cached"),
    [
        ([turn("1", 100, 100, 64)], 0, 0),  # the first opening shares nothing with what was asked before
        ([turn("1", 100, 100, 0), turn("2", 100, 100, 96, second=1)], 99, 96),
        ([turn("1", 100, 100, 0, second=1), turn("2", 100, 100, 96)], 99, 0),  # the later one is the one that shares
        ([turn("1", 100, 100, 0), turn("2", 100, 100, 96, opening="b")], 0, 0),
        ([turn("1", 100, 100, 0), turn("2", 100, 100, 96, policy="q")], 0, 0),
        ([turn("1", 100, 100, 0), turn("2", 150, 20, 128, base="1", opening="b")], 130, 128),
        ([turn("1", 150, 20, 144, base="0")], 130, 130),  # more than is shared is not a better hit
        ([turn("1", 150, 20, None, base="0"), turn("2", None, None, None)], 0, 0),
        ([turn("1", 150, 20, 128, base="0", epoch=2), turn("2", 150, 20, 128, base="0", run_id="s")], 0, 0),
    ],
)
def test_shared_prefix_tokens_and_those_from_a_cache(turns, shared, cached):
    connection = duckdb.connect()
    connection.execute(
        "create table turns (turn_id varchar, run_id varchar, epoch int, policy varchar, started_at int,"
        " prompt_ids int[], n_prompt int, n_cached int, base_turn varchar, prompt_sha256 varchar)"
    )
    connection.executemany("insert into turns values (?,?,?,?,?,?,?,?,?,?)", [list(t.values()) for t in turns])
    assert connection.execute(PREFIXES, {"run_id": "r", "epoch": 1}).fetchone() == (shared, cached)
