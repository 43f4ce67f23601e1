"""Bytes per turn: a sealed store against JSON lines, with the full prompt per turn and with the same rows.

Trees are synthetic but shaped like real ones: 20 act turns a node (the published budget) over a growing prompt, ids
drawn from a Zipf law over 64,000 tokens, logprobs with the spread of a sampled language model. Everything counts: all
ten tables, seal.json, footers. Exit code 1 when the store is larger than 1/10 of the full-prompt lines or 1/4 of the
same rows as lines.

Run: ``python benchmarks/store_bytes.py [--nodes 400]``
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import sera_data as sd
from benchmarks.trees import long_trees
from schemas import TABLES
from sera_data.tokens import full_prompt

FULL, SAME = 1 / 10, 1 / 4


def json_lines(rows: list[dict]) -> int:
    return sum(len(json.dumps(row, separators=(",", ":"), default=str)) + 1 for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        store = sd.create(Path(place) / "store")
        long_trees(store, nodes=options.nodes, turns=20, random=np.random.default_rng(0))
        stored = sum(p.stat().st_size for p in (store.layout.epochs / "e000000").iterdir())
        tables = {name: store.table(name).arrow().to_pylist() for name in TABLES}
        same = sum(json_lines(rows) for rows in tables.values())
        by_id, known = {t["turn_id"]: t for t in tables["turns"]}, {}
        full = same - json_lines(tables["turns"])
        full += json_lines([{**t, "prompt_ids": full_prompt(t, by_id, known)} for t in tables["turns"]])
    print(f"{len(tables['turns'])} turns, all ten tables")
    print(f"  this store               {stored:12,} bytes")
    print(f"  same rows as JSON lines  {same:12,} bytes   store/lines {stored / same:.3f}   wanted: at most {SAME:.3f}")
    print(f"  full prompts, JSON lines {full:12,} bytes   store/lines {stored / full:.3f}   wanted: at most {FULL:.3f}")
    return 0 if stored <= FULL * full and stored <= SAME * same else 1


if __name__ == "__main__":
    sys.exit(main())
