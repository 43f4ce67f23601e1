"""What an evaluation costs beside the policy: planning, building worlds, playing and committing scripted trees.

Prints CPU milliseconds of the planner on the 136 extreme validation goals (floor: 2 ms mean), worlds built in this
process while 40 trees are played (floor: one), and tasks per CPU second of the delegating oracle, commits included.
Exits with 1 when a floor is missed.

Run: ``python benchmarks/evaluation.py [N_TASKS]``
"""

import sys
import tempfile
import time
from pathlib import Path

import sera_data as sd
from collect import recipes
from collect.eval_request import Asked, requests
from collect.evaluation import find_evaluation, report, run_evaluation
from collect.planner import consumers_first, plan, plan_in_order
from collect.textcraft import book_of
from collect.textcraft_tasks import build_tasks

PLANNER_MS = 2.0


def planner() -> tuple[float, float, float]:
    """Mean and largest CPU ms of a plan with the order of recipes known, and the mean when it is not."""
    tasks = [t for t in build_tasks({"world_seed": 42, "split": "val"}) if t.difficulty == "extreme"]
    warm, cold = [], []
    for task in tasks:
        book, spec = book_of(task.spec), task.spec
        started = time.process_time()
        plan_in_order(
            book.recipes, spec["inventory"], spec["targets"], consumers_first(book.recipes, sorted(spec["targets"]))
        )
        cold.append(1000 * (time.process_time() - started))
        started = time.process_time()
        plan(book, spec["inventory"], spec["targets"])
        warm.append(1000 * (time.process_time() - started))
    return sum(warm) / len(warm), max(warm), sum(cold) / len(cold)


def played(n: int) -> tuple[float, int, int]:
    """Tasks per CPU second, trees played, and worlds built while they were."""
    (request,) = requests(Asked(protocol="textcraft-632", policy="scripted:delegating_oracle", limit=n, seeds=(0,)))
    before = recipes.built_book.cache_info().misses
    with tempfile.TemporaryDirectory() as folder:
        store = sd.create(Path(folder) / "s")
        started = time.process_time()
        run, _ = run_evaluation(store, request, quiet=True)
        seconds = time.process_time() - started
        trees = report(find_evaluation(store, run))["trees"]
    return n / seconds, trees, recipes.built_book.cache_info().misses - before


def main(n: int) -> int:
    """Print the figures; 1 when a floor is missed."""
    warm, worst, cold = planner()
    print(
        f"planner, 136 extreme tasks: mean {warm:.2f} ms, max {worst:.2f} ms; first plan of a goal {cold:.2f} ms mean"
    )
    rate, trees, worlds = played(n)
    built = recipes.built_book.cache_info().misses
    print(f"delegating oracle: {rate:.1f} tasks per CPU second, {trees} trees stored and sealed")
    print(f"worlds built in this process: {built} for {trees} trees, {worlds} of them while they were played")
    return int(warm > PLANNER_MS or cold > PLANNER_MS or worlds > 0 or built != 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40))
