"""The collect configuration: defaults, refusals, and its conversion for the runner."""

import pytest

from collect.config import CollectConfig, Groups
from collect.policy_config import PolicyConfig, RolePolicies
from sera_data.config import load_config
from sera_data.errors import ConfigError


def load(*overrides):
    return load_config(CollectConfig, None, overrides)


def test_defaults_are_the_published_ones():
    settings = CollectConfig().tree_settings()
    assert settings.budgets.turns == 20
    assert settings.budgets.depth == 3
    assert settings.delegation.k == 8
    assert settings.delegation.environment_cap == 16
    assert settings.act.temperature == 1.0
    assert settings.act.top_p == 1.0
    assert settings.scorer.temperature == 0.0
    assert settings.rubric.attempts == 1
    assert CollectConfig().samples == 8


def test_resolved_config_reads_back():
    config = load("rubric.for=[execution]", "world.tasks={worlds: '1000-1003', n: 5}", "budgets.turns=[9,8,7,6]")
    again = CollectConfig.model_validate(config.resolved())
    assert again == config
    assert again.hash() == config.hash()


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("groups.exection=1", "allowed here: delegation, eval, execution"),
        ("world.tasks.nn=1", "unknown key 'world.tasks.published.nn'; allowed here: distractors, items_per_tier, seed"),
        ("budgets.turns=[1,2]", "depth 3 wants 4, got 2"),
        ("budgets.turns=0", "1 or more at every depth"),
        ("rubric.for=[exec]", "rubric.for.0"),
        ("name=Bad Name", "name"),
    ],
)
def test_wrong_value_names_the_key(override, says):
    with pytest.raises(ConfigError, match="config") as caught:
        load(override)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


def test_only_one_purpose_takes_all_tasks():
    with pytest.raises(ConfigError, match="only one purpose may be 'all'"):
        load("groups.execution=all", "groups.eval=all")
    with pytest.raises(ConfigError, match="no groups"):
        load("groups.execution=0")


@pytest.mark.parametrize("role", ["act", "writer", "scorer"])
def test_truncated_sampling_is_refused_for_training(role):
    with pytest.raises(ConfigError, match=rf"sampling\.{role}\.top_p=0\.9 truncates"):
        load(f"sampling.{role}.top_p=0.9")
    load(f"sampling.{role}.top_p=0.9", "groups.execution=0", "groups.eval=3")


def test_roles_fall_back_to_the_model():
    policy = PolicyConfig(model="pocket", roles=RolePolicies(scorer="scripted:oracle"))
    assert [policy.spec(role) for role in ("act", "writer", "scorer")] == ["pocket", "pocket", "scripted:oracle"]


def test_every_field_is_documented():
    def walk(model):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            if hasattr(field.annotation, "model_fields"):
                walk(field.annotation)

    walk(CollectConfig)
    assert Groups(execution="all").trains()
