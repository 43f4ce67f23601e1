"""Sequences: credited spans and stored turns become datums through the token rule.

Invariant: a turn's full prompt is its base turn's full prompt + completion + its own `prompt_ids`, so concatenation
reproduces exactly what the engine saw; nothing is re-tokenised. Turns that extend each other share one sequence, every
credited turn is trained in exactly one, and a sequence ends with its last trained token.

Memory: read one by one, the turns of at most `chunk` trajectories; in bulk, those of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from learn.bulk import bulk_datums
from learn.datum import Datum
from learn.registered import Registered, query
from learn.turn_files import local_files
from sera_data.errors import StoreError

CHUNK = 256


@dataclass(slots=True)
class Turn:
    """One stored completion with its token ids."""

    turn_id: str
    base_turn: str | None
    prompt_ids: NDArray[np.int32]
    completion_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    policy_version: int


@dataclass(slots=True)
class Trajectory:
    """The credited spans of one trajectory: per turn (token_start, token_end, advantage)."""

    trajectory_id: str
    stage: Any
    group_id: str
    depth: int
    spans: dict[str, list[tuple[int, int, float]]] = field(default_factory=lambda: defaultdict(list))


def build_datums(
    connection: duckdb.DuckDBPyConnection,
    rows: pl.DataFrame,
    *,
    chunk: int = CHUNK,
    read: Literal["auto", "one_by_one"] = "auto",
    logprobs: pa.Table | None = None,
) -> Iterator[Datum]:
    """Datums of credit rows (see Credit.training_rows), ordered by stage, group and trajectory.

    Advantages are those of the rows; depth weights come later, on the batch. Raises StoreError for a credited turn
    whose tokens, log-probabilities or base turn are not in the store. Ordinary turns of a store on disk are read in
    bulk (`learn.bulk`), all others one by one, as is everything where the connection shows more than the files hold.
    logprobs: turn_id and logprobs of turns whose stored log-probabilities are replaced.
    """
    files = local_files(connection) if read == "auto" else []
    for _, part in rows.sort("stage").group_by("stage", maintain_order=True):
        found = _in_bulk(files, part, logprobs)
        yield from _one_by_one(connection, part, chunk=chunk, logprobs=logprobs) if found is None else found


def _in_bulk(files: Sequence[Path], rows: pl.DataFrame, logprobs: pa.Table | None) -> list[Datum] | None:
    try:
        return bulk_datums(files, rows, logprobs=logprobs) if files else None
    except (pa.ArrowException, OSError):
        return None  # reading the same files through the connection says which one is damaged


def _one_by_one(
    connection: duckdb.DuckDBPyConnection, rows: pl.DataFrame, *, chunk: int, logprobs: pa.Table | None = None
) -> Iterator[Datum]:
    trajectories = _trajectories(rows)
    given = {} if logprobs is None else _given(logprobs)
    for start in range(0, len(trajectories), chunk):
        part = trajectories[start : start + chunk]
        turns, siblings = _read_turns(connection, [t for one in part for t in one.spans])
        for name in turns.keys() & given.keys():
            turns[name].logprobs = given[name]
        for trajectory in part:
            yield from trajectory_datums(trajectory, turns, siblings)


def _given(logprobs: pa.Table) -> dict[str, NDArray[np.float32]]:
    pairs = zip(logprobs["turn_id"].to_pylist(), logprobs["logprobs"], strict=True)
    return {name: np.asarray(values.values, dtype=np.float32) for name, values in pairs}


def trajectory_datums(
    trajectory: Trajectory, turns: dict[str, Turn], siblings: dict[str, tuple[str, ...]]
) -> list[Datum]:
    """The datums of one trajectory; `siblings` names, per credited turn, the turns of its node in order."""
    needed = {t for credited in trajectory.spans for t in siblings.get(credited, (credited,))}
    found = paths([turns[t] for t in sorted(needed) if t in turns], trajectory)
    datums: list[Datum] = []
    for path, owned in found:
        datum_id = f"{trajectory.trajectory_id}@{trajectory.stage}.{len(datums)}"
        datums.append(_datum(datum_id, trajectory, path, owned))
    return datums


def _trajectories(rows: pl.DataFrame) -> list[Trajectory]:
    found: dict[tuple[str, str, str], Trajectory] = {}
    ordered = rows.sort("stage", "group_id", "trajectory_id", "turn_id", "token_start")
    for row in ordered.iter_rows(named=True):
        key = (row["stage"], row["group_id"], row["trajectory_id"])
        one = found.setdefault(key, Trajectory(row["trajectory_id"], row["stage"], row["group_id"], row["depth"]))
        if one.depth != row["depth"]:
            depths = f"{one.depth} and {row['depth']}"
            msg = f"trajectory {one.trajectory_id} of stage {one.stage} has credit at depths {depths}"
            raise StoreError(msg)
        one.spans[row["turn_id"]].append((row["token_start"], row["token_end"], row["advantage"]))
    return list(found.values())


def _read_turns(
    connection: duckdb.DuckDBPyConnection, turn_ids: Sequence[str]
) -> tuple[dict[str, Turn], dict[str, tuple[str, ...]]]:
    wanted = pa.table({"turn_id": pa.array(sorted(set(turn_ids)), pa.string())})
    with Registered(connection, "wanted", wanted):
        table = connection.sql(query("credited_turns")).to_arrow_table()
    turns: dict[str, Turn] = {}
    acts: dict[str, list[str]] = defaultdict(list)
    for batch in table.to_batches():
        for row in range(batch.num_rows):
            turn = _turn(batch, row)
            turns[turn.turn_id] = turn
            if batch["kind"][row].as_py() == "act":
                acts[batch["node_id"][row].as_py()].append(turn.turn_id)
    siblings = {t: tuple(ids) for ids in acts.values() for t in ids}
    missing = sorted(set(turn_ids) - set(turns))
    if missing:
        msg = f"credited turn {missing[0]} is not in the store"
        raise StoreError(msg)
    return turns, siblings


def _turn(batch: pa.RecordBatch, row: int) -> Turn:
    def values(name: str, kind: type) -> NDArray[Any]:
        cell = batch[name][row]
        return np.asarray(cell.values, dtype=kind) if cell.is_valid else np.empty(0, kind)

    return Turn(
        batch["turn_id"][row].as_py(),
        batch["base_turn"][row].as_py(),
        values("prompt_ids", np.int32),
        values("completion_ids", np.int32),
        values("logprobs", np.float32),
        batch["policy_version"][row].as_py(),
    )


def paths(turns: Sequence[Turn], trajectory: Trajectory) -> list[tuple[list[Turn], set[str]]]:
    """Chains of turns from a keyframe, each with the credited turns that are trained in it.

    Usually one chain. A turn that extends the middle of a chain starts a copy, whose shared part is not trained again.
    """
    chains: list[list[Turn]] = []
    for turn in turns:
        if turn.base_turn is None:
            chains.append([turn])
            continue
        end = next((c for c in chains if c[-1].turn_id == turn.base_turn), None)
        if end is not None:
            end.append(turn)
            continue
        inner = next((c for c in chains if any(t.turn_id == turn.base_turn for t in c)), None)
        if inner is None:
            msg = f"turn {turn.turn_id} extends {turn.base_turn}, which is not an earlier act turn of its node"
            raise StoreError(msg)
        cut = next(i for i, t in enumerate(inner) if t.turn_id == turn.base_turn)
        chains.append([*inner[: cut + 1], turn])
    found = []
    taken: set[str] = set()
    for chain in chains:
        owned = {t.turn_id for t in chain if t.turn_id in trajectory.spans} - taken
        taken |= owned
        while chain and chain[-1].turn_id not in owned:
            chain.pop()
        if chain:
            found.append((chain, owned))
    return found


def _datum(datum_id: str, trajectory: Trajectory, path: Sequence[Turn], owned: set[str]) -> Datum:
    length = sum(len(t.prompt_ids) + len(t.completion_ids) for t in path)
    ids = np.empty(length, np.int32)
    trained = np.zeros(length, np.bool_)
    logprobs, advantages = np.zeros(length, np.float32), np.zeros(length, np.float32)
    versions = np.full(length, -1, np.int32)
    at = 0
    for turn in path:
        for part in (turn.prompt_ids, turn.completion_ids):
            ids[at : at + len(part)] = part
            at += len(part)
        start = at - len(turn.completion_ids)
        for low, high, advantage in trajectory.spans[turn.turn_id] if turn.turn_id in owned else ():
            _check_span(turn, low, high)
            span = slice(start + low, start + high)
            trained[span], advantages[span], versions[span] = True, advantage, turn.policy_version
            logprobs[span] = turn.logprobs[low:high]
    end = int(trained.nonzero()[0][-1]) + 1
    sampled = np.unique(versions[trained])
    if len(sampled) > 1:
        msg = f"trajectory {trajectory.trajectory_id} mixes policy versions {sampled.tolist()} in one sequence"
        raise StoreError(msg)
    return Datum(
        datum_id=datum_id,
        stage=trajectory.stage,
        trajectory_id=trajectory.trajectory_id,
        group_id=trajectory.group_id,
        depth=trajectory.depth,
        token_ids=ids[:end],
        trained=trained[:end],
        logprobs=logprobs[:end],
        advantages=advantages[:end],
        versions=versions[:end],
        policy_version=int(sampled[0]),
        n_parts=len(owned) if trajectory.stage == "delegation" else 1,
    )


def _check_span(turn: Turn, low: int, high: int) -> None:
    if not 0 <= low < high <= len(turn.completion_ids):
        msg = f"span [{low}, {high}) is not inside turn {turn.turn_id}, {len(turn.completion_ids)} completion tokens"
        raise StoreError(msg)
    if len(turn.logprobs) != len(turn.completion_ids):
        msg = f"turn {turn.turn_id} has {len(turn.logprobs)} log-probabilities for {len(turn.completion_ids)} tokens"
        raise StoreError(msg)
