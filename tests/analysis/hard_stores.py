"""Stores that an explorer or a report must show sensibly: empty, one node, only failures, no scores, NaN, faults.

Use: ``hard_store(path, "only failures")``. Rows are those of `small_store`, bent in one way each.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import sera_data as sd

sys.path.insert(0, str(Path(__file__).parent.parent / "sera_data"))
import small_store as small

SENTINEL = -1.0
KINDS = ("empty", "one node", "only failures", "unscored", "not a number", "faults", "misranked")


def hard_store(path: Path, kind: str) -> sd.Store:
    """A store of that kind, not sealed, so that no check of the seal is in the way."""
    if kind == "empty":
        return sd.create(path)
    store = sd.create(path)
    units = [{"unit_id": "u0000", "purpose": "execution"}]
    plan = sd.claim_plan(
        store, run_id=small.RUN, phase="collect", policy_hash="b" * 64, config_hash="c" * 64, units=units
    )
    rows = small.unit_rows(small.task_id(0), samples=1 if kind == "one node" else 2)
    BEND[kind](rows)
    small.write_unit(store, plan, "u0000", rows)
    if kind == "not a number":
        _store_nan(store.layout.shards / "e000000.u0000")
    return sd.open(path)


def _store_nan(shard: Path) -> None:
    """Put NaN in place of -1 in the scores of a shard, as a foreign writer might: our own refuses NaN."""
    file, commit = shard / "scores.parquet", shard / "commit.json"
    table = pq.read_table(file)
    values = [float("nan") if v == SENTINEL else v for v in table["final_score"].to_pylist()]
    place = table.schema.get_field_index("final_score")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(values, pa.float64())), file)
    body = json.loads(commit.read_text())
    data = file.read_bytes()
    body["files"]["scores"] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    commit.write_text(json.dumps(body))


def _one_node(rows):
    node = next(n for n in rows["nodes"] if n["parent_id"] is None)
    node |= {"n_turns": 0, "n_children": 0, "n_prompt_tokens": 0, "n_completion_tokens": 0}
    node |= {"policy_version_min": None, "policy_version_max": None}
    rows["nodes"] = [node]
    rows["labels"] = []
    for name in ("turns", "rubrics", "branches", "scores"):
        rows[name] = []


def _only_failures(rows):
    for label in rows["labels"]:
        label["value"] = 0.0


def _unscored(rows):
    rows["scores"], rows["turns"] = [], [t for t in rows["turns"] if t["kind"] != "score"]


def _not_a_number(rows):
    """Branch 0: NaN; branch 1: no row; branch 2: invalid."""
    kept = []
    for score in rows["scores"]:
        branch = score["node_id"].rpartition("/")[2]
        if branch == "t1d0b0":
            score |= {"final_score": SENTINEL}
        if branch == "t1d0b2":
            score |= {"valid": False, "error": "no JSON", "final_score": None, "success": None, "item_scores": []}
            score |= {"weighted_score": None}
        if branch != "t1d0b1":
            kept.append(score)
    rows["scores"] = kept


def _faults(rows):
    children = [n for n in rows["nodes"] if n["depth"] == 1]
    children[1] |= {"outcome": "infra_error", "error": "connection lost", "end_state": None, "end_digest": None}
    children[2] |= {"outcome": "loop"}
    root = next(n for n in rows["nodes"] if n["parent_id"] is None)
    root |= {"outcome": "infra_error", "error": "engine died", "end_state": None, "end_digest": None}
    rows["labels"] = [
        label for label in rows["labels"] if label["node_id"] not in (children[1]["node_id"], root["node_id"])
    ]


def _misranked(rows):
    """The forked delegation of the second sample is ranked exactly the wrong way round."""
    tree = rows["nodes"][-1]["tree_id"]
    for score in rows["scores"]:
        if score["tree_id"] == tree and score["node_id"].count("/") == 1:
            score["final_score"] = 1.0 - score["final_score"]


BEND = {
    "one node": _one_node,
    "only failures": _only_failures,
    "unscored": _unscored,
    "not a number": _not_a_number,
    "faults": _faults,
    "misranked": _misranked,
}
