"""Price files: what they may say, what a call costs, and the same figures by SQL."""

import json

import pytest

from sera_data.errors import ConfigError
from sera_data.prices import Price, Prices, read_prices

FILE = """
currency: EUR
models:
  small: {input: 0.10, cached: 0.02, output: 0.40}
  big:
    input: 2.0
    output: 8.0
    roles: {judge: {input: 1.0}, scorer: {output: 4.0, cached: 0.5}}
  "*": {input: 0, output: 0}
"""


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(FILE)
    return read_prices(path)


def test_a_role_may_have_a_price_of_its_own(prices):
    assert prices.currency == "EUR"
    assert prices.of("small", "act") == Price(0.10, 0.02, 0.40)
    assert prices.of("big", "writer") == Price(2.0, 2.0, 8.0)  # cached tokens cost what others do
    assert prices.of("big", "judge") == Price(1.0, 1.0, 8.0)
    assert prices.of("big", "scorer") == Price(2.0, 0.5, 4.0)
    assert prices.of("unknown", "act") == Price(0, 0, 0)


def test_a_model_that_is_not_named_has_no_price():
    prices = Prices(models={"half": {"output": 1.0, "roles": {"act": {"input": 3.0}}}})
    assert prices.of("other", "act") is None
    assert prices.of("half", "act") == Price(3.0, 3.0, 1.0)
    assert prices.of("half", "writer") is None


def test_cost_of_a_call():
    price = Price(input=2.0, cached=0.5, output=8.0)
    assert price.cost(prompt=1_000_000, cached=None, completion=0) == 2.0
    assert price.cost(prompt=1000, cached=400, completion=10) == pytest.approx((600 * 2 + 400 * 0.5 + 80) / 1e6)
    assert price.cost(prompt=10, cached=99, completion=0) == pytest.approx(5e-6)  # a server that counts strangely


BAD = {
    "negative": ("models: {a: {input: -1, output: 1}}", "greater than or equal to 0"),
    "unknown key": ("models: {a: {prompt: 1}}", "unknown key 'models.a.prompt'"),
    "unknown role": ("models: {a: {roles: {player: {input: 1}}}}", "player"),
    "no model": ("models: {}", "names no model"),
    "no mapping": ("- 1", "must be a mapping"),
}


@pytest.mark.parametrize("text, words", BAD.values(), ids=BAD)
def test_a_wrong_file_is_refused_with_the_key(tmp_path, text, words):
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_prices(path)
    with pytest.raises(ConfigError, match="not found"):
        read_prices(tmp_path / "none.yaml")


def test_the_table_holds_what_has_a_price(prices):
    table = prices.table([("small", "act"), ("big", "judge")])
    assert table.to_pylist() == [
        {"model": "small", "role": "act", "input": 0.10, "cached": 0.02, "output": 0.40},
        {"model": "big", "role": "judge", "input": 1.0, "cached": 1.0, "output": 8.0},
    ]
    half = Prices(models={"half": {"output": 1.0}})
    assert half.table([("half", "act"), ("x", "act")]).num_rows == 0
    assert json.loads(prices.model_dump_json())["models"]["big"]["roles"]["judge"]["input"] == 1.0
