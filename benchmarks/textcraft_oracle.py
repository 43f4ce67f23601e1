"""Scripted agents on the 632 published TextCraft-Synth tasks, through the full runner under the published budgets.

Prints per dialect and script: tasks solved, tasks per second, turns, agents, calls. Exits 1 when the delegating oracle
does not solve every task in `code`, or easy, medium and hard in `json`.

Run: ``python benchmarks/textcraft_oracle.py`` (add a number of tasks to play only the first ones, or ``--json``).
"""

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

from collect.dialect import open_dialect
from collect.scripted import open_policy
from collect.services import Services, TreePlan
from collect.settings import Budgets, TreeSettings
from collect.task_file import import_published
from collect.textcraft import TextCraft
from collect.tree import run_tree

PUBLISHED = Path(__file__).parent.parent / "tests" / "data" / "textcraft_synth" / "val.jsonl"
RUNS = (("json", "delegating_oracle"), ("code", "delegating_oracle"), ("code", "single_cell"))
BUDGETS = Budgets(turns=20, depth=3)
IN_FLIGHT = 16


async def measure(tasks, dialect, script):
    policy = open_policy(script, options={})
    services = Services(
        world=TextCraft(),
        policies={"act": policy},
        settings=TreeSettings(budgets=BUDGETS),
        dialect=open_dialect(dialect),
    )
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def play(task):
        async with slots:
            return task, await run_tree(TreePlan("bench", 0, task, 0, "eval", 1), services)

    wall, cpu = time.monotonic(), time.process_time()
    played = await asyncio.gather(*(play(task) for task in tasks))
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return summary(dialect, script, played, wall=wall, cpu=cpu)


def summary(dialect, script, played, *, wall, cpu):
    solved, every = Counter(), Counter()
    calls, agents, turns, largest = 0, 0, 0, 0
    for task, result in played:
        every[task.difficulty] += 1
        solved[task.difficulty] += bool(result.root.success)
        mine = [len(turn["tool_calls"]) for turn in result.rows["turns"]]
        calls, largest = calls + sum(mine), max([largest, *mine])
        agents, turns = agents + result.root.n_nodes, turns + result.root.n_turns
    return {
        "dialect": dialect,
        "script": script,
        "tasks": len(played),
        "solved": sum(solved.values()),
        "solved_by_band": {band: f"{solved[band]}/{every[band]}" for band in every},
        "tasks_per_s": round(len(played) / wall, 2),
        "tasks_per_cpu_s": round(len(played) / cpu, 2),
        "seconds": round(wall, 1),
        "agents_per_task": round(agents / len(played), 2),
        "turns_per_task": round(turns / len(played), 2),
        "calls_per_task": round(calls / len(played), 1),
        "most_calls_in_a_turn": largest,
    }


def fails(row):
    bands = {band: share.split("/") for band, share in row["solved_by_band"].items()}
    wanted = bands if row["dialect"] == "code" else {band: bands[band] for band in bands if band != "extreme"}
    return any(done != of for done, of in wanted.values())


def main():
    counts = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    tasks = import_published(PUBLISHED)[: counts[0] if counts else None]
    rows = [asyncio.run(measure(tasks, dialect, script)) for dialect, script in RUNS]
    for row in rows:
        print(json.dumps(row) if "--json" in sys.argv else "  ".join(f"{name} {value}" for name, value in row.items()))
    sys.exit(any(map(fails, rows)))


if __name__ == "__main__":
    main()
