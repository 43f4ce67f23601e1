"""Trees whose agents write cells, for the tests of the dialect `code`."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

from collect.dialect_code import CodeDialect, write_cell
from collect.services import Services
from collect.settings import SandboxSettings, TreeSettings
from collect.tree import run_tree
from tests.collect.tree_lab import RUBRIC, SCORE, Fake, Pot, check_rows, plan, script


def cell(code, thought="next"):
    return write_cell(thought, code)


def services(act, *, world=None, sandbox=None, **settings):
    policies = {
        "act": act if isinstance(act, Fake) else Fake("player", act),
        "writer": Fake("writer", lambda request: json.dumps(RUBRIC)),
        "scorer": Fake("scorer", lambda request: json.dumps(SCORE)),
    }
    settings = TreeSettings(sandbox=sandbox or SandboxSettings(), **settings)
    return Services(world=world or Pot(), policies=policies, settings=settings, dialect=CodeDialect())


def play(act, *, purpose="execution", plan_changes=None, **options):
    """One checked tree; `act` is a reply function or {node path: [cells]}."""
    reply = (
        script({path: [cell(code) for code in codes] for path, codes in act.items()}) if isinstance(act, dict) else act
    )
    result = asyncio.run(run_tree(plan(purpose, **(plan_changes or {})), services(reply, **options)))
    check_rows(result)
    return SimpleNamespace(**result.rows, root=result.root, transcripts=result.transcripts)


def turns_of(tree, node=0):
    return [t for t in tree.turns if t["node_id"] == tree.nodes[node]["node_id"] and t["kind"] == "act"]
