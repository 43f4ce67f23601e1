"""Sealed turns -> packed batches: the learner's reading against `datasets` with a padding collator, in one run.

Both read the same sealed file (as the seal writes it; made-up turns of real sizes, 1 to 39 to a node, 20-120 new prompt
tokens, one in twenty 600, and 30-150 completion tokens), in one thread, and end with tensors. Ours: credit rows of
every turn -> datums (turns of a node merged, spans, log-probabilities, advantages) -> depth weights -> packing plan ->
micro-batches of 16,384 tokens. Theirs: rows in torch format -> prompt and completion joined -> batches of 8, padded to
the longest. Tokens are real ones, never padding; CPU seconds of the process, the best of some rounds in turn. Exit code
1 below 40 M tokens per core-second, 20 x or a fill of 98 %; --ratios leaves the absolute figure out, which says nothing
on a machine that is busy with other work. Few turns measure the constant part (opening files, one query).

Run: ``python benchmarks/reading.py [--turns 60000] [--ratios]``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from store_point_read import made_up_turns

from learn.bulk import bulk_datums
from learn.depth_weights import weigh
from learn.packing import micro_batch, plan_packs
from schemas import TURNS
from sera_data.content import in_blocks
from sera_data.disk import sealed_parquet

SPEED, RATIO, FILL = 40e6, 20.0, 0.98
BUDGET = 16_384
BATCH = 8
ROUNDS = 5


def write_turns(path: Path, count: int) -> None:
    """A sealed file of `count` turns in nodes of 1 to 39, each turn extending the one before it."""
    draw = np.random.default_rng(0)
    rows = made_up_turns(count, draw)
    sizes = draw.integers(1, 40, count)
    node = np.repeat(np.arange(count), sizes)[:count]
    step = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)[:count]
    names = [f"r{n:016x}" for n in node]
    turns = [f"{name}#{s:04d}" for name, s in zip(names, step, strict=True)]
    given = {
        "tree_id": names,
        "node_id": names,
        "turn_id": turns,
        "step": step,
        "base_turn": [None if s == 0 else before for s, before in zip(step, [None, *turns], strict=False)],
    }
    for name, values in given.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))
    with sealed_parquet(path, TURNS) as writer:
        for block in in_blocks(iter(rows.to_batches()), TURNS.row_group):
            writer.write_batch(block, row_group_size=TURNS.row_group)


def credit(path: Path) -> pl.DataFrame:
    """Credit of the whole completion of every turn, an advantage for each node."""
    turns = pl.from_arrow(pq.read_table(path, columns=["turn_id", "node_id", "completion_ids"]))
    return turns.select(
        "turn_id",
        trajectory_id="node_id",
        stage=pl.lit("execution"),
        token_start=pl.lit(0, pl.Int32),
        token_end=pl.col("completion_ids").list.len().cast(pl.Int32),
        advantage=(pl.col("node_id").hash(1) % 7).cast(pl.Float64) - 3,
        depth=pl.lit(0, pl.Int32),
        group_id=pl.lit("0/") + pl.col("node_id").str.slice(12, 3),
    )


def ours(path: Path, rows: pl.DataFrame) -> tuple[int, float, dict[str, float]]:
    """(tokens in micro-batches, fill of the budget, seconds by part)."""
    marks = [time.process_time()]
    found = bulk_datums([path], rows)
    assert found is not None
    marks.append(time.process_time())
    datums = weigh(found)
    marks.append(time.process_time())
    plan = plan_packs(datums, budget=BUDGET)
    marks.append(time.process_time())
    tokens = sum(micro_batch(pack).token_ids.shape[1] for pack in plan.packs)
    marks.append(time.process_time())
    parts = dict(zip(("datums", "weights", "plan", "batches"), np.diff(marks).tolist(), strict=True))
    return tokens, tokens / (len(plan.packs) * BUDGET), parts


def theirs(path: Path, cache: str, count: int) -> tuple[Callable[[], int], int]:
    """(a pass over the first `count` turns that returns its tokens, their number)."""
    from datasets import load_dataset
    from torch.utils.data import DataLoader

    columns = ["prompt_ids", "completion_ids", "logprobs"]
    data = load_dataset("parquet", data_files=str(path), columns=columns, split="train", cache_dir=cache)
    data = data.select(range(min(count, len(data)))).with_format("torch")

    def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        ids = [torch.cat([row["prompt_ids"], row["completion_ids"]]) for row in rows]
        longest = max(map(len, ids))
        names = {
            "input_ids": torch.int64,
            "attention_mask": torch.int64,
            "trained": torch.bool,
            "logprobs": torch.float32,
        }
        batch = {name: torch.zeros(len(rows), longest, dtype=kind) for name, kind in names.items()}
        for i, (row, tokens) in enumerate(zip(rows, ids, strict=True)):
            batch["input_ids"][i, : len(tokens)] = tokens
            batch["attention_mask"][i, : len(tokens)] = 1
            batch["trained"][i, len(row["prompt_ids"]) : len(tokens)] = True
            batch["logprobs"][i, len(row["prompt_ids"]) : len(tokens)] = row["logprobs"]
        return batch

    loader = DataLoader(data, batch_size=BATCH, collate_fn=collate)
    return lambda: sum(int(batch["attention_mask"].sum()) for batch in loader), len(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=60_000)
    parser.add_argument("--theirs", type=int, default=2_000, help="turns that `datasets` reads")
    parser.add_argument("--ratios", action="store_true", help="judge the ratio and the fill alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "turns.parquet"
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as writer:
            writer.submit(write_turns, path, options.turns).result()
        rows = credit(path)
        other, count = theirs(path, place, options.theirs)
        best, slow = None, 0.0
        for _ in range(ROUNDS):
            tokens, fill, parts = ours(path, rows)
            best = min((best, parts) if best else (parts,), key=lambda p: sum(p.values()))
            started = time.process_time()
            read = other()
            slow = max(slow, read / (time.process_time() - started))
    fast = tokens / sum(best.values())
    print(f"{tokens:,} tokens of {options.turns:,} turns -> micro-batches of {BUDGET:,}, one thread, CPU seconds")
    for name, seconds in best.items():
        print(f"  {name:<8} {seconds:7.3f} s   {1e9 * seconds / tokens:5.2f} ns/token")
    print(f"  sealed turns -> packed batches        {fast / 1e6:7.1f} M tokens/s   fill {fill:.2%}")
    print(f"  datasets + padding collator           {slow / 1e6:7.2f} M tokens/s   ({count:,} turns)")
    print(f"  ratio                                 {fast / slow:7.1f} x")
    good = fast / slow >= RATIO and fill >= FILL and (options.ratios or fast >= SPEED)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
