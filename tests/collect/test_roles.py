"""Roles: each names a policy with options of its own; a judge may be any policy and shares its engine."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from collect.config import CollectConfig
from collect.judge_config import JudgeSettings
from collect.labels import open_judge
from collect.phase_judge import open_phase_judge
from collect.policies import engines, open_policies, options_of
from collect.policy import Completion, Identity, PolicyError
from collect.policy_config import PolicyConfig, RolePolicies, RolePolicy
from sera_data.errors import ConfigError, UsageError
from sera_data.prices import Prices

sys.path.insert(0, str(Path(__file__).parent))
from job_lab import play, small_config
from judge_lab import endpoint, say

VERDICT = json.dumps({"success": True, "reason": "it says so"})


class Echo:
    """A policy that plays nothing and judges everything the same way."""

    renderer, trainable = None, False

    def __init__(self, name, text):
        self.identity = Identity(name=name, engine="echo", version=3, weights_sha256="f" * 64)
        self.text, self.asked, self.closed = text, [], 0

    async def complete(self, request):
        self.asked.append(request)
        if self.text is None:
            msg = "down"
            raise PolicyError(msg)
        return Completion(self.text, None, None, "stop", "none", 3, n_prompt=40, n_completion=7)

    def release(self, session):
        pass

    async def close(self):
        self.closed += 1


class Entry:
    """An engine that remembers what it opened."""

    def __init__(self, text=VERDICT):
        self.text, self.opened = text, []

    def load(self):
        def opener(argument, *, options):
            self.opened.append((argument, options, Echo(f"echo-{argument}", self.text)))
            return self.opened[-1][2]

        return opener


@pytest.fixture
def echo(monkeypatch):
    entry = Entry()
    known = engines()
    monkeypatch.setattr("collect.policies.engines", lambda: {**known, "echo": entry})
    return entry


def test_a_role_may_have_options_of_its_own(echo):
    roles = RolePolicies(
        writer=RolePolicy(model="echo:a", options={"heat": 2}), scorer=RolePolicy(model="echo:a"), judge="echo:a"
    )
    config = PolicyConfig(model="echo:a", roles=roles, options={"slots": 4})
    assert options_of(config, "act") == {"slots": 4}
    assert options_of(config, "writer") == {"heat": 2}
    assert options_of(config, "scorer") == {}
    assert options_of(config, "judge") == {"slots": 4}
    policies = open_policies(config)
    assert [options for _, options, _ in echo.opened] == [{"slots": 4}, {"heat": 2}, {}]
    assert len({id(policy) for policy in policies.values()}) == 3


def test_equal_specs_with_equal_options_share_an_engine(echo):
    one = RolePolicy(model="echo:b", options={"x": 1})
    policies = open_policies(PolicyConfig(model="echo:a", roles=RolePolicies(writer=one, scorer=one)))
    assert policies["writer"] is policies["scorer"]
    assert len(echo.opened) == 2


def test_a_judge_is_a_role_like_the_others(echo, tmp_path):
    """It judges by its policy, is named in the run with its hashes, and is closed once."""
    config = small_config("policy.roles.judge=echo:j", "judge={audit_share: 1.0}", "groups={execution: 1}")
    store, _, work = play(tmp_path / "s", config)
    assert work.complete
    labels = store.sql("from labels where kind = 'judge'").pl().to_dicts()
    assert labels
    assert {(row["source"], row["value"], row["raw_text"]) for row in labels} == {("echo-j", 1.0, VERDICT)}
    assert {(row["prompt_tokens"], row["completion_tokens"]) for row in labels} == {(40, 7)}
    assert json.loads(labels[0]["params"])["engine"] == "echo"
    ((_, _, policy),) = echo.opened
    assert len(policy.asked) == len(labels)
    assert {request.role for request in policy.asked} == {"judge"}
    assert policy.closed == 1
    served = store.runs.pl().to_dicts()[0]["policies"]
    judge = next(row for row in served if row["role"] == "judge")
    assert (judge["name"], judge["engine"], judge["version"]) == ("echo-j", "echo", 3)
    assert judge["weights_sha256"] == "f" * 64


def test_a_judge_that_plays_too_shares_the_engine(echo):
    config = small_config("policy.model=echo:a", "policy.roles.judge=echo:a")
    policies = open_policies(config.policy, roles=config.roles())
    judge = open_phase_judge(config, policies)
    assert len(echo.opened) == 1
    other = small_config("policy.model=echo:a", "policy.roles.judge={model: 'echo:a', options: {x: 1}}")
    assert open_phase_judge(other, policies) is not judge
    assert len(echo.opened) == 2


def test_a_failing_judge_leaves_invalid_labels(echo, tmp_path):
    echo.text = None
    config = small_config(
        "policy.roles.judge=echo:j", "judge={audit_share: 1.0, retries: 1, retry_wait_s: 0}", "groups={execution: 1}"
    )
    store, _, work = play(tmp_path / "s", config)
    assert work.complete
    errors = {error for (error,) in store.sql("select error from labels where kind = 'judge'").fetchall()}
    assert len(errors) > 0
    assert all("down (2 tries)" in error for error in errors)


def test_a_hosted_judge_takes_its_options_from_the_role(tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-judge-0123456789")
    with endpoint(say(True)) as server:
        options = f"{{base_url: '{server.url}', key_variable: JUDGE_KEY, body: {{top_k: 5}}}}"
        config = small_config(
            f"policy.roles.judge={{model: 'openai:m-1', options: {options}}}", "judge={audit_share: 1.0}",
            "groups={execution: 1}",
        )  # fmt: skip
        store, _, _ = play(tmp_path / "s", config)
    headers, body = server.requests[0]
    assert (headers["Authorization"], body["model"], body["top_k"]) == ("Bearer sk-judge-0123456789", "m-1", 5)
    assert store.sql("select distinct source from labels where kind = 'judge'").fetchall() == [("m-1",)]


BAD = {
    "two judges": (("policy.roles.judge=rule:finish", "judge={spec: 'rule:finish'}"), "both name a judge"),
    "nobody": (("judge={votes: 3}",), "names nobody"),
    "unknown key": (("policy.roles.writer={model: pocket, slots: 3}",), "slots"),
}


@pytest.mark.parametrize("settings, words", BAD.values(), ids=BAD)
def test_a_wrong_role_is_a_config_error(settings, words):
    with pytest.raises(ConfigError, match=words):
        small_config(*settings)


def test_scripts_judge_nothing_and_rules_take_no_options():
    settings = JudgeSettings()
    with pytest.raises(UsageError, match="is a script and judges nothing"):
        open_judge("scripted:oracle", settings=settings)
    with pytest.raises(UsageError, match="takes no options"):
        open_judge("rule:finish", settings=settings, options={"base_url": "http://h"})
    with pytest.raises(UsageError, match="no labeller 'nobody' and no policy of that name"):
        open_judge("nobody", settings=settings)
    assert open_judge("rule:finish", settings=settings).kind == "judge"


def test_the_examples_of_the_page_are_valid():
    page = (Path(__file__).parents[2] / "docs" / "roles.md").read_text("utf-8")
    first, writer, prices = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    config = CollectConfig.model_validate(first)
    assert options_of(config.policy, "scorer") == {"slots": 16}
    assert config.inline_judge().spec == "openai:gpt-5-mini"
    hosted = CollectConfig.model_validate(writer).policy
    assert hosted.spec("writer").startswith("openai:qwen3-32b@")
    known = Prices.model_validate(prices)
    assert known.of("gpt-5-mini", "judge").output == 2.0
    assert known.of("v20", "act").input == 0
