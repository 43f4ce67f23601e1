"""Scored rows made by a seeded generator, and a connection whose view `scored` shows them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from sera_data.duck import connect
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
    """One row of `scored`."""
    delegation_id = f"r{task}/t0d{delegation}"
    return {
        "run_id": "fake-0", "epoch": epoch, "task_id": f"t{task}", "difficulty": difficulty, "tree_id": f"r{task}",
        "delegation_id": delegation_id, "node_id": f"{delegation_id}b{branch}", "depth": depth,
        "on_path": branch == 0, "rubric_id": f"{delegation_id}~w~0~0", "writer": "w", "writer_version": epoch,
        "scorer": "s", "scorer_version": epoch, "score": score, "y": y,
    }  # fmt: skip


def connection(rows) -> duckdb.DuckDBPyConnection:
    """All views of an empty store, with `scored` replaced by these rows."""
    con = connect(Listing(Path("nowhere")))
    types = con.sql("select * from scored").to_arrow_table().schema
    table = pa.Table.from_pylist(rows, schema=pa.schema([f for f in types if not rows or f.name in rows[0]]))
    con.register("made_rows", table)
    con.execute("drop view scored")
    con.execute("create table scored as from made_rows")
    return con
