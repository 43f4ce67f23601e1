"""Spelling: token ids for turns that are stored as text only, so that the loss `sft` can imitate them.

Invariant: only what has no ids is spelled, with the template and tokenizer of the policy that is trained, and only for
imitation: nothing is known of the distribution that such text came from, so no ratio is ever taken of it. What is in
the store stays as it is; the ids live on the connection of one phase. A turn whose prompt cannot be rebuilt (parts that
are no text, a prompt that ends with a reply) is left without ids, and is refused by name when credit would train it.

Run: ``sera learn --method sft --store STORE`` on a store of scripts, of hosted models, or of imported chats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import pyarrow as pa

from collect.policy import Message
from learn.registered import Registered, query
from schemas.words import FinishReason
from sera_data.conversation import given_messages

if TYPE_CHECKING:
    from collect.renderer import ChatRenderer

BATCH = 2_048
SPELLED = pa.schema(
    [
        ("turn_id", pa.string()),
        ("base_turn", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("completion_ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
    ]
)
Chat = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Spelled:
    """A turn with ids, which later ones may extend; `ended` is how its completion ended."""

    row: dict[str, Any]
    ended: FinishReason
    observation: str


def spell(connection: duckdb.DuckDBPyConnection, renderer: ChatRenderer) -> int:
    """Give ids to the text turns that the connection shows, in its view `turns`; returns how many there are."""
    reader = connection.sql(query("text_turns")).to_arrow_reader(BATCH)
    rows = (row for batch in reader for row in batch.to_pylist())
    table = pa.Table.from_pylist(list(spelled_rows(rows, renderer)), schema=SPELLED)
    if table.num_rows:
        with Registered(connection, "spelled_rows", table):
            connection.execute("create table spelled as select * from spelled_rows")
        connection.execute("alter view turns rename to turns_as_stored")
        connection.execute(query("spelled_turns"))
    return table.num_rows


def spelled_rows(rows: Iterator[dict[str, Any]], renderer: ChatRenderer) -> Iterator[dict[str, Any]]:
    """Rows of `SPELLED` for text turns that come agent by agent, in the order of their steps."""
    for _, turns in groupby(rows, key=lambda row: row["node_id"]):
        known: dict[str, _Spelled] = {}
        before: _Spelled | None = None
        for turn in turns:
            found = _spelled(turn, known, before, renderer)
            if found is not None:
                known[turn["turn_id"]] = before = found
                yield found.row


def _spelled(
    turn: dict[str, Any], known: dict[str, _Spelled], before: _Spelled | None, renderer: ChatRenderer
) -> _Spelled | None:
    """One turn: extends the turn it names, or the one before where it gives no prompt of its own; else a keyframe."""
    given = given_messages(turn)
    base = (
        known.get(turn["base_turn"])
        if turn["base_turn"]
        else before
        if given is None and turn["kind"] == "act"
        else None
    )
    if base is None:
        prompt = keyframe(given if given is not None else _opening(turn), renderer)
    else:
        prompt = _extension(base, given, renderer)
    if prompt is None or not isinstance(turn["text"], str):
        return None
    ended: FinishReason = "length" if turn["finish_reason"] == "length" else "stop"
    completion = [*renderer.encode(turn["text"]), *([renderer.end_id] if ended == "stop" else [])]
    if not completion:
        return None
    row = {
        "turn_id": turn["turn_id"],
        "base_turn": None if base is None else base.row["turn_id"],
        "prompt_ids": prompt,
        "completion_ids": completion,
        "logprobs": [0.0] * len(completion),
    }
    return _Spelled(row, ended, turn["observation"] or "")


def _opening(turn: dict[str, Any]) -> Chat:
    return [{"role": "user", "content": "\n\n".join(t for t in (turn["goal"], turn["context"]) if t)}]


def _extension(base: _Spelled, given: Chat | None, renderer: ChatRenderer) -> list[int] | None:
    """Ids after the base turn's completion: what the world answered, or the stored messages of this turn."""
    answers = [m.get("content") for m in given or ()]
    if given is not None and (not _texts(answers) or any(m["role"] == "assistant" for m in given)):
        return None
    text = "\n\n".join(map(str, answers)) if given is not None else base.observation
    return renderer.append(base.row["completion_ids"], base.ended, text)


def keyframe(messages: Chat, renderer: ChatRenderer) -> list[int] | None:
    """Ids of a whole prompt, replies of earlier turns in it included; None when it cannot be rebuilt."""
    if not _texts([m.get("content") for m in messages]) or not messages or messages[-1]["role"] == "assistant":
        return None
    first = next((i for i, m in enumerate(messages) if m["role"] == "assistant"), len(messages))
    if not first:
        return None
    ids = renderer.open([_message(m) for m in messages[:first]])
    rest = messages[first:]
    while rest:
        stop = next((i for i, m in enumerate(rest) if i and m["role"] == "assistant"), len(rest))
        reply = [*renderer.encode(rest[0]["content"]), renderer.end_id]
        answers = [m["content"] for m in rest[1:stop]]
        if not answers:
            return None
        ids += [*reply, *renderer.append(reply, "stop", "\n\n".join(answers))]
        rest = rest[stop:]
    return ids


def _message(message: dict[str, Any]) -> Message:
    """Tool results and other roles speak as the user does: that is how our own agents see a world."""
    role: Literal["system", "user"] = "system" if message["role"] == "system" else "user"
    return Message(role, message["content"])


def _texts(contents: Sequence[Any]) -> bool:
    return all(isinstance(content, str) for content in contents)
