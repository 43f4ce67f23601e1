"""Hostile cells in one tree while honest trees are played beside it, under the default limits.

Prints per cell the seconds of its turn and the error that it ended with, then how many honest trees were played
meanwhile. Exits 1 when a cell took longer than 2 s, ended without an error, or an honest tree failed.

Run: ``python benchmarks/hostile_cells.py`` from a checkout (the cells are those of tests/collect/test_sandbox.py).
"""

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from collect.dialect_code import CodeDialect, write_cell
from collect.policy import Completion, Identity
from collect.scripted import open_policy
from collect.services import Services, TreePlan
from collect.settings import Budgets, TreeSettings
from collect.textcraft import TextCraft
from collect.textcraft_tasks import build_tasks
from collect.tree import run_tree
from tests.collect.test_sandbox import HOSTILE

SECONDS = 2.0
HONEST = 2
NOT_HERE = ("a tool's own error",)  # a tool of the tests


class Attacker:
    """Writes one hostile cell, then ends."""

    identity, renderer, trainable = Identity("attacker", "script", 0), None, False

    def __init__(self, code):
        self.replies = [write_cell("now", code), write_cell("end", "finish('')")]

    async def complete(self, request):
        return Completion(self.replies.pop(0), None, None, "stop", "none", 0)

    def release(self, session):
        pass

    async def close(self):
        pass


async def grow(policy, task, sample):
    settings = TreeSettings(budgets=Budgets(turns=20, depth=3))
    services = Services(world=TextCraft(), policies={"act": policy}, settings=settings, dialect=CodeDialect())
    return await run_tree(TreePlan("bench", 0, task, sample, "eval", 1), services)


async def attack(task):
    """Slowest cell in seconds, and names of cells that ended without an error."""
    slowest, harmless = 0.0, []
    for sample, (name, (code, _)) in enumerate(HOSTILE.items()):
        if name in NOT_HERE:
            continue
        started = time.monotonic()
        tree = await grow(Attacker(code), task, sample)
        seconds = time.monotonic() - started
        error = tree.rows["turns"][0]["error"]
        slowest = max(slowest, seconds)
        harmless += [] if error else [name]
        print(f"{seconds:5.2f} s  {name:32} {(error or 'no error')[:80]}")
    return slowest, harmless


async def play(tasks, until):
    """Whether each honest tree that ended meanwhile succeeded."""
    policy, ended = open_policy("delegating_oracle", options={}), []
    while not until.is_set():
        ended.append((await grow(policy, tasks[len(ended) % len(tasks)], 1000 + len(ended))).root.success)
    return ended


async def measure():
    tasks = build_tasks({"world_seed": 42, "split": "val"})[:40]
    until = asyncio.Event()
    honest = [asyncio.create_task(play(tasks, until)) for _ in range(HONEST)]
    slowest, harmless = await attack(tasks[0])
    until.set()
    ended = [success for trees in honest for success in await trees]
    print(f"slowest {slowest:.2f} s; without an error: {', '.join(harmless) or 'none'}")
    print(f"honest trees meanwhile: {len(ended)}, of which {sum(map(bool, ended))} succeeded")
    return int(slowest > SECONDS or bool(harmless) or not all(ended) or not ended)


if __name__ == "__main__":
    sys.exit(asyncio.run(measure()))
