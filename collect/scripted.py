"""Scripted policies: programs that act, write rubrics and score, for tests, warm starts and reference figures.

Invariant: no token ids, never trainable; replies depend only on what the prompt shows, the seed of the session's first
request (the agent's style) and the seed of the request (its slips). The same seeds give the same tree.

The same name plays TextCraft by `collect.scripted_agents` and TextWorld-Sync by `collect.scripted_kitchen`; a script
that knows only one of them is refused in the other.

Use: ``scripted:oracle``, ``scripted:delegating_oracle``, ``scripted:teacher`` ... as a policy in any configuration.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from collect import scripted_agents as agents
from collect import scripted_cells as cells
from collect import scripted_judges as judges
from collect import scripted_kitchen as kitchens
from collect import textworld_judges
from collect.policy import Completion, Identity, Request
from collect.recipes import DOMAINS
from collect.scripted_agents import Situation, Style
from collect.scripted_belief import Belief
from sera_data.canonical import derive_seed
from sera_data.errors import UsageError

Program = Literal["crafter", "teacher", "saboteur", "wanderer", "single_cell"]
RIGHT = {"right": 1.0}
HEADROOM = {"right": 0.3, "under": 0.2, "finish": 0.25, "no_error": 0.25}
SLIPS = {0.0: 0.3, 0.05: 0.25, 0.22: 0.25, 0.45: 0.2}


@dataclass(frozen=True, slots=True)
class Script:
    """A scripted policy's settings; see `collect.scripted_agents`, `scripted_kitchen` and `scripted_judges`.

    slips: weights of the slip rates that the teacher's agents draw from. delegate: share of its agents that delegate.
    hasty, shirk, fumble: shares of its agents with a habit (see `Style` and `Cook`). families: letters of the item
    families whose agents have habits. tools: letters of the cooking tools that cooks with habits dislike. gates:
    weights of the rubric gates. substance: how often a rubric with a bad gate still has the criterion of gained items,
    in all or by gate. kitchen: the program in TextWorld-Sync, None = it does not cook. reading: how its cooks find
    their commands. crafts: whether it plays TextCraft.
    """

    program: Program = "crafter"
    style: Style = field(default_factory=Style)
    slips: Mapping[float, float] = field(default_factory=lambda: dict(SLIPS))
    delegate: float = 0.6
    hasty: float = 0.0
    shirk: float = 0.0
    fumble: float = 0.0
    families: str = DOMAINS
    tools: str = ""
    gates: Mapping[str, float] = field(default_factory=lambda: dict(RIGHT))
    substance: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(judges.GATES, 0.2))
    honest_scores: bool = True
    kitchen: kitchens.KitchenProgram | None = None
    reading: kitchens.Reading = "honest"
    crafts: bool = True


SCRIPTS: Mapping[str, Script] = {
    "oracle": Script(kitchen="alone"),
    "delegating_oracle": Script(style=Style(delegates="capacity"), kitchen="careful"),
    "careless": Script(style=Style(slip=0.3, delegates="ingredients"), gates=HEADROOM),
    "teacher": Script(program="teacher", gates=HEADROOM, kitchen="teacher"),
    "saboteur": Script(program="saboteur", kitchen="saboteur"),
    "never_finisher": Script(style=Style(delegates="ingredients", finishes=False)),
    "single_cell": Script(program="single_cell"),
    "random": Script(
        program="wanderer", gates=dict.fromkeys(judges.GATES, 1.0), honest_scores=False, kitchen="wanderer"
    ),
    "greedy": Script(kitchen="alone", reading="greedy", crafts=False),
    "dish_sequential": Script(kitchen="sequential", reading="greedy", crafts=False),
    "dish_parallel": Script(kitchen="parallel", reading="greedy", crafts=False),
    "honest": Script(kitchen="alone", crafts=False),
}
HABITS = ("hasty", "shirk", "fumble")
OPTIONS = ("slips", "delegate", *HABITS, "families", "tools", "gates", "substance", "reading")
TOOLS = "gos"  # grill, oven, stove
READINGS: tuple[str, ...] = get_args(kitchens.Reading)


def open_policy(argument: str, *, options: Mapping[str, Any]) -> ScriptedPolicy:
    """The scripted policy of a name; `options` may set what OPTIONS names."""
    if argument not in SCRIPTS:
        msg = f"no scripted policy {argument!r}; allowed: {', '.join(SCRIPTS)}"
        raise UsageError(msg, hint="name one as scripted:NAME")
    return ScriptedPolicy(argument, _configured(SCRIPTS[argument], options))


@dataclass(slots=True)
class _Mind:
    """Memory of one session: seed of its first request, belief, style."""

    seed: int
    belief: Belief
    style: Style
    budget: int
    calls: list[agents.Call] = field(default_factory=list)


class ScriptedPolicy:
    """Plays every role by program; `renderer` is None and nothing it says is trainable by likelihood ratio."""

    renderer = None
    trainable = False

    def __init__(self, name: str, script: Script) -> None:
        self.identity = Identity(name=f"scripted:{name}", engine="scripted", version=0)
        self._script = script
        self._minds: dict[str, _Mind] = {}
        self._cooks: dict[str, kitchens.Cook] = {}

    async def complete(self, request: Request) -> Completion:
        """Answer one request at once."""
        rng = random.Random(derive_seed("scripted", request.role, request.sampling.seed))
        if request.role == "act":
            reply = self._act(request, rng)
            if isinstance(reply, dict):
                reply = request.facts["dialect"].write(reply["tool"], {k: v for k, v in reply.items() if k != "tool"})
        elif request.role == "writer":
            reply = self._rubric(request, rng)
        else:
            reply = self._score(request, rng)
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False, separators=(",", ":"))
        return Completion(text, None, None, "stop", "none", policy_version=0)

    def release(self, session: str) -> None:
        """Forget a session."""
        self._minds.pop(session, None)
        self._cooks.pop(session, None)

    async def close(self) -> None:
        """Forget all."""
        self._minds.clear()
        self._cooks.clear()

    def _act(self, request: Request, rng: random.Random) -> agents.Call | str:
        facts = request.facts
        if self._cooking(facts):
            return self._cook(request, rng)
        mind = self._minds.get(request.session)
        if mind is None:
            mind = self._minds[request.session] = self._mind(request)
        agent, history, in_cells = facts["agent"], facts["history"], facts["dialect"].name == "code"
        situation = Situation(agent.depth, facts["max_depth"], facts["turns_left"], mind.budget)
        if in_cells and self._script.program == "single_cell":
            return cells.single_cell(agent.targets)
        if in_cells and mind.style.delegates == "capacity":
            return cells.delegating_cell(agent.targets, situation, history)
        mind.belief.read(cells.as_calls(history, mind.calls) if in_cells else history)
        call = self._call(mind, situation, rng)
        mind.calls.append({} if isinstance(call, str) else call)
        return call

    def _cooking(self, facts: Mapping[str, Any]) -> bool:
        """Whether the world is one of text commands; UsageError where the script knows nothing of it."""
        world = facts["world"]
        cooking = world.goal_kind == "text"
        if self._script.kitchen is None if cooking else not self._script.crafts:
            known = [name for name, script in SCRIPTS.items() if (script.kitchen if cooking else script.crafts)]
            msg = f"{self.identity.name} does not play {world.name}; allowed: {', '.join(known)}"
            raise UsageError(msg, hint="name one as scripted:NAME")
        return cooking

    def _cook(self, request: Request, rng: random.Random) -> agents.Call | str:
        script, cook = self._script, self._cooks.get(request.session)
        assert script.kitchen is not None
        if cook is None:
            cook = kitchens.Cook(reading=script.reading)
            if script.kitchen == "teacher":
                style = random.Random(derive_seed("style", request.sampling.seed))
                cook = kitchens.teacher_cook(
                    style,
                    script.reading,
                    slips=script.slips,
                    delegate=script.delegate,
                    habits={name: getattr(script, name) for name in HABITS},
                    disliked=script.tools,
                )
            self._cooks[request.session] = cook
        return kitchens.act(script.kitchen, cook, request.facts, rng)

    def _call(self, mind: _Mind, situation: Situation, rng: random.Random) -> agents.Call | str:
        if self._script.program == "saboteur":
            return agents.saboteur(mind.belief, situation, rng)
        if self._script.program == "wanderer":
            return agents.wanderer(mind.belief, situation, rng)
        return agents.crafter(mind.belief, situation, mind.style, rng)

    def _mind(self, request: Request) -> _Mind:
        facts = request.facts
        style = self._script.style
        if self._script.program == "teacher":
            rng = random.Random(derive_seed("style", request.sampling.seed))
            script = self._script
            habitual = any(agents.family_of(item) in script.families for item in facts["agent"].targets)
            habits = {name: getattr(script, name) if habitual else 0.0 for name in HABITS}
            style = agents.teacher_style(rng, slips=script.slips, delegate=script.delegate, **habits)
        belief = Belief(facts["start"].items, facts["agent"].targets)
        return _Mind(request.sampling.seed, belief, style, facts["turns_left"] + len(facts["history"]))

    def _rubric(self, request: Request, rng: random.Random) -> dict[str, Any]:
        script = self._script
        targets = request.facts["agent"].targets
        write = textworld_judges.write_rubric if self._cooking(request.facts) else judges.write_rubric
        return write(targets, rng, gates=script.gates, substance=script.substance)

    def _score(self, request: Request, rng: random.Random) -> dict[str, Any]:
        facts = request.facts
        if not self._script.honest_scores:
            return judges.random_score(facts["rubric"], rng)
        evidence = judges.Evidence(facts["agent"].targets, facts["gained"], facts["history"], facts["finished"])
        score = textworld_judges.write_score if self._cooking(facts) else judges.write_score
        return score(facts["rubric"], evidence)


def _configured(script: Script, options: Mapping[str, Any]) -> Script:
    values = {name: getattr(script, name) for name in Script.__dataclass_fields__}
    for name in OPTIONS:
        if name in options:
            values[name] = options[name]
    values["slips"] = {_rate(rate): weight for rate, weight in _weights("slips", values["slips"]).items()}
    values["gates"] = _weights("gates", values["gates"])
    if not isinstance(values["substance"], Mapping):
        values["substance"] = dict.fromkeys(judges.GATES, values["substance"])
    for name in ("gates", "substance"):
        unknown = sorted(set(values[name]) - set(judges.GATES))
        if unknown:
            msg = f"policy option {name}: unknown gate {unknown[0]!r}; allowed: {', '.join(judges.GATES)}"
            raise UsageError(msg)
    shares = {name: values[name] for name in ("delegate", *HABITS)}
    shares |= {f"substance of {gate}": share for gate, share in values["substance"].items()}
    for name, share in shares.items():
        if not _is_number(share) or not 0 <= share <= 1:
            msg = f"policy option {name} must be a share from 0 to 1, got {share!r}"
            raise UsageError(msg)
    if not isinstance(values["families"], str) or set(values["families"]) - set(DOMAINS):
        msg = f"policy option families must be letters out of {DOMAINS!r}, got {values['families']!r}"
        raise UsageError(msg)
    if not isinstance(values["tools"], str) or set(values["tools"]) - set(TOOLS):
        msg = f"policy option tools must be letters out of {TOOLS!r}, got {values['tools']!r}"
        raise UsageError(msg)
    if values["reading"] not in READINGS:
        msg = f"policy option reading must be one of {', '.join(READINGS)}, got {values['reading']!r}"
        raise UsageError(msg)
    return Script(**values)


def _weights(name: str, weights: Any) -> dict[Any, float]:
    if not isinstance(weights, Mapping) or not all(_is_number(w) and w >= 0 for w in weights.values()):
        msg = f"policy option {name} must map names to weights >= 0, got {weights!r}"
        raise UsageError(msg)
    if not sum(weights.values()) > 0:
        msg = f"policy option {name} needs a weight above 0, got {weights!r}"
        raise UsageError(msg)
    return dict(weights)


def _rate(value: Any) -> float:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = -1.0
    if not 0 <= rate <= 1:
        msg = f"policy option slips: a slip rate is from 0 to 1, got {value!r}"
        raise UsageError(msg)
    return rate


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
