"""A method of one rule, for tests that need no other stage's SQL."""

from __future__ import annotations

import duckdb

from learn.credit import Credit, compute_credit
from learn.method import CREDITS, rule_set
from learn.rule import Method, Rule
from learn.schedule import parse_schedule
from learn.switches import check_switches
from tests.learn.forest import Forest

STAGE = {"scorer": "rubric"}


def one_stage(credit: str, *, rules: str = "reference", **switches: float | str) -> Method:
    """The shipped rule `credit` with the defaults of a rule set and some switches."""
    params = {**rule_set(rules).credits[credit], **switches}
    check_switches(CREDITS / f"{credit}.sql", params)
    stage = params.get("purpose", STAGE.get(credit, credit))
    rule = Rule((stage,), CREDITS / f"{credit}.sql", tuple(sorted(params.items())))
    return Method(credit, "", parse_schedule(f"{stage}:1"), (rule,))


_LAST: list[tuple[str, duckdb.DuckDBPyConnection]] = []


def connected(forest: Forest) -> duckdb.DuckDBPyConnection:
    """A connection to the forest as it is, the last one again when no row has changed: opening one takes a while."""
    rows = repr(forest.rows)
    if not _LAST or _LAST[0][0] != rows:
        _LAST[:] = [(rows, forest.connect())]
    return _LAST[0][1]


def credit_of(forest: Forest, credit: str, **switches: float | str) -> Credit:
    """Credit of a forest under one rule."""
    return compute_credit(connected(forest), one_stage(credit, **switches))


def column(credit: Credit, name: str = "advantage", *, by: str = "trajectory_id") -> dict[str, float]:
    """One value per trajectory (or turn) that got credit."""
    return dict(zip(credit.rows[by], credit.rows[name], strict=True))
