"""Judges without a model: plain rules over the same case, for work without a network and as a yardstick.

Invariant: a rule sees exactly what a model's prompt shows and answers in the same form, through the same parser.
A judge worth its price agrees with the program better than `finish`, which believes every agent that says it is done.

Run: ``sera label STORE --judge rule:finish``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collect.judge import Reply
from collect.policy import Message
from collect.subject import Case
from sera_data.canonical import canonical_json
from sera_data.errors import UsageError

Rule = Callable[[Case], tuple[bool, str]]


def _finish(case: Case) -> tuple[bool, str]:
    done = case.finish == "yes" and bool((case.report or "").strip())
    return done, "it says that it has finished" if done else "it never reported an end"


def _change(case: Case) -> tuple[bool, str]:
    done, _ = _finish(case)
    moved = bool(case.change)
    return done and moved, "it reported an end and changed the world" if done and moved else "no end or no change"


RULES: Mapping[str, Rule] = {"finish": _finish, "change": _change}
"""finish: the agent finished with a report. change: it did, and the world is not what it was at its start."""


class RuleEngine:
    """A rule as a judge's engine."""

    def __init__(self, rule: str) -> None:
        self.rule, self.name = RULES[rule], f"rule-{rule}"

    def parameters(self, seed: int | None) -> dict[str, Any]:
        """The rule's name."""
        return {"rule": self.name}

    async def answer(self, case: Case, messages: Sequence[Message], *, seed: int | None) -> Reply:
        """The rule's verdict as a judge would write it."""
        success, reason = self.rule(case)
        text = canonical_json({"success": success, "reason": reason})
        return Reply(text=text, raw=text, prompt_tokens=0, completion_tokens=0, latency_s=0.0)

    def clean(self, text: str) -> str:
        """As it is: rules know no secrets."""
        return text

    async def close(self) -> None:
        """Nothing to free."""


def open_rule(argument: str) -> RuleEngine:
    """The rule of that name; UsageError with the names there are."""
    if argument not in RULES:
        msg = f"no judging rule {argument!r}; allowed: {', '.join(RULES)}"
        raise UsageError(msg, hint="for example rule:finish")
    return RuleEngine(argument)
