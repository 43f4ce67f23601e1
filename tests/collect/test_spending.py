"""Limits in money and votes: a job stops between units, says so, and goes on in the same store under a higher one."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sera_data as sd
from collect.collect_cli import app as collect_app
from collect.label_cli import app as label_app
from collect.limits import read_limits
from collect.spending import Amount, LimitReached, Limits, Spending, amount_of, spent_before
from sera_data.costs_cli import price_facts
from sera_data.errors import ConfigError, UsageError
from sera_data.prices import Prices, read_prices

sys.path.insert(0, str(Path(__file__).parent))
from job_lab import SMALL, small_config
from judge_lab import completion, endpoint, raw, say
from label_lab import copied, judged

PRICES = "models: {big: {input: 1000, output: 10000, roles: {judge: {input: 500}}}, '*': {input: 0, output: 0}}"
"""A vote of 120 + 9 tokens costs 0.06 + 0.09 = 0.15; a rubric of the same 0.12 + 0.09 = 0.21."""


pytestmark = pytest.mark.usefixtures("no_keys")


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES)
    return path


def meter(**limits):
    return Spending(Limits(**{"prices": Prices(models={}), **limits}))


def test_a_unit_starts_when_the_mean_says_that_it_fits():
    async def run():
        spending = meter(max_cost=3.5)
        assert await spending.admit(2)  # nobody knows yet what one costs
        second = asyncio.create_task(spending.admit(2))
        await asyncio.sleep(0)
        assert not second.done()  # it waits for the first
        spending.charge(Amount(cost=1.0))
        spending.finish(2, Amount(cost=1.0))
        assert await second
        assert await spending.admit(2)  # 1 spent, 1 and 1 expected
        third = asyncio.create_task(spending.admit(2))
        await asyncio.sleep(0)
        assert not third.done()
        spending.finish(2, Amount(cost=0.5))  # cheaper than expected, so there is room
        assert await third
        spending.finish(2, Amount(cost=1.0))
        spending.finish(2, Amount(cost=0.9))
        assert not await spending.admit(2)
        return spending

    assert asyncio.run(run()).stopped_by == "--max-cost 3.5"


def test_no_call_is_made_once_a_limit_is_reached():
    spending = meter(max_labels=2)
    spending.require_room()
    spending.charge(Amount(labels=2))
    with pytest.raises(LimitReached, match="--max-labels 2 is reached"):
        spending.require_room()
    assert asyncio.run(spending.admit(1)) is False
    assert "2 votes given" in spending.message()
    assert "2 votes in units that were given up" in spending.message()


def test_without_limits_everything_starts():
    spending = Spending(Limits())
    assert all(asyncio.run(spending.admit(5)) for _ in range(3))
    spending.charge(Amount(cost=1e9))
    spending.require_room()
    assert spending.stopped_by is None


def test_amounts_of_rows():
    rows = {"turns": [{"cost": 0.5}, {"cost": None}], "labels": [{"cost": 0.25, "kind": "judge"}, {"kind": "program"}]}
    assert amount_of(rows) == Amount(0.75, 1)
    assert amount_of({}) == Amount()


def test_wrong_limits_are_refused(prices):
    for wrong in ({"max_cost": 0}, {"max_cost": float("nan")}, {"max_cost": 1.0, "max_labels": 0}):
        with pytest.raises(UsageError, match="wants"):
            read_limits(prices, **{"max_cost": None, **wrong})
    with pytest.raises(UsageError, match="needs to know what tokens cost"):
        read_limits(None, max_cost=1.0)
    assert read_limits(None, max_cost=None) is None


def command(app, *arguments):
    """Exit code and error of a command, and the JSON that it printed."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    return result, json.loads(lines[-1]) if lines else None


def collect(store, url, prices, *more):
    """Two units of two trees that an external writer writes rubrics for and a hosted judge judges."""
    settings = [*SMALL, "groups={execution: 3}", "samples=2", "deterministic=true", "rubric.for=[execution]"]
    roles = f"policy.roles={{writer: 'openai:big@{url}', judge: 'openai:big@{url}'}}"
    judge = "judge={audit_share: 1.0, retries: 0, votes: 1}"
    sets = [part for text in (*settings, roles, judge) for part in ("--set", text)]
    return command(collect_app, "--store", str(store), "--prices", str(prices), *sets, *more)


def answer(handler):
    """A rubric for the writer, a verdict for the judge."""
    asked = json.dumps(handler.server.requests[-1][1]["messages"])
    verdict = json.dumps({"success": True, "reason": "it is there"})
    items = [{"name": n, "weight": 0.5, "description": "it is there"} for n in ("a", "b")]
    rest = {"success_gate": "it is there", "failure_conditions": "it is not", "scoring_procedure": "look"}
    text = verdict if "strict examiner" in asked else json.dumps({"rubric_items": items, **rest})
    raw(200, completion(text))(handler)


