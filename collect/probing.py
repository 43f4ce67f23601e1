"""A policy that knows no world: it tries the documented tools with words of their documentation, delegates, finishes.

Invariant: what it says depends on the seed of the request and the turn only, so a tree of it repeats; it keeps every
request it got, so that prompts can be looked at.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

from collect.policy import Completion, Identity, Renderer, Request

RUBRIC = {
    "rubric_items": [
        {"name": "done", "description": "what was asked for is there", "weight": 0.7},
        {"name": "short", "description": "few steps were used", "weight": 0.3},
    ],
    "success_gate": "what was asked for is there",
    "failure_conditions": "it is not",
    "scoring_procedure": "weigh the criteria",
}
SCORE = {"success": True, "criterion_scores": [0.5, 0.5], "final_score": 0.5}
WORDS = re.compile(r"[\w-]+")


class Prober:
    """Plays every role; `requests` are those it answered, in order."""

    renderer: Renderer | None = None
    trainable: bool = False

    def __init__(self) -> None:
        self.identity = Identity("probe", "scripted", 0)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        """Answer one request at once."""
        self.requests.append(request)
        if request.role != "act":
            text = json.dumps(RUBRIC if request.role == "writer" else SCORE)
        else:
            tool, arguments = _move(request)
            text = request.facts["dialect"].write(tool, arguments)
        return Completion(text, None, None, "stop", "none", 0)

    def release(self, session: str) -> None:
        """Nothing is held."""

    async def close(self) -> None:
        """Nothing is held."""


def _move(request: Request) -> tuple[str, dict[str, Any]]:
    facts, rng = request.facts, random.Random(request.sampling.seed)
    world, agent, step = facts["world"], facts["agent"], len(facts["history"])
    if facts["turns_left"] <= 1:
        return "finish", {"message": "tried"}
    if step == 1 and agent.depth < facts["max_depth"] and agent.targets is not None:
        targets = {"goal": agent.targets["goal"]} if world.goal_kind == "text" else dict(agent.targets)
        return "delegate", {"targets": targets}
    tool = rng.choice(world.tools())
    arguments = {name: value for name, value in json.loads(tool.example).items() if name != "tool"}
    words = [word for word in WORDS.findall(tool.doc) if not word[0].isupper()]
    for name, value in arguments.items():
        if isinstance(value, str) and words and rng.random() < 0.7:
            arguments[name] = rng.choice(words)
    return tool.name, arguments
