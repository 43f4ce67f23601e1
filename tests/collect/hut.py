"""A tiny world of text commands that agents share, for the tests of scheduling, endings and prompts.

State: (sorted items, sorted (agent, room), commands left). Commands: ``add ITEM``, ``go ROOM``, ``look``, ``crash``.
It ends in success with three `a`, in failure with nine `b`, or when no command is left; a child's goal ``make N ITEM``
is checked by its own changes.
"""

import json
import re
from collections import Counter

from collect.world import Event, Tool, Verdict
from sera_data.canonical import canonical_json


class Hut:
    name, profile, version, fork, goal_kind = "hut", "p", "v1", "pure", "text"
    dialects = ("blocks",)
    budget = 99

    def reset(self, task):
        return (tuple(sorted(task.spec["inventory"].items())), (), self.budget)

    def limited(self, task, steps):
        self.budget = steps
        return task

    def root_targets(self, task):
        return {"goal": "make 3 a", "max_steps": None}

    def enter(self, state, agent, parent):
        items, rooms, left = state
        room = "kitchen" if parent is None else dict(rooms)[parent.node_id]
        assert agent.node_id not in dict(rooms)
        return items, tuple(sorted({**dict(rooms), agent.node_id: room}.items())), left

    def leave(self, state, agent):
        items, rooms, left = state
        return items, tuple(entry for entry in rooms if entry[0] != agent.node_id), left

    def over(self, state):
        items = dict(state[0])
        if items.get("a", 0) >= 3:
            return "success"
        if items.get("b", 0) >= 9:
            return "failure"
        return "exhausted" if state[2] <= 0 else None

    def observe(self, state, agent):
        room = dict(state[1])[agent.node_id]
        return f"You are in {room}; here: {canonical_json(dict(state[0]))}; left {state[2]}. Commands: add, go, look."

    def apply(self, state, agent, action):
        items, rooms, left = state
        word, _, rest = action.arguments["text"].partition(" ")
        if word == "look":
            return state, Event(True, "You look.", None, "info")
        if word == "crash":
            raise KeyError(rest)
        if word == "go":
            moved = tuple(sorted({**dict(rooms), agent.node_id: rest}.items()))
            return (items, moved, left - 1), Event(True, f"You go to {rest}.", {"room": rest}, "ok")
        if word != "add" or not rest:
            return (items, rooms, left - 1), Event(False, "That cannot be done.", None, "rejected")
        after = Counter(dict(items))
        after[rest] += 1
        state = (tuple(sorted(after.items())), rooms, left - 1)
        return state, Event(True, f"Added {rest}.", {"item": rest, "reward": "MARKER-DELTA"}, self.over(state) or "ok")

    def check_targets(self, state, raw):
        if not re.fullmatch(r"make \d+ \w+", raw["goal"]):
            msg = f"no goal of this world: {raw['goal']}"
            raise ValueError(msg)
        return dict(raw)

    def goal(self, targets):
        return targets["goal"]

    def verdict(self, start, end, targets, *, changes=None):
        _, count, item = targets["goal"].split()
        made = sum(delta.get("item") == item for delta in changes)
        return Verdict(made >= int(count), {"made": made, "m": "MARKER-LABEL"})

    def difference(self, start, end, *, changes=None):
        if changes is not None:
            return dict(sorted(Counter(d["item"] for d in changes if "item" in d).items()))
        gained = Counter(dict(end[0]))
        gained.subtract(dict(start[0]))
        return {item: n for item, n in sorted(gained.items()) if n}

    def dump(self, state):
        return canonical_json([dict(state[0]), dict(state[1]), state[2]])

    def load(self, text):
        items, rooms, left = json.loads(text)
        return tuple(sorted(items.items())), tuple(sorted(rooms.items())), left

    def tools(self):
        return (Tool("command", '{"tool":"command","text":"look"}', "Runs a command."),)


def say(text):
    return f"<action>{text}</action>"


def done(message="done"):
    return f"<finish>{message}</finish>"


def ask(*goals, **more):
    if len(goals) == 1:
        return f"<delegate>{json.dumps({'goal': goals[0], **more})}</delegate>"
    return f"<delegate>{json.dumps({'delegations': [{'goal': goal, **more} for goal in goals]})}</delegate>"
