"""`sera data export`: a store as a Hugging Face dataset folder, chats, preference pairs, or files for TRL and verl.

Invariant: the store is only read; what a format cannot hold is listed; a target appears whole or not at all.

Run: ``sera data export STORE chats.jsonl --to chat``.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sera_data.printing import print_json
from sera_data.sql_cli import ViewName
from sera_data.store_argument import Json, StorePath, open_path

if TYPE_CHECKING:
    import duckdb

    from sera_data.losses import Losses
    from sera_data.prompt_decoder import PromptDecoder

DELEGATIONS = "which agent launched which: every agent is a chat of its own (node_id and depth ride along)"
SCORES = "rubrics, scores, log-probabilities and states of the world"


class Target(StrEnum):
    """What to write."""

    hf = "hf"
    chat = "chat"
    preferences = "preferences"
    trl = "trl"
    verl = "verl"


class Agents(StrEnum):
    """Whose chats."""

    successful = "successful"
    factual = "factual"
    all = "all"


def export(
    store: StorePath,
    out: Annotated[Path, typer.Argument(help="File (chat, preferences) or folder (hf, trl, verl) to make.")],
    to: Annotated[
        Target,
        typer.Option(help="hf: dataset folder with card; chat, preferences: JSON lines; trl, verl: their files."),
    ],
    agents: Annotated[
        Agents, typer.Option(help="Whose chats: on the path of successful trees, on any path, or all.")
    ] = Agents.successful,
    per_group: Annotated[int, typer.Option(min=1, help="Preference pairs per delegation, at most.")] = 4,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Policy or model directory that decodes stored prompts; see docs/exchange.md.")
    ] = None,
    view: Annotated[ViewName, typer.Option(help="live: committed shards too; sealed: sealed only.")] = ViewName.live,
    snapshot: Annotated[str | None, typer.Option(help="Read what this snapshot names.")] = None,
    as_json: Json = False,
) -> None:
    """Write a store in a form that other tools load, and list what it cannot hold.

    Example: sera data export runs/demo/store chats.jsonl --to chat --tokenizer runs/demo/policies/v000000
    """
    from sera_data.export_files import new_target, require_new
    from sera_data.losses import Losses

    opened = open_path(store)
    require_new(out)
    if to is Target.hf:
        from sera_data.dataset_folder import write_folder

        losses = Losses()
        with new_target(out) as path:
            counts = write_folder(opened, path, losses=losses)
    else:
        losses = Losses(DELEGATIONS, SCORES)
        connection = opened.connect(view=view.value, snapshot=snapshot)
        opening = _decoder(connection, tokenizer)
        with new_target(out) as path:
            counts = _write(to, connection, path, agents=agents, per_group=per_group, losses=losses, opening=opening)
    _report(out, counts, losses, as_json=as_json)


def _decoder(connection: duckdb.DuckDBPyConnection, directory: Path | None) -> PromptDecoder | None:
    if directory is None:
        return None
    from sera_data.prompt_decoder import PromptDecoder
    from sera_data.queries import query

    decoder = PromptDecoder(directory)
    decoder.require_known([sha for (sha,) in connection.sql(query("export_tokenizers")).fetchall()])
    return decoder


def _write(
    to: Target,
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    *,
    agents: Agents,
    per_group: int,
    losses: Losses,
    opening: PromptDecoder | None,
) -> dict[str, int]:
    from sera_data import export_files as files
    from sera_data import exports

    known: dict[str, Any] = {"losses": losses, "opening": opening}
    if to is Target.chat:
        return {path.name: files.write_jsonl(path, exports.chat_rows(connection, which=agents.value, **known))}
    if to is Target.preferences:
        rows = exports.preference_rows(connection, per_group=per_group, **known)
        return {path.name: files.write_jsonl(path, rows)}
    path.mkdir()
    chats = exports.chat_rows(connection, which=agents.value, **known)
    if to is Target.verl:
        plain = (exports.plain_messages(row, losses) for row in chats)
        return {
            "sft.parquet": files.write_parquet(path / "sft.parquet", plain, files.CHATS),
            "rl.parquet": files.write_parquet(path / "rl.parquet", exports.task_rows(connection, **known), files.TASKS),
        }
    pairs = exports.preference_rows(connection, per_group=per_group, **known)
    tokens = exports.tokens_rows(connection, which=agents.value, losses=losses)
    return {
        "sft.jsonl": files.write_jsonl(path / "sft.jsonl", chats),
        "preference.jsonl": files.write_jsonl(path / "preference.jsonl", pairs),
        "unpaired.jsonl": files.write_jsonl(path / "unpaired.jsonl", exports.unpaired_rows(connection, **known)),
        "tokens.parquet": files.write_parquet(path / "tokens.parquet", tokens, files.TOKENS),
    }


def _report(out: Path, counts: dict[str, int], losses: Losses, *, as_json: bool) -> None:
    names = {out.name if len(counts) == 1 and not out.is_dir() else name: n for name, n in counts.items()}
    if as_json:
        print_json({"out": str(out), "rows": names, "lost": losses.lines()})
        return
    print(f"wrote {out}")
    for name, n in names.items():
        print(f"  {name}: {n} rows")
    for line in losses.lines():
        print(f"  not carried over: {line}")
