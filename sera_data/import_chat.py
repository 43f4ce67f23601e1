"""Import of chat JSON lines: OpenAI `messages`, ShareGPT `conversations`, or TRL's `prompt` and `completion`.

Invariant: messages are kept as they are, in order; what the line says of its task and verdict is kept where a store has
a place for it. Our own export is read back with its ids in the task's spec.

Run: ``sera data import STORE chats.jsonl --from chat``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.episode import Episode, fault, first_user, require_object, steps_of
from sera_data.import_text import json_lines, messages_of, number_of

if TYPE_CHECKING:
    from sera_data.losses import Losses

LOST = ("token ids and log-probabilities (chats have none)", "which agent launched which")
VERDICTS = ("success", "label", "reward", "score", "correct", "resolved")
IDS = ("node_id", "id", "instance_id", "conversation_id", "uuid")
USED = {
    *VERDICTS,
    *IDS,
    "messages",
    "conversations",
    "prompt",
    "completion",
    "goal",
    "task_id",
    "outcome",
    "model",
    "ok",
}


def read_chat(path: Path, losses: Losses) -> Iterator[Episode]:
    """Episodes of a file; ImportFault names the line of a fault."""
    for place, value in json_lines(path):
        row = require_object(value, place, "a line")
        messages = messages_of(_messages(row, place), place, losses)
        steps, after = steps_of(messages)
        if not steps:
            fault(place, "the chat has no assistant message")
        _mark(steps, row, place)
        goal = str(row.get("goal") or first_user(messages, "(no user message)"))
        source = next((str(row[name]) for name in IDS if row.get(name) is not None), place.rpartition("/")[2])
        verdict = next((name for name in VERDICTS if row.get(name) is not None), None)
        for name in sorted(set(row) - USED):
            losses.add(f"member {name!r} of lines")
        yield Episode(
            place=place,
            source_id=source,
            key=str(row.get("task_id") or goal),
            goal=goal,
            steps=steps,
            after=after,
            score=None if verdict is None else number_of(row[verdict], place, verdict),
            checker=verdict or "import",
            model=None if row.get("model") is None else str(row["model"]),
        )


def _messages(row: dict[str, Any], place: str) -> Any:
    if "messages" in row or "conversations" in row:
        return row.get("messages", row.get("conversations"))
    if isinstance(row.get("prompt"), list) and isinstance(row.get("completion"), list):
        return [*row["prompt"], *row["completion"]]
    if isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        return [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["completion"]}]
    got = ", ".join(sorted(row)) or "none"
    return fault(place, f"a line needs 'messages', 'conversations', or 'prompt' and 'completion', got {got}")


def _mark(steps: list[Any], row: dict[str, Any], place: str) -> None:
    """`ok` of our own export: which completions failed."""
    ok = row.get("ok")
    if isinstance(ok, list):
        if len(ok) != len(steps):
            fault(place, f"'ok' has {len(ok)} values for {len(steps)} assistant messages")
        for step, fine in zip(steps, ok, strict=True):
            step.error = None if fine else "the source marked this completion as failed"
