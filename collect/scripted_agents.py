"""The act programs of the scripted policies: an honest crafter, its slips, and agents that misbehave on purpose.

Invariant: a decision depends only on the agent's belief (what its prompt shows), its style and the request's seed.
Every call is a dictionary in the order of the JSON dialect.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from collect.planner import Craft, Plan
from collect.recipes import VARIANTS, is_base_name
from collect.scripted_belief import DONE, Belief, tier_of, to_look_up

Call = dict[str, Any]
Delegates = Literal["never", "ingredients", "capacity"]
SMALL_TIER = 3  # up to here recipes are shallow: ingredients are delegated without a look at theirs
GROUP = 4  # most targets of one launch
CRAFTS_PER_LAUNCH = 7  # what a child that delegates itself is trusted to get done per turn
SPARE_TURNS = 3
CONSIDERED = 10  # largest loads that are compared


@dataclass(frozen=True, slots=True)
class Style:
    """How an agent works: probability of a slip per decision, when it delegates, whether it ever finishes.

    hasty: claims to be done as soon as something on the way to its targets was made. shirks: as a child, claims to be
    done as soon as it has looked something up. fumbles: its first craft asks for one too many of an ingredient, fails
    and is repaired.
    """

    slip: float = 0.0
    delegates: Delegates = "never"
    finishes: bool = True
    hasty: bool = False
    shirks: bool = False
    fumbles: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """Where an agent stands: its depth, the depth limit, turns left with this one, and turns it had at first."""

    depth: int
    max_depth: int
    turns_left: int
    budget: int


def craft_call(craft: Craft) -> Call:
    """The call of one planned craft."""
    return {"tool": "craft", "target": [craft.item, craft.count], "ingredients": dict(craft.needs)}


def finish_call(message: str = DONE) -> Call:
    """The finishing call."""
    return {"tool": "finish", "message": message}


def crafter(belief: Belief, situation: Situation, style: Style, rng: random.Random) -> Call:
    """Looks up, delegates, crafts, and finishes when it believes that its targets are gained."""
    lacking = belief.lacking()
    if not lacking:
        return finish_call() if style.finishes else {"tool": "view_inventory"}
    if (style.hasty and belief.progress) or (style.shirks and situation.depth > 0 and belief.known):
        return finish_call()
    if situation.turns_left <= 1 and style.finishes:
        return finish_call("failed" if style.slip == 0 else DONE)
    if _slips(rng, style, 0.3) and belief.turns > 0:
        return finish_call()  # stops early, and claims success
    if belief.failed and _slips(rng, style, 0.6):
        return finish_call()  # does not repair
    if belief.doubt:
        return {"tool": "view_inventory"}
    call = _next_call(belief, situation, style, rng)
    if style.fumbles and call["tool"] == "craft" and belief.attempts == 0:
        first = next(iter(call["ingredients"]))
        return {**call, "ingredients": {**call["ingredients"], first: call["ingredients"][first] + 1}}
    return _slipped(call, rng) if _slips(rng, style, 1.0) else call


def _next_call(belief: Belief, situation: Situation, style: Style, rng: random.Random) -> Call:
    plan = belief.plan()
    unknown = to_look_up(list(plan.missing), belief)
    may_delegate = style.delegates != "never" and situation.depth < situation.max_depth and not belief.refused
    small = all(tier_of(item) <= SMALL_TIER for item in belief.targets)
    if may_delegate and (small or style.delegates == "ingredients"):
        launch = _ingredient_launch(belief, unknown)
        if launch:
            return launch
    if unknown:
        return {"tool": "get_info", "items": unknown}
    if plan.missing:
        return finish_call("failed")
    if may_delegate and not small and style.delegates == "capacity":
        launch = _capacity_launch(belief, situation, plan)
        if launch:
            return launch
    return craft_call(plan.crafts[0])


def _ingredient_launch(belief: Belief, unknown: list[str]) -> Call | None:
    """Delegate the deepest craftable ingredient that is short; None before the targets are looked up.

    Deeper ingredients come first, because their making may use up shallower ones.
    """
    missing = belief.plan().missing
    waiting = [item for item in unknown if item not in belief.targets and belief.tried.get(item, 0) < 2]
    if len(waiting) < len(unknown) or not waiting:
        return None
    item = max(waiting, key=lambda name: (tier_of(name), name))
    return {"tool": "delegate", "targets": {item: missing[item]}}


def _capacity_launch(belief: Belief, situation: Situation, plan: Plan) -> Call | None:
    """Delegate the group of intermediates that leaves the least to do and that a child can do; None = do it alone."""
    if len(plan.crafts) + 1 <= situation.turns_left:
        return None
    counts = {craft.item: craft.count for craft in plan.crafts if craft.item not in belief.targets}
    single = [_load(belief, {item: count}) for item, count in counts.items()]
    near = sorted((load for load in single if _fits(load, situation)), key=lambda load: -len(load.crafts))[:CONSIDERED]
    if not near:
        return None
    chosen = min(near, key=lambda load: _left(belief, load))
    while len(chosen.targets) < GROUP:
        wider = [_load(belief, {**chosen.targets, **extra.targets}) for extra in near]
        options = [load for load in wider if len(load.targets) > len(chosen.targets) and _fits(load, situation)]
        best = min(options, key=lambda load: _left(belief, load), default=chosen)
        if best is chosen or _left(belief, best) >= _left(belief, chosen):
            break
        chosen = best
    return {"tool": "delegate", "targets": dict(chosen.targets)}


@dataclass(frozen=True, slots=True)
class _Load:
    """Targets that a child might get and the crafts that they take."""

    targets: Mapping[str, int]
    crafts: tuple[Craft, ...]


def _load(belief: Belief, targets: Mapping[str, int]) -> _Load:
    return _Load(targets, belief.plan_for(targets).crafts)


def _left(belief: Belief, load: _Load) -> int:
    """Craft calls that remain when a child has made the load."""
    return belief.crafts_for(belief.lacking(), belief.after(load.targets, load.crafts))


def _fits(load: _Load, situation: Situation) -> bool:
    """Whether a child can do the load within its turns: rounds of look-ups, its crafts or launches, finish."""
    rounds = dict.fromkeys(load.targets, 1)
    for craft in reversed(load.crafts):
        for name in craft.needs:
            rounds[name] = max(rounds.get(name, 0), rounds.get(craft.item, 1) + 1)
    looks = max((rounds.get(craft.item, 1) for craft in load.crafts), default=1)
    if looks + len(load.crafts) + 1 <= situation.budget:
        return True
    if situation.depth + 1 >= situation.max_depth:
        return False
    return looks + -(-len(load.crafts) // CRAFTS_PER_LAUNCH) + SPARE_TURNS <= situation.budget


def _slips(rng: random.Random, style: Style, share: float) -> bool:
    return style.slip > 0 and rng.random() < style.slip * share


def _slipped(call: Call, rng: random.Random) -> Call:
    """The same call with a mistake that agents make; look-ups are skipped over by a guess or done in part."""
    if call["tool"] == "craft":
        return _slipped_craft(call, rng)
    if call["tool"] == "delegate":
        return {**call, "targets": {item: max(1, n - 1) for item, n in call["targets"].items()}}  # under-asks
    if call["tool"] == "get_info" and len(call["items"]) > 1:
        return {**call, "items": call["items"][:1]}
    return call


def _slipped_craft(call: Call, rng: random.Random) -> Call:
    item, count = call["target"]
    needs: dict[str, int] = dict(call["ingredients"])
    kind = rng.choice(("yield", "amount", "forget", "short"))
    name = rng.choice(sorted(needs))
    if kind == "yield":
        return {**call, "target": [item, count + rng.choice((-1, 1)) if count > 1 else count + 1]}
    if kind == "forget" and len(needs) > 1:
        del needs[name]
    elif kind == "short":
        divisor = min(needs.values())
        if divisor > 1 and count % divisor == 0 and all(amount % divisor == 0 for amount in needs.values()):
            needs = {key: amount // divisor for key, amount in needs.items()}
            return {**call, "target": [item, count // divisor], "ingredients": needs}
        needs[name] += 1
    else:
        needs[name] = max(1, needs[name] + rng.choice((-1, 1)))
    return {**call, "ingredients": needs}


def family_of(item: str) -> str:
    """Letter of the domain that an item belongs to."""
    return item.removeprefix("raw_")[0]


def saboteur(belief: Belief, situation: Situation, rng: random.Random) -> Call:
    """Uses up materials in products that nobody asked for, then claims to be done."""
    if situation.turns_left <= 1:
        return finish_call()
    if not belief.known:
        return {"tool": "get_info", "items": _junk_names(belief)}
    for item in sorted(belief.recipes):
        recipe = belief.recipes[item]
        times = min(belief.stock.get(name, 0) // count for name, count in recipe.needs.items())
        if item not in belief.targets and times > 0:
            needs = {name: count * times for name, count in recipe.needs.items()}
            return craft_call(Craft(item, recipe.makes * times, times, needs))
    return finish_call()


def _junk_names(belief: Belief) -> list[str]:
    """First-tier products of the domains that the stock comes from."""
    domains = sorted({family_of(name) for name in belief.stock if is_base_name(name)})
    return [f"{domain}{variant}_i1" for domain in domains or ["m"] for variant in range(VARIANTS)]


def wanderer(belief: Belief, situation: Situation, rng: random.Random) -> Call | str:
    """Random calls; now and then a reply that is no call at all."""
    names = sorted({*belief.stock, *belief.targets, *belief.recipes})
    item = rng.choice(names)
    draw = rng.random()
    if draw < 0.05:
        return "I am not sure what to do."
    if draw < 0.35:
        return {"tool": "get_info", "items": [item]}
    if draw < 0.45:
        return {"tool": "view_inventory"}
    if draw < 0.55 and situation.depth < situation.max_depth:
        target = rng.choice(sorted({*belief.targets, *belief.recipes}))
        return {"tool": "delegate", "targets": {target: rng.randint(1, 3)}}
    if draw < 0.9:
        return _random_craft(belief, item, rng)
    return finish_call()


def _random_craft(belief: Belief, item: str, rng: random.Random) -> Call:
    recipe = belief.recipes.get(item)
    if recipe is None:
        return {
            "tool": "craft",
            "target": [item, 1],
            "ingredients": {rng.choice(sorted(belief.stock) or ["m0_ore"]): 1},
        }
    times = rng.randint(1, 3)
    needs = {name: count * times for name, count in recipe.needs.items()}
    return craft_call(Craft(item, recipe.makes * times, times, needs))


def teacher_style(
    rng: random.Random, *, slips: Mapping[float, float], delegate: float, hasty: float, shirk: float, fumble: float
) -> Style:
    """Style of one agent: a slip rate drawn by the weights; by the given chances it delegates and has each habit."""
    slip = rng.choices(list(slips), list(slips.values()))[0]
    delegates: Delegates = "ingredients" if rng.random() < delegate else "never"
    hasty_, shirks, fumbles = (rng.random() < share for share in (hasty, shirk, fumble))
    return Style(slip, delegates, hasty=hasty_, shirks=shirks, fumbles=fumbles)
