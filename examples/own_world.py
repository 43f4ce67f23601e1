"""A world of your own, a walled grid with gems to fetch; ``python -m examples.own_world > maze.jsonl`` writes tasks."""

import json
import random
from collections import Counter
from dataclasses import asdict

from collect.world import Event, Task, Tool, Verdict
from sera_data.canonical import sha256_json

NAME = "examples.own_world:Maze"
STEPS = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}


class Maze:
    """State: (walls, gems as (row, column, colour), bag as (colour, count), places as (agent, row, column))."""

    name, version, fork, goal_kind = "maze", "maze-v1", "pure", "targets"

    def __init__(self, profile="plain"):
        self.profile = profile

    def reset(self, task):
        return tuple(task.spec["walls"]), tuple(map(tuple, task.spec["gems"])), (), ()

    def root_targets(self, task):
        return dict(task.spec["targets"])

    def enter(self, state, agent, parent):
        at = (0, 0) if parent is None else self._place(state, parent)
        return *state[:3], (*state[3], (agent.node_id, *at))

    def leave(self, state, agent):
        return *state[:3], tuple(place for place in state[3] if place[0] != agent.node_id)

    def over(self, state):
        return None

    def observe(self, state, agent):
        return json.dumps({"map": state[0], "you": self._place(state, agent), "gems": state[1], "bag": dict(state[2])})

    def apply(self, state, agent, action):
        walls, gems, bag, places = state
        row, column = self._place(state, agent)
        if action.tool == "take":
            found = next((gem for gem in gems if gem[:2] == (row, column)), None)
            if found is None:
                return state, Event(False, "Error: no gem lies here")
            held = Counter(dict(bag)) + Counter([found[2]])
            left = tuple(gem for gem in gems if gem != found)
            return (walls, left, tuple(sorted(held.items())), places), Event(True, "Taken.", {found[2]: 1})
        down, right = STEPS.get(str(action.arguments.get("to")), (99, 99))
        row, column = row + down, column + right
        if row not in range(len(walls)) or column not in range(len(walls[0])) or walls[row][column] == "#":
            return state, Event(False, "Error: no way there")
        return (walls, gems, bag, (*self.leave(state, agent)[3], (agent.node_id, row, column))), Event(True, "Moved.")

    def check_targets(self, state, raw):
        left = Counter(colour for *_, colour in state[1])
        if not isinstance(raw, dict) or not raw or any(n not in range(1, left[c] + 1) for c, n in raw.items()):
            raise ValueError(f"targets must map colours to counts of gems that are left, of {dict(left)}")
        return raw

    def goal(self, targets):
        return "fetch " + ", ".join(f"{n}x {colour}" for colour, n in targets.items())

    def verdict(self, start, end, targets, *, changes=None):
        gained = self.difference(start, end, changes=changes)
        return Verdict(all(gained.get(colour, 0) >= n for colour, n in targets.items()), {"gained": gained})

    def difference(self, start, end, *, changes=None):
        gained = Counter(dict(end[2])) - Counter(dict(start[2]))
        return dict(gained if changes is None else sum(map(Counter, changes), Counter()))

    def dump(self, state):
        return json.dumps(state, separators=(",", ":"))

    def load(self, text):
        walls, *rest = json.loads(text)
        return tuple(walls), *(tuple(map(tuple, part)) for part in rest)

    def tools(self):
        take = Tool("take", '{"tool":"take"}', "Takes the gem that lies where you stand.")
        return take, Tool("go", '{"tool":"go","to":"east"}', "Walks one cell north, south, west or east.")

    def examples(self):
        spots = [(r, c) for r in range(4) for c in range(4) if r in (0, 3) or c in (0, 3)]
        for seed in range(16):
            gems = [[*spot, c] for spot, c in zip(random.Random(seed).sample(spots, 3), "rgb", strict=True)]
            spec = {"walls": ["....", ".##.", ".##.", "...."], "gems": gems, "targets": {"r": 1, "b": 1}}
            name = "t" + sha256_json([NAME, self.profile, spec])[:16]
            yield Task(name, NAME, self.profile, "train", "easy", self.goal(spec["targets"]), spec)

    def _place(self, state, agent):
        return next((row, column) for name, row, column in state[3] if name == agent.node_id)


if __name__ == "__main__":
    print("\n".join(json.dumps(asdict(task)) for task in Maze().examples()))
