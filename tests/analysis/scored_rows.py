"""Scored rows made by a seeded generator, and a connection whose tables hold them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from schemas import TABLES
from sera_data.duck import RAW, connect
from sera_data.listing import Listing


def scored_rows(*, tasks=30, delegations=3, branches=8, seed=0, grid=0.1, signal=0.3):
    """Dicts of the columns of `scored`; scores on a grid of width `grid`, or continuous with grid=None."""
    draw = np.random.default_rng(seed)
    rows = []
    for t in range(tasks):
        difficulty = str(draw.choice(["easy", "medium", "hard"]))
        rate = draw.beta(2, 2)
        for d in range(delegations):
            depth, epoch = int(draw.integers(1, 3)), int(draw.integers(0, 2))
            for b in range(branches):
                y = float(draw.random() < rate)
                score = float(np.clip(0.25 + signal * y + 0.2 * rate + 0.25 * draw.normal(), 0, 1))
                if grid is not None:
                    score = round(score / grid) * grid  # keeps 0.30000000000000004 and its kind
                rows.append(scored_row(t, d, b, score, y, difficulty=difficulty, depth=depth, epoch=epoch))
    return rows


def scored_row(task, delegation, branch, score, y, *, difficulty="easy", depth=1, epoch=0):
    """One scored node: its ids, its score (None or NaN: none that can be used) and its verdict (None: none)."""
    delegation_id = f"r{task}e{epoch}/t0d{delegation}"
    return {
        "epoch": epoch, "task_id": f"t{task}", "tree_id": f"r{task}e{epoch}", "difficulty": difficulty,
        "delegation_id": delegation_id, "branch": branch, "node_id": f"{delegation_id}b{branch}", "depth": depth,
        "score": score, "y": y,
    }  # fmt: skip


def connection(rows) -> duckdb.DuckDBPyConnection:
    """All views of an empty store, with these nodes, their scores, labels, rubrics and tasks in place of its tables."""
    con = connect(Listing(Path("nowhere")))
    for name, made in _tables(rows).items():
        schema = TABLES[name].schema
        columns = {f.name: [row.get(f.name, _EMPTY.get(str(f.type))) for row in made] for f in schema}
        con.register(f"made_{name}", pa.table(columns, schema=schema))
        con.execute(f"create or replace view {RAW.get(name, name)} as from made_{name}")
    return con


_EMPTY = {"int32": 0, "int64": 0, "int16": 0, "int8": 0, "string": "", "bool": False, "double": 0.0}


def _tables(rows):
    tables = {name: {} for name in ("tasks", "nodes", "rubrics", "scores", "labels")}
    for row in rows:
        about = {name: row[name] for name in ("epoch", "task_id", "tree_id", "delegation_id", "node_id", "depth")}
        rubric = f"{row['delegation_id']}~w~0~0"
        tables["tasks"][row["task_id"]] = {"task_id": row["task_id"], "world": "w", "difficulty": row["difficulty"]}
        tables["nodes"][row["node_id"]] = about | {
            "branch": row["branch"], "on_path": row["branch"] == 0, "outcome": "finished", "n_turns": 3,
            "n_completion_tokens": row.get("tokens", 50), "start_digest": "a", "end_digest": "b",
        }  # fmt: skip
        tables["rubrics"][rubric] = about | {
            "rubric_id": rubric, "writer": "w", "writer_version": row["epoch"], "phase": "collect", "valid": True,
            "items": [], "order_stamp": -1,
        }  # fmt: skip
        tables["scores"][row["node_id"]] = about | {
            "rubric_id": rubric, "scorer": "s", "scorer_version": row["epoch"], "phase": "collect",
            "valid": row["score"] is not None, "final_score": row["score"], "item_scores": row.get("items", []),
            "weighted_score": row.get("weighted_score", row["score"]),
        }  # fmt: skip
        if row["y"] is not None:
            tables["labels"][row["node_id"]] = about | {
                "source": "w", "version": "1", "kind": "program", "use": "train", "inclusion_probability": 1.0,
                "valid": True, "value": row["y"],
            }  # fmt: skip
    return {name: list(made.values()) for name, made in tables.items()}
