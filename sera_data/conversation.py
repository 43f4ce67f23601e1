"""Agents of a store as chats: the messages that an agent saw and wrote, in order.

Invariant: a chat is rebuilt from what is stored and nothing is invented: the opening is the stored prompt text, or the
stored prompt ids decoded by the tokenizer that made them; without either it is the agent's goal alone, and that is
counted as a loss. What the world answered is a user message. A turn that continues another than the one before
starts a chat of its own, because two continuations are two chats.

Run: ``for chat in conversations(connection, which="successful", losses=Losses()): ...``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sera_data.queries import query

if TYPE_CHECKING:
    import duckdb

    from sera_data.losses import Losses

Which = Literal["successful", "factual", "branches", "all"]
Message = dict[str, Any]
BATCH = 2_048
FACTS = (
    *("node_id", "tree_id", "task_id", "run_id", "epoch", "parent_id", "delegation_id", "branch", "depth", "purpose"),
    *("goal", "outcome", "success", "tree_success", "world", "split", "difficulty", "upstream_id"),
)
CARRIED = ("tool_calls", "reasoning_content")
"""Members of an assistant message that an import keeps in `action` and a chat gives back."""
NO_OPENING = (
    "openings that are token ids only: the chat begins with the goal, without system prompt and first view"
    " (--tokenizer DIR decodes them)"
)


class Opening(Protocol):
    """Turns the ids of a whole prompt into its messages."""

    def __call__(self, ids: list[int]) -> list[Message]:
        """The messages; raises a SeraError for ids that this tokenizer and template did not make."""
        ...


@dataclass(slots=True)
class Conversation:
    """One chat of one agent. facts: columns of its node and task. n_opening: messages before the first completion.

    ok: per assistant message that was a completion, whether it parsed and the world accepted it.
    """

    facts: dict[str, Any]
    messages: list[Message] = field(default_factory=list)
    n_opening: int = 0
    ok: list[bool] = field(default_factory=list)

    def copy(self, *, upto: int, n_ok: int) -> Conversation:
        """The same chat up to a message."""
        return Conversation(self.facts, self.messages[:upto], self.n_opening, self.ok[:n_ok])


def node_turns(
    connection: duckdb.DuckDBPyConnection, which: Which
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Facts and act turns of every agent chosen, agent by agent; holds one batch of turns in memory."""
    relation = connection.sql(query("export_turns"), params={"which": which})
    rows = (row for batch in relation.to_arrow_reader(BATCH) for row in batch.to_pylist())
    for _, turns in groupby(rows, key=lambda row: row["node_id"]):
        found = list(turns)
        yield {name: found[0][name] for name in FACTS}, found


def conversations(
    connection: duckdb.DuckDBPyConnection, *, which: Which, losses: Losses, opening: Opening | None = None
) -> Iterator[Conversation]:
    """Chats of the agents chosen, in the order of their ids; an agent may have several (see the module)."""
    for facts, turns in node_turns(connection, which):
        yield from node_conversations(facts, turns, losses=losses, opening=opening)


def node_conversations(
    facts: dict[str, Any], turns: list[dict[str, Any]], *, losses: Losses, opening: Opening | None = None
) -> list[Conversation]:
    """The chats of one agent, in the order in which they begin."""
    chats: list[Conversation] = []
    ends: dict[str, tuple[Conversation, int, int]] = {}
    by_id = {turn["turn_id"]: turn for turn in turns}
    before: dict[str, Any] = {}
    for turn in turns:
        given, base = given_messages(turn), turn["base_turn"]
        if not chats or (base is None and given is not None):
            chats.append(Conversation(facts))
        elif base in ends and len(ends[base][0].messages) != ends[base][1]:
            chat, upto, n_ok = ends[base]
            chats.append(chat.copy(upto=upto, n_ok=n_ok))
        chat = ends[base][0] if base in ends and len(ends[base][0].messages) == ends[base][1] else chats[-1]
        if not chat.messages:
            chat.messages += given if given is not None else _opening(facts, turn, losses, opening)
            chat.n_opening = len(chat.messages)
        else:
            answer = {"role": "user", "content": by_id.get(base, before)["observation"] or ""}
            chat.messages += [answer] if given is None else given
        chat.messages.append(_reply(turn))
        chat.ok.append(turn["ok"])
        ends[turn["turn_id"]] = (chat, len(chat.messages), len(chat.ok))
        before = turn
    return chats


def given_messages(turn: dict[str, Any]) -> list[Message] | None:
    """The prompt of a turn as stored text: messages as JSON, or plain words of a user; None when it is ids."""
    text = turn["prompt_text"]
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, list) and all(isinstance(m, dict) and "role" in m for m in found):
        return [{"role": m["role"], "content": m.get("content"), **m} for m in found]
    return [{"role": "user", "content": text}]


def _opening(facts: dict[str, Any], turn: dict[str, Any], losses: Losses, opening: Opening | None) -> list[Message]:
    if opening is not None and turn["prompt_ids"] is not None:
        return opening(turn["prompt_ids"])
    losses.add(NO_OPENING)
    return [{"role": "user", "content": "\n\n".join(t for t in (facts["goal"], turn["context"]) if t)}]


def _reply(turn: dict[str, Any]) -> Message:
    message: Message = {"role": "assistant", "content": turn["text"]}
    action = turn["action"]
    if action is not None and any(f'"{name}"' in action for name in CARRIED):
        kept = json.loads(action)
        message.update({name: kept[name] for name in CARRIED if isinstance(kept, dict) and name in kept})
    return message
