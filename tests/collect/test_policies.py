"""The policy registry: specs, shared engines, styles, and what is recorded of a policy."""

import pytest

from collect.policies import engines, open_policies, open_policy, policy_hash, policy_rows, split_spec, style_of
from collect.policy_config import PolicyConfig, RolePolicies
from collect.policy_directory import PolicyDirectoryError, write_policy_json
from sera_data.errors import UsageError


@pytest.fixture
def folder(tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    write_policy_json(tmp_path, name="p", version=3, style="full")
    return tmp_path


def test_specs_name_an_engine_or_a_directory(folder):
    assert {"scripted", "pocket", "transformers"} <= set(engines())
    assert split_spec("scripted:oracle") == ("scripted", "oracle")
    assert split_spec("pocket") == ("pocket", "")
    assert split_spec(str(folder)) == ("transformers", str(folder))
    with pytest.raises(UsageError, match="no policy 'orcale'; allowed: an engine"):
        split_spec("orcale")
    (folder / "policy.json").unlink()
    with pytest.raises(PolicyDirectoryError, match=r"policy\.json is missing"):
        split_spec(str(folder))


@pytest.mark.parametrize("form", ["{}", "transformers:{}"])
def test_a_changed_directory_is_refused_before_an_engine_sees_it(folder, form):
    (folder / "tokenizer.json").write_text("[]")
    with pytest.raises(PolicyDirectoryError, match=r"tokenizer\.json differs"):
        open_policy(form.format(folder))


def test_style_is_the_one_the_policy_was_made_for(folder):
    assert style_of(str(folder)) == "full"
    assert style_of("pocket") == style_of("scripted:oracle") == "terse"
    assert style_of("transformers:some/model") == "full"


def test_equal_specs_share_one_engine():
    config = PolicyConfig(model="scripted:oracle", roles=RolePolicies(scorer="scripted:careless"))
    policies = open_policies(config)
    assert policies["act"] is policies["writer"]
    assert policies["scorer"] is not policies["act"]
    assert [(row["role"], row["name"]) for row in policy_rows(policies)] == [
        ("act", "scripted:oracle"),
        ("writer", "scripted:oracle"),
        ("scorer", "scripted:careless"),
    ]
    alone = open_policies(PolicyConfig(model="scripted:oracle"))
    assert policy_hash(alone) != policy_hash(policies)
    assert policy_hash(alone) == policy_hash(open_policies(PolicyConfig(model="scripted:oracle")))


class Recorder:
    def __init__(self):
        self.opened = []

    def load(self):
        def opener(argument, *, options):
            self.opened.append((argument, options))
            return object()

        return opener


def test_options_go_to_engines_of_the_models_kind_only(monkeypatch):
    big, small = Recorder(), Recorder()
    monkeypatch.setattr("collect.policies.engines", lambda: {"big": big, "small": small})
    roles = RolePolicies(writer="big:b", scorer="small:s")
    open_policies(PolicyConfig(model="big:a", roles=roles, options={"slots": 4}))
    assert big.opened == [("a", {"slots": 4}), ("b", {"slots": 4})]
    assert small.opened == [("s", {})]
    open_policies(PolicyConfig(model="big:a", roles=roles), roles=("act",))
    assert [argument for argument, _ in big.opened] == ["a", "b", "a"]
