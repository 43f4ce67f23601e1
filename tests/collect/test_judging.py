"""A judge beside a running tree: what no program can check, a share for the audit, and never an end of the tree."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import sera_data as sd
from collect.judge_config import JudgeConfig
from collect.labels import open_inline_judge
from collect.services import Services
from collect.settings import TreeSettings
from collect.tree import run_tree
from schemas import SCHEMA_VERSION
from sera_data.errors import ConfigError, UsageError

sys.path.insert(0, str(Path(__file__).parent))
from job_lab import play as play_job
from job_lab import small_config
from judge_lab import completion, endpoint, raw, say
from label_lab import FAST, label
from tree_lab import RUBRIC, SCORE, Fake, Pot, call, done, plan, script

pytestmark = pytest.mark.usefixtures("no_keys")


class Unchecked(Pot):
    """A world whose program knows nothing of goals."""

    def verdict(self, start, end, targets, *, changes=()):
        return None


ONE_CHILD = {
    "": [call("delegate", targets={"a": 2}, context="HINT"), done("all of it")],
    "/t0d0b0": [call("add", item="a", n=2), done("made it")],
}


def play(spec, *, world=None, act=None, purpose="execution", **config):
    judge = open_inline_judge(JudgeConfig(spec=spec, **{**FAST, **config}))
    policies = {
        "act": Fake("player", act or script(ONE_CHILD)),
        "writer": Fake("writer", lambda r: json.dumps(RUBRIC)),
        "scorer": Fake("scorer", lambda r: json.dumps(SCORE)),
    }
    services = Services(world=world or Unchecked(), policies=policies, settings=TreeSettings(), judge=judge)

    async def run():
        try:
            return await run_tree(plan(purpose), services)
        finally:
            await judge.labeller.close()

    return asyncio.run(run())


def test_nodes_without_a_program_label_are_judged():
    with endpoint(say(True), say(True), say(False)) as server:
        result = play(f"openai:m@{server.url}", votes=3, temperature=1.0, concurrency=1)
    labels = result.rows["labels"]
    tree = result.root.tree_id
    assert [(row["node_id"], row["attempt"]) for row in labels] == [
        (node, attempt) for node in (tree, f"{tree}/t0d0b0") for attempt in range(3)
    ]
    assert {(row["kind"], row["use"], row["source"]) for row in labels} == {("judge", "train", "m")}
    assert result.root.success is True  # two of three votes on the root
    users = [body["messages"][1]["content"] for _, body in server.requests]
    child = next(text for text in users if 'agent: "HINT"' in text)
    assert 'Root task: "make 2x a"' in child
    assert 'Report to the delegating agent: "made it"' in child
    assert not any("MARKER" in text for text in users)


def test_a_tie_or_no_valid_vote_is_no_success():
    with endpoint(say(True), say(False)) as server:
        assert play(f"openai:m@{server.url}", votes=2, concurrency=1, act=lambda r: done()).root.success is None
    with endpoint(raw(500, b"")) as server:
        result = play(f"openai:m@{server.url}", votes=2)
    assert result.root.success is None
    assert [row["error"] for row in result.rows["labels"]] == ["HTTP 500 (2 tries)"] * 4
    assert result.root.outcome == "finished"


def test_a_judge_that_refuses_the_key_ends_no_tree():
    with endpoint(raw(401, b"no")) as server:
        result = play(f"openai:m@{server.url}")
    assert all("HTTP 401" in row["error"] and not row["valid"] for row in result.rows["labels"])
    assert result.root.outcome == "finished"


def test_where_the_program_judges_the_judge_only_audits():
    assert {row["kind"] for row in play("rule:finish", world=Pot()).rows["labels"]} == {"program"}
    labels = play("rule:finish", world=Pot(), audit_share=1.0).rows["labels"]
    assert [row["kind"] for row in labels] == ["program", "judge"] * 2
    assert {(row["use"], row["inclusion_probability"]) for row in labels if row["kind"] == "judge"} == {("audit", 1.0)}


def test_only_the_named_purposes_are_judged():
    assert play("rule:finish", purpose="eval").rows["labels"] == []
    assert play("rule:finish", purpose="eval", **{"for": ["eval"]}).rows["labels"] != []


def test_nodes_lost_to_infrastructure_are_not_judged():
    crash = {"": [call("add", item="crash", n=1)]}
    labels = play("rule:finish", act=script(crash)).rows["labels"]
    assert [(row["kind"], row["valid"]) for row in labels] == [("program", False)]


def test_a_phase_stores_its_judge_and_a_later_one_sees_the_same_prompts(tmp_path):
    """Inline and stored subjects of forked TextCraft trees give equal prompts, node by node."""
    with endpoint(say(True)) as server:
        spec = f"openai:m@{server.url}"
        config = small_config(
            "policy.model=scripted:teacher", f"judge={json.dumps({'spec': spec, 'audit_share': 1.0, **FAST})}"
        )
        store, job, _ = play_job(tmp_path / "store", config)
        sd.seal(store, job.plan.name)
        label(store, spec, use="audit", votes=2)
        sd.verify(store)
    rows = store.sql(
        "select node_id, attempt, use, prompt_sha256 from labels where kind = 'judge' order by 1, 2"
    ).fetchall()
    n = store.sql("select count(*) from nodes where outcome <> 'infra_error'").fetchall()[0][0]
    assert len(rows) == 2 * n
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert (first[0], first[1], second[1]) == (second[0], 0, 1)
        assert first[3] == second[3], first[0]
    roles = "select distinct unnest(policies).role from runs where phase = 'collect' order by 1"
    assert [row[0] for row in store.sql(roles).fetchall()] == ["act", "judge", "scorer", "writer"]


def test_a_wrong_judge_is_told_before_anything_is_claimed(tmp_path):
    with pytest.raises(UsageError, match="no labeller 'kimi'"):
        play_job(tmp_path / "store", small_config("judge={spec: kimi}"))
    assert list((tmp_path / "store" / "plans").iterdir()) == []
    with pytest.raises(ConfigError, match=r"unknown key 'judge.vote'; allowed here: .*votes"):
        small_config("judge={spec: 'rule:finish', vote: 3}")


MARKED = {
    "labels": ("error", "details", "raw_text", "source", "version", "params"),
    "scores": ("error", "prompt_sha256"),
    "rubrics": ("success_gate", "failure_conditions", "procedure", "error"),
    "nodes": ("error",),
    "branches": ("exclusion_reason",),
    "runs": ("code_version", "host"),
    "tasks": ("split", "family", "upstream_id"),
}


def test_a_stored_node_shows_a_judge_nothing_of_scores_labels_and_outcomes(tmp_path):
    """Every text of the store that judges or scores a node is planted with a marker; no request holds one."""
    played, _, _ = play_job(tmp_path / "played", small_config("policy.model=scripted:teacher"))
    store = sd.create(tmp_path / "store")
    plan = sd.claim_plan(store, run_id="r-1", phase="collect", config_hash="c" * 64, units=[{"unit_id": "u0000"}])
    skip = ("run_id", "epoch", "shard_id")
    with sd.ShardWriter(store, plan, "u0000") as writer:
        for table in ("runs", "tasks", "nodes", "turns", "rubrics", "branches", "labels", "scores"):
            rows = played.table(table).arrow().to_pylist()
            for row in rows[:1] if table == "runs" else rows:
                marks = dict.fromkeys(MARKED.get(table, ()), f"MARKER-{table}")
                writer.add(table, {**{k: v for k, v in row.items() if k not in skip}, **_planted(table, row), **marks})
        writer.commit()
    sd.seal(store, plan.name)
    with endpoint(raw(200, completion("hm"))) as server:
        label(store, f"openai:m@{server.url}")
        said = json.dumps([body for _, body in server.requests])
    assert len(server.requests) == store.sql("select count(*) from nodes").fetchall()[0][0]
    assert store.sql("select count(*) from labels where details like '%MARKER%'").fetchall() != [(0,)]
    assert "MARKER" not in said
    assert '"score' not in said
    assert SCHEMA_VERSION


def _planted(table, row):
    if table == "turns":
        calls = [{**c, "feedback": "MARKER-feedback", "delta": _with_marker(c["delta"])} for c in row["tool_calls"]]
        return {"tool_calls": calls, "error": row["error"] and "MARKER-error"}
    if table == "nodes":
        return {"purpose": "rubric"}
    return {}


def _with_marker(delta):
    return None if delta is None else json.dumps({**json.loads(delta), "reward": "MARKER-reward"})