def test_collect_stops_at_a_cost_and_goes_on_in_the_same_store(tmp_path, prices):
    with endpoint(answer) as server:
        free, whole = collect(tmp_path / "free", server.url, prices)
        assert free.exit_code == 0, free.output
        units, cost = whole["units"]["planned"], whole["cost"]
        assert (units, whole["stopped"]) == (3, None)
        assert set(whole["costs"]) == {"judge", "writer"}  # scripts count no tokens
        limit = f"{cost * 0.75:.4f}"
        store = tmp_path / "s"
        stopped, first = collect(store, server.url, prices, "--max-cost", limit)
        asked = len(server.requests)
        again, same = collect(store, server.url, prices, "--max-cost", limit)
        asked_again = len(server.requests) - asked
        done, second = collect(store, server.url, prices, "--max-cost", f"{cost * 3:.4f}", "--seal")
    assert isinstance(stopped.exception, LimitReached)
    assert stopped.exception.exit_code == 3
    assert f"--max-cost {float(limit):g}" in str(stopped.exception)
    assert "a higher limit goes on" in str(stopped.exception)
    assert 0 < first["units"]["committed"] < units
    assert 0 < first["cost"] <= float(limit)
    assert (isinstance(again.exception, LimitReached), same["cost"]) == (True, first["cost"])
    assert asked_again == 0
    assert done.exit_code == 0, done.output
    assert (second["units"]["committed"], second["sealed"]) == (units, True)
    assert second["run_id"] == first["run_id"] == whole["run_id"]
    assert second["cost"] == pytest.approx(cost)
    played = sd.open(store)
    sd.verify(played)
    sd.seal(sd.open(tmp_path / "free"), "e000000")
    assert sd.content_hash(played, "e000000") == sd.content_hash(sd.open(tmp_path / "free"), "e000000")
    facts = price_facts(store, read_prices(prices), epoch=None)
    assert facts["total"] == pytest.approx(cost)
    assert facts["unpriced"] == []
    assert sum(row["stored"] or 0 for row in facts["rows"]) == pytest.approx(cost)
    assert spent_before(played, first["run_id"]).cost == pytest.approx(cost)


def test_collect_stops_at_a_number_of_votes(tmp_path, prices):
    with endpoint(answer) as server:
        stopped, first = collect(tmp_path / "s", server.url, prices, "--max-labels", "5")
        votes = sum(1 for _ in judged_rows(tmp_path / "s"))
        done, second = collect(tmp_path / "s", server.url, prices)
    assert isinstance(stopped.exception, LimitReached)
    assert votes <= 5
    assert first["units"]["committed"] < 3
    assert (done.exit_code, second["units"]["committed"]) == (0, 3)


def judged_rows(path):
    return [row for row in sd.open(path).labels.pl().to_dicts() if row["kind"] == "judge"]


def test_a_hosted_model_without_a_price_is_refused_before_anything_is_called(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text("models: {other: {input: 1, output: 1}}")
    with endpoint(answer) as server:
        result, _ = collect(tmp_path / "s", server.url, path, "--max-cost", "1")
    assert isinstance(result.exception, ConfigError)
    assert "'big' as writer" in str(result.exception)
    assert server.requests == []


def test_label_stops_at_a_cost_and_goes_on(tmp_path, prices):
    store = copied(tmp_path)
    with endpoint(say(True)) as server:
        judge = ("--judge", f"openai:big@{server.url}", "--concurrency", "1", "--prices", str(prices))
        result, first = command(label_app, str(store.path), *judge, "--max-cost", "0.20")
        assert isinstance(result.exception, LimitReached), result.output
        assert len(server.requests) <= 2
        done, second = command(label_app, str(store.path), *judge, "--max-cost", "1000")
    assert "--max-cost 0.2" in first["stopped"]
    assert done.exit_code == 0, done.output
    rows = judged(store)
    assert [row["cost"] for row in rows] == [pytest.approx(0.15)] * len(rows)
    assert second["cost"] == pytest.approx(0.15 * len(rows))
    assert second["run_id"] == first["run_id"]
    sd.verify(store)


def test_a_higher_max_labels_adds_to_what_is_there(tmp_path):
    store = copied(tmp_path)
    with endpoint(say(True)) as server:
        judge = ("--judge", f"openai:big@{server.url}")
        _, first = command(label_app, str(store.path), *judge, "--max-labels", "2")
        _, second = command(label_app, str(store.path), *judge, "--max-labels", "5")
    assert (first["labels"], second["labels"], len(judged(store))) == (2, 3, 5)


def test_a_server_without_usage_cannot_be_limited_in_money(tmp_path, prices):
    def silent(handler):
        raw(200, completion("x", usage=None))(handler)

    with endpoint(silent) as server:
        result, _ = collect(tmp_path / "s", server.url, prices, "--max-cost", "1")
    assert "does not say how many tokens" in str(result.exception)
    assert small_config().policy.roles.judge is None
