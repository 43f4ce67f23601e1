"""No reward, label or success of the environment reaches any prompt; what helpers did is seen by the scorer."""

import pytest

from collect.prompts import style_texts
from collect.settings import Budgets, DelegationSettings
from collect.world import Verdict
from tests.collect.hut import Hut, ask, done, say
from tests.collect.tree_lab import RUBRIC, Fake, play, script

MODES = (
    DelegationSettings(scheduling="parallel"),
    DelegationSettings(),
    DelegationSettings(mode="counterfactual", selection="reference", k=2),
    DelegationSettings(mode="counterfactual", k=2),
)
TURNS = {
    "": [ask("make 1 c"), ask("make 3 a"), done()],
    "/t0d0b0": [ask("make 1 d"), say("add nothing at all"), say("dance"), say("add c"), done("made c")],
    "/t0d0b0/t0d0b0": [say("go attic"), say("add d"), done("made d")],
    "/t1d0b0": [say("add a"), say("add a"), say("add a")],
}


def grown(style, delegation, world=None):
    return play(
        Fake("player", script(TURNS)), world=world or Hut(), style=style, delegation=delegation, deterministic=True
    )


def texts(tree, role):
    """Prompts of a role without the rubric, which speaks of success by its form."""
    found = []
    for request in tree.policies[role].requests:
        for message in request.messages[1:]:
            if message.role == "user":
                found.append("\n".join(li for li in message.content.split("\n") if not li.startswith("Rubric: ")))
    assert found
    return found


@pytest.mark.parametrize("style", ["terse", "full"])
@pytest.mark.parametrize("delegation", MODES)
def test_no_prompt_holds_what_the_environment_thinks_of_the_work(style, delegation):
    tree = grown(style, delegation)
    assert any("MARKER-LABEL" in label["details"] for label in tree.labels)
    assert any("MARKER-DELTA" in (c["delta"] or "") for t in tree.turns for c in t["tool_calls"])
    assert any(c["feedback"] == "success" for t in tree.turns for c in t["tool_calls"])
    for role in ("act", "writer", "scorer"):
        for text in texts(tree, role):
            assert "MARKER" not in text
            for word in ("reward", "label", "success", "failure", "exhausted", "verdict", "finished"):
                assert word not in text, (role, word)


@pytest.mark.parametrize("delegation", MODES)
def test_how_the_world_ended_never_changes_a_scorer_prompt(delegation):
    class Sour(Hut):
        def over(self, state):
            return "failure" if super().over(state) == "success" else super().over(state)

        def verdict(self, start, end, targets, *, changes=None):
            return Verdict(False, {})

    sweet, sour = grown("full", delegation), grown("full", delegation, Sour())
    assert [x["value"] for x in sweet.labels] != [x["value"] for x in sour.labels]
    prompts = [[r.messages for r in tree.policies["scorer"].requests] for tree in (sweet, sour)]
    assert prompts[0] == prompts[1]


@pytest.mark.parametrize("delegation", MODES)
def test_a_scorer_sees_commands_answers_and_the_work_of_helpers(delegation):
    tree = grown("terse", delegation)
    user = next(t for t in texts(tree, "scorer") if t.startswith("Goal: make 1 c"))
    assert user.split("\n") == [
        "Goal: make 1 c",
        "> " + ask("make 1 d"),
        ">> goal: make 1 d",
        ">> go attic : [ok] You go to attic.",
        ">> add d : [ok] Added d.",
        "Child: made d. Steps used: 3 of 20.",
        "> " + say("add nothing at all"),
        "[ok] Added nothing at all.",
        "> " + say("dance"),
        "[rejected] That cannot be done.",
        "> " + say("add c"),
        "[ok] Added c.",
        "> " + done("made c"),
        "Finish: yes",
        'Gained: {"c":1,"d":1,"nothing at all":1}',
    ]
    last = next(t for t in texts(tree, "scorer") if t.startswith("Goal: make 3 a"))
    assert last.split("\n")[-3:] == ["[ok] Added a.", "Finish: stopped", 'Gained: {"a":3}']


def test_a_long_trajectory_keeps_rubric_and_form():
    turns = {"": [ask("make 1 c"), done()], "/t0d0b0": [say("add " + "x" * 60)] * 12}
    settings = {"budgets": Budgets(turns=12), "delegation": DelegationSettings()}
    tree = play(Fake("player", script(turns)), world=Hut(), **settings)
    scorer = tree.policies["scorer"].requests[0].messages[1].content
    assert RUBRIC["success_gate"] in scorer
    assert scorer.count("[ok] Added") == 12


@pytest.mark.parametrize("key", ["writer", "scorer"])
def test_texts_of_the_blocks_style_do_not_speak_of_rewards(key):
    text = style_texts("full_blocks")["worlds"]["textworld"][key]
    assert "reward" not in text.lower()
    assert '{{"' in text
