"""What `sera data export` writes: chats, preference pairs, and the files that TRL and verl load.

Invariant: a row is made by a pure function of what the store holds; columns are those that the target's loader reads
(TRL: `messages`, `prompt` + `chosen` + `rejected`, `prompt` + `completion` + `label`, `input_ids` + `labels`; verl:
`messages`, or `data_source`, `prompt`, `ability`, `reward_model`, `extra_info`), and the store's ids ride along.

Run: ``sera data export STORE OUT --to chat``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sera_data.conversation import Conversation, conversations, node_conversations, node_turns
from sera_data.queries import query
from sera_data.token_sequences import token_rows

if TYPE_CHECKING:
    import duckdb

    from sera_data.conversation import Opening, Which
    from sera_data.losses import Losses

Row = dict[str, Any]
IDS = ("node_id", "tree_id", "task_id", "run_id", "epoch", "depth")
CALLS = "messages whose tool calls are JSON in their content, because a column of Parquet has one type"
REASONING = "messages whose separate reasoning is left out"
NO_IDS = "agents without token ids: not in the token files"


def chat_rows(
    connection: duckdb.DuckDBPyConnection, *, which: Which, losses: Losses, opening: Opening | None
) -> Iterator[Row]:
    """One chat a row: `messages`, and the ids, goal, outcome and verdicts of its agent.

    ok: per completion, whether it parsed and the world accepted it; a trainer may want to skip the others.
    """
    for chat in conversations(connection, which=which, losses=losses, opening=opening):
        facts = {name: chat.facts[name] for name in (*IDS, "goal", "outcome", "success", "tree_success")}
        yield {"messages": chat.messages, **facts, "ok": chat.ok}


def preference_rows(
    connection: duckdb.DuckDBPyConnection, *, per_group: int, losses: Losses, opening: Opening | None
) -> Iterator[Row]:
    """A success and a failure of one delegation: `prompt`, `chosen`, `rejected`, ids of both, score margin."""
    pairs = connection.sql(query("export_preferences"), params={"per_group": per_group}).pl()
    wanted = {*pairs["win_node"], *pairs["lose_node"]}
    chats: dict[str, Conversation] = {}
    for facts, turns in node_turns(connection, "branches"):
        if facts["node_id"] in wanted:
            chats[facts["node_id"]] = node_conversations(facts, turns, losses=losses, opening=opening)[0]
    for pair in pairs.iter_rows(named=True):
        win, lose = chats.get(pair["win_node"]), chats.get(pair["lose_node"])
        if win is None or lose is None:
            losses.add("pairs with a branch that took no turn")
            continue
        row = {"prompt": _prompt(win), "chosen": _answer(win), "rejected": _answer(lose)}
        if row["prompt"] != _prompt(lose):
            losses.add("pairs whose branches were asked differently")
        elif row["chosen"] == row["rejected"]:
            losses.add("pairs whose branches wrote the same")
        else:
            yield {**row, **{k: pair[k] for k in ("delegation_id", "task_id", "tree_id", "depth", "margin")}}


def unpaired_rows(connection: duckdb.DuckDBPyConnection, *, losses: Losses, opening: Opening | None) -> Iterator[Row]:
    """Every agent with a verdict, off the path too: `prompt`, `completion`, `label`."""
    for chat in conversations(connection, which="branches", losses=losses, opening=opening):
        facts = {name: chat.facts[name] for name in IDS}
        yield {"prompt": _prompt(chat), "completion": _answer(chat), "label": chat.facts["success"] == 1, **facts}


def tokens_rows(connection: duckdb.DuckDBPyConnection, *, which: Which, losses: Losses) -> Iterator[Row]:
    """Token-exact sequences: `input_ids`, `labels`; a turn that was not ok is context and never trained."""
    for facts, turns in node_turns(connection, which):
        losses.add(NO_IDS, n=int(all(t["completion_ids"] is None for t in turns)))
        for sequence in token_rows(turns):
            ids = {name: facts[name] for name in IDS}
            yield {"input_ids": sequence.input_ids, "labels": sequence.labels, **ids}


def task_rows(connection: duckdb.DuckDBPyConnection, *, losses: Losses, opening: Opening | None) -> Iterator[Row]:
    """verl's rows for RL: the prompt of every task's root, with the task's own content as ground truth."""
    tasks = {row["node_id"]: row for row in connection.sql(query("export_tasks")).pl().iter_rows(named=True)}
    index = 0
    for facts, turns in node_turns(connection, "all"):
        task = tasks.get(facts["node_id"])
        if task is None:
            continue
        chat = node_conversations(facts, turns, losses=losses, opening=opening)[0]
        extra = {"split": task["split"], "index": index, "task_id": task["task_id"], "difficulty": task["difficulty"]}
        yield {
            "data_source": task["world"],
            "prompt": [{"role": m["role"], "content": str(m["content"])} for m in _prompt(chat)],
            "ability": "agent",
            "reward_model": {"style": "rule", "ground_truth": task["spec"]},
            "extra_info": {**extra, "profile": task["profile"], "upstream_id": task["upstream_id"]},
        }
        index += 1


def plain_messages(row: Row, losses: Losses) -> Row:
    """The row with messages of role and content alone, as columns of Parquet must be; calls go into the content."""
    losses.add(CALLS, n=sum(bool(m.get("tool_calls")) for m in row["messages"]))
    losses.add(REASONING, n=sum(bool(m.get("reasoning_content")) for m in row["messages"]))
    return {**row, "messages": [plain_message(m) for m in row["messages"]]}


def plain_message(message: dict[str, Any]) -> dict[str, str]:
    """Role and content; tool calls are appended to the content as JSON."""
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)
    calls = message.get("tool_calls")
    if calls:
        text = "\n".join(t for t in (text, json.dumps(calls, ensure_ascii=False)) if t)
    return {"role": message["role"], "content": text}


def _prompt(chat: Conversation) -> list[dict[str, Any]]:
    return chat.messages[: chat.n_opening]


def _answer(chat: Conversation) -> list[dict[str, Any]]:
    return chat.messages[chat.n_opening :]
