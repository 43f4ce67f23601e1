"""One agent's run as somebody else's tool recorded it, before it becomes rows of a store.

Invariant: nothing is guessed: ids and log-probabilities are there exactly as recorded or not at all, and an episode
knows where it came from (`path:line`), so that every fault names its place.

Run: readers in `sera_data/import_*.py` yield these; `import_rows.episode_rows` makes rows of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from schemas.words import FinishReason, Outcome
from sera_data.errors import UsageError

Message = dict[str, Any]


class ImportFault(UsageError):
    """A file that is not what its format says; the message begins with `path:line`."""


@dataclass(slots=True)
class Step:
    """One completion. prompt: messages since the completion that it extends, or all for the first one.

    base: index of the step that it extends; None = it begins a prompt of its own. prompt_ids: ids after the base's
    prompt and completion (all of them without a base). logprobs: one per completion id, or None.
    """

    prompt: list[Message]
    reply: Message
    base: int | None = None
    prompt_ids: list[int] | None = None
    completion_ids: list[int] | None = None
    logprobs: list[float] | None = None
    finish_reason: FinishReason = "stop"
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 0
    model: str | None = None
    trainable: bool = True
    error: str | None = None
    latency_s: float | None = None


@dataclass(slots=True)
class Episode:
    """One root episode. place: `path:line` or `path!member`. key: what episodes of one task share.

    score: what its own checker gave (None = not judged), checker: that checker's name. after: messages that came after
    the last completion. extra: what else is worth keeping of the task, as JSON values.
    """

    place: str
    source_id: str
    key: str
    goal: str
    steps: list[Step] = field(default_factory=list)
    after: list[Message] = field(default_factory=list)
    score: float | None = None
    checker: str = "import"
    details: Any = None
    outcome: Outcome = "finished"
    error: str | None = None
    model: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    sample: int | None = None


def fault(place: str, what: str, *, hint: str | None = None) -> NoReturn:
    """Raise the one error of a file that is not what it should be."""
    msg = f"{place}: {what}"
    raise ImportFault(msg, hint=hint)


def steps_of(messages: Iterable[Message]) -> tuple[list[Step], list[Message]]:
    """A linear chat as steps, each extending the one before; and the messages after the last completion."""
    steps: list[Step] = []
    pending: list[Message] = []
    for message in messages:
        if message["role"] != "assistant":
            pending.append(message)
            continue
        steps.append(Step(prompt=pending, reply=message, base=len(steps) - 1 if steps else None))
        pending = []
    return steps, pending


def first_user(messages: Iterable[Message], default: str) -> str:
    """What a chat is about: its first user message as text."""
    return next((text_of(m) for m in messages if m["role"] == "user" and text_of(m).strip()), default)


def text_of(message: Message) -> str:
    """The text of a message; parts that are not text are left out."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(
            str(p.get("text", "")) for p in content if isinstance(p, dict) and p.get("type", "text") == "text"
        )
    return "" if content is None else str(content)


def require_object(value: Any, place: str, what: str) -> dict[str, Any]:
    """The value, if it is a JSON object."""
    if not isinstance(value, dict):
        fault(place, f"{what} must be a JSON object, got {shown(value)}")
    return value


def require_list(value: Any, place: str, what: str) -> list[Any]:
    """The value, if it is a JSON list."""
    if not isinstance(value, list):
        fault(place, f"{what} must be a list, got {shown(value)}")
    return value


def optional_object(value: Any, place: str, what: str) -> dict[str, Any]:
    """The value, if it is a JSON object; an absent one is empty."""
    return {} if value is None else require_object(value, place, what)


def optional_list(value: Any, place: str, what: str) -> list[Any]:
    """The value, if it is a JSON list; an absent one is empty."""
    return [] if value is None else require_list(value, place, what)


def shown(value: Any) -> str:
    """A value as an error shows it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
