"""Labels of TextWorld-Sync nodes: the program says again what it said, inline and later prompts are the same."""

import json
import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.label_subjects import load_subjects
from collect.subject import case_of
from collect.textworld import TextWorld

sys.path.insert(0, str(Path(__file__).parent))
from job_lab import play, small_config
from label_lab import label, nodes

TASKS = (
    "world.tasks={generator: textworld, split: test, per_cell: 1, difficulties: [easy, medium],"
    " families: [multi_dish_fork_join]}"
)
KITCHEN = (
    "world.name=textworld",
    "world.profile=sync-v9",
    TASKS,
    "policy.model=scripted:teacher",
    "budgets.launches_per_turn=5",
    "samples=2",
    "judge={spec: 'rule:finish', audit_share: 1.0}",
)
WAYS = {
    "forked": ("groups={rubric: 2}", "delegation.forks_per_tree=1", "delegation.k=3"),
    "parallel": ("groups={execution: 2}", "delegation.mode=plain", "delegation.scheduling=parallel"),
}


@pytest.fixture(scope="module", params=WAYS)
def store(request, tmp_path_factory):
    config = small_config(*KITCHEN, *WAYS[request.param])
    played, job, _ = play(tmp_path_factory.mktemp(request.param) / "store", config)
    sd.seal(played, job.plan.name)
    return played


TWICE = """
select n.node_id, a.value, a.details, b.value, b.details
from nodes n
left join labels a on a.node_id = n.node_id and a.version = 'own-change-1'
left join labels b on b.node_id = n.node_id and b.version = 'own-change-9'
order by 1
"""


def test_the_program_says_again_what_it_said(store, monkeypatch):
    monkeypatch.setattr(TextWorld, "version", "own-change-9")
    label(store, "program")
    rows = store.sql(TWICE).fetchall()
    assert len(rows) == len(nodes(store))
    assert any("/" in node for node, *_ in rows)
    assert {value for _, value, *_ in rows} >= {0.0, 1.0}
    for node, value, details, again, details_again in rows:
        assert (value, details) == (again, details_again), node


def test_a_later_judge_sees_the_prompts_of_the_inline_one(store):
    label(store, "rule:finish", use="audit", votes=2)
    rows = store.sql(
        "select node_id, prompt_sha256, count(*) from labels where kind = 'judge' group by all order by 1"
    ).fetchall()
    assert [(node, n) for node, _, n in rows] == [(node, 2) for node in nodes(store)]


def test_a_judge_sees_commands_and_helpers_but_no_end(store):
    con = store.connect()
    subjects = load_subjects(con, nodes(store))
    con.close()
    cases = {node: case_of(subject) for node, subject in subjects.items()}
    said = json.dumps([[(s.reply, s.answer, *s.helpers) for s in case.steps] for case in cases.values()])
    feedback = {c["feedback"] for t in store.turns.pl()["tool_calls"].to_list() for c in t}
    assert "[ok] " in said
    assert feedback & {"success", "exhausted"}
    for word in ("success", "failure", "exhausted"):
        assert f"[{word}]" not in said
    root = next(case for node, case in cases.items() if "/" not in node and any(s.helpers for s in case.steps))
    helped = [line for step in root.steps for line in step.helpers]
    assert any(line.startswith("helper's goal: ") for line in helped)
    assert any(" : [ok] " in line for line in helped)
    assert all("ready" not in case.change for case in cases.values())
