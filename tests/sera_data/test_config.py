"""Configuration: unknown keys, overrides, hashes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sera_data.canonical import canonical_json, derive_seed
from sera_data.config import Config, load_config, run_id
from sera_data.errors import ConfigError


class Inner(Config):
    turns: int = 20
    note: str = ""


class Outer(Config):
    name: str = "run"
    inner: Inner = Inner()
    maybe: Inner | None = None
    seed: int = 0
    switch: bool | int = False


def test_switches_stay_switches_and_merge_keys_work(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("switch: true\ninner: &same {turns: 5}\nmaybe: {<<: *same, note: x}\nseed: 9223372036854775807\n")
    got = load_config(Outer, path)
    assert got.switch is True
    assert got.maybe == Inner(turns=5, note="x")
    assert got.seed == 2**63 - 1


def test_defaults_need_no_file():
    assert load_config(Outer, None).inner.turns == 20


def test_file_and_overrides(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("inner: {turns: 5}\n", encoding="utf-8")
    assert load_config(Outer, path, ["inner.turns=7", "name=x"]) == Outer(name="x", inner=Inner(turns=7))
    assert load_config(Outer, path, ["maybe.turns=1"]).maybe == Inner(turns=1)


@pytest.mark.parametrize(
    ("text", "overrides", "words"),
    [
        ("inner: {turn: 5}", [], ["inner.turn", "allowed here: note, turns"]),
        ("inner: {turns: many}", [], ["inner.turns", "'many'"]),
        ("- a list", [], ["mapping", "list"]),
        ("inner: {turns: 5", [], ["cannot read"]),
        ("", ["inner"], ["a.b=value"]),
        ("name: x", ["name.a=1"], ["not a group"]),
        ("", ["maybe.turn=1"], ["allowed here: note, turns"]),
        ("inner: {turns: true}", [], ["inner.turns", "no true or false here, got true"]),
        ("", ["inner.turns=99999999999999999999"], ["inner.turns", "at most 2147483647"]),
        ("", ["inner.turns=-2147483649"], ["inner.turns", "at most 2147483647"]),
        ("", ["inner.turns=1.0e+12"], ["inner.turns", "at most 2147483647"]),
        ("", ["seed=9223372036854775808"], ["seed", "at most 9223372036854775807"]),
        ("name: a\nname: b", [], ["key 'name' is there twice", "line 2"]),
        ("inner: {turns: 1, turns: 2}", [], ["key 'turns' is there twice"]),
    ],
)
def test_faults_say_what_where_and_what_is_allowed(tmp_path, text, overrides, words):
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(Outer, path, overrides)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"not found: .*none\.yaml"):
        load_config(Outer, tmp_path / "none.yaml")


def test_run_id_is_name_and_config_hash():
    assert run_id("demo", Outer()) == f"demo-{Outer().hash()[:8]}"
    assert Outer().hash() != Outer(name="y").hash()


@given(st.lists(st.one_of(st.text(), st.integers(-(2**70), 2**70)), max_size=5))
def test_seeds_are_63_bit_and_repeat(parts):
    assert 0 <= derive_seed(*parts) < 2**63
    assert derive_seed(*parts) == derive_seed(*parts)


def test_canonical_json_refuses_nan_and_sorts():
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))
