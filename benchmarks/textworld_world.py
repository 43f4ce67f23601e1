"""How fast the TextWorld-Sync world is: transitions a second on one core, bytes of a state, microseconds of a fork.

Commands of scripted episodes over test tasks are recorded first; only applying them is timed (CPU time of one process).
Beside them, when textworld-express and java are installed, the steps a second of the public Java simulator, played
with random commands of its own game (wall time, its Java process included). Exit 1 below the floors.

Run: ``python benchmarks/textworld_world.py``.
"""

import copy
import random
import shutil
import sys
import time
from importlib.util import find_spec

from collect.textworld import COMMAND, TextWorld
from collect.textworld_foods import open_foods
from collect.textworld_records import build_records
from collect.textworld_scripts import ROOT, greedy
from collect.textworld_solver import Notes, solve
from collect.textworld_tasks import task_of
from collect.world import Action, Agent

TRANSITIONS, DUMP_BYTES, FORK_US = 100_000, 1024, 2.0
TASKS, ROUNDS, FORKS = 140, 12, 200_000
JAVA_STEPS = 1_000


def main():
    states = []
    rates = [(profile, *measure(profile, states)) for profile in TextWorld.profiles]
    for profile, rate, episodes in rates:
        print(f"{profile:<8} {rate:>10,.0f} transitions/s over {episodes} episodes, floor {TRANSITIONS:,}")
    sizes = [len(world.dump(state).encode()) for world, state in states]
    print(f"dump     {max(sizes):>10,} bytes at most, {sum(sizes) / len(sizes):.0f} in the mean, limit {DUMP_BYTES}")
    shared, rebuilt = fork_times(states[-1][1])
    print(
        f"fork     {shared:>10.3f} us as a reference (copy.copy), {rebuilt:.3f} us as a rebuilt value, limit {FORK_US}"
    )
    print(java_line(max(rate for _, rate, _ in rates)))
    return int(min(rate for _, rate, _ in rates) < TRANSITIONS or max(sizes) >= DUMP_BYTES or rebuilt >= FORK_US)


def measure(profile, states):
    """Best rate of several rounds over recorded episodes; appends their states, with eight agents in some."""
    world = TextWorld(profile)
    records = list(build_records("test", open_foods(None)))
    episodes = [record_episode(world, task_of(r, profile=profile), states) for r in records[:: len(records) // TASKS]]
    total = sum(len(actions) for _, actions in episodes)
    best = 0.0
    for _ in range(ROUNDS):
        started = time.process_time()
        for state, actions in episodes:
            for action in actions:
                state, _ = world.apply(state, ROOT, action)
        best = max(best, total / (time.process_time() - started))
    return best, len(episodes)


def record_episode(world, task, states):
    state = start = world.enter(world.reset(task), ROOT, None)
    notes, actions = Notes.of(task.goal), []
    while world.over(state) is None:
        if world.profile == "strict":
            notes.see(state, ROOT)
            text = solve(state, ROOT, notes)
        else:
            text = greedy(world, state, ROOT)
        actions.append(Action(COMMAND, {"text": text}))
        state, event = world.apply(state, ROOT, actions[-1])
        notes.hear(event.result)
        states.append((world, state))
    for index in range(7):
        child = Agent(f"r0123456789abcdef/t{index}d0b0/t19d3b7", 2, None)
        state = world.enter(state, child, ROOT)
    states.append((world, state))
    return start, actions


def fork_times(state):
    """Microseconds of a reference and of a new tuple with the same fields; the loop's own time is taken off."""
    times = []
    for fork in (None, copy.copy, lambda value: value._make(value)):
        started = time.process_time()
        for _ in range(FORKS):
            if fork is not None:
                fork(state)
        times.append((time.process_time() - started) / FORKS * 1e6)
    return times[1] - times[0], times[2] - times[0]


def java_line(ours):
    if find_spec("textworld_express") is None or shutil.which("java") is None:
        return "java     not measured: textworld-express or java is not installed"
    from textworld_express import TextWorldExpressEnv

    environment = TextWorldExpressEnv(envStepLimit=100)
    try:
        environment.load(gameName="cookingworld", gameParams="numLocations=5,numIngredients=3")
        rng = random.Random(0)
        _, infos = environment.reset(seed=0, gameFold="train", generateGoldPath=False)
        started = time.perf_counter()
        for step in range(JAVA_STEPS):
            if step % 50 == 49:
                _, infos = environment.reset(seed=step, gameFold="train", generateGoldPath=False)
            _, _, _, infos = environment.step(rng.choice(sorted(infos["validActions"])))
        rate = JAVA_STEPS / (time.perf_counter() - started)
    finally:
        environment.close()
    return f"java     {rate:>10,.0f} steps/s of textworld-express in Python; ours: {ours / rate:,.0f} times that"


if __name__ == "__main__":
    sys.exit(main())
