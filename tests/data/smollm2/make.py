"""Makes `replies.jsonl`: what SmolLM2-135M-Instruct answers to the prompts of every role and dialect.

Invariant: replies are stored as sampled, {phase, world, dialect, role, finish_reason, text} a line; the
prompts are those of real collect phases, in which the model plays, writes rubrics, scores and judges.

Run: ``python tests/data/smollm2/make.py POLICY_DIRECTORY [PHASE ...]``, with a directory that `sera policy import`
made; phases are json, code, blocks (who plays), writers, and scorers (who score by a fixed rubric, and judge).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import sera_data as sd

HERE = Path(__file__).parent
CRAFT = ("world.profile=strict", "world.tasks={worlds: '1000-1003', n: 8, tier_mix: {2: 0.5, 3: 0.5}}")
KITCHEN_TASKS = "{generator: textworld, difficulties: [easy], per_cell: 1}"
KITCHEN = (f"world={{name: textworld, profile: strict, tasks: {KITCHEN_TASKS}}}",)
PLAYS = (
    "groups={eval: 1}",
    "samples=1",
    "budgets.turns=6",
    "sampling.act={max_tokens: 64, temperature: 0.5}",
    "delegation.mode=plain",
)
SERVES = (
    "policy.model=scripted:delegating_oracle", "groups={execution: 3}", "samples=1", "rubric.attempts=1",
    "sampling.writer={max_tokens: 200, temperature: 0.5}", "sampling.scorer={max_tokens: 96, temperature: 0.5}",
    "style=full", "delegation.mode=plain",
)  # fmt: skip
JUDGES = "judge={audit_share: 1.0, max_tokens: 64, temperature: 0.5, for: [execution]}"


def replies(policy, wanted):
    """Rows of the phases that are wanted, all without names."""
    model = f"policy.model={policy}"
    roles = f"policy.roles={{scorer: {policy}, judge: {policy}}}"
    phases = {
        "json": (*CRAFT, *PLAYS, model, "dialect=json"),
        "code": (*CRAFT, *PLAYS, model, "dialect=code"),
        "blocks": (*KITCHEN, *PLAYS, model, "dialect=blocks"),
        "writers": (*CRAFT, *SERVES, f"policy.roles.writer={policy}"),
        "scorers": (*CRAFT, *SERVES, roles, "rubric.source=global", JUDGES),
    }
    for name, settings in phases.items():
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            sets = [part for text in settings for part in ("--set", text)]
            subprocess.run([sys.executable, "-m", "sera_data", "collect", "--store", f"{folder}/s", *sets], check=True)
            store = sd.open(f"{folder}/s")
            world = "textworld" if name == "blocks" else "textcraft"
            shared = {"phase": name, "world": world, "dialect": name if name in ("json", "code", "blocks") else "json"}
            for row in store.sql("from turns where completion_ids is not null order by turn_id").pl().to_dicts():
                yield {**shared, "role": row["role"], "finish_reason": row["finish_reason"], "text": row["text"]}
            said = store.sql("from labels where kind = 'judge' and raw_text is not null order by node_id")
            for row in said.pl().to_dicts():
                finish = "length" if "truncated" in (row["error"] or "") else "stop"
                yield {**shared, "role": "judge", "finish_reason": finish, "text": row["raw_text"]}


if __name__ == "__main__":
    path, wanted = HERE / "replies.jsonl", sys.argv[2:]
    made = list(replies(sys.argv[1], wanted))
    old = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    kept = [row for row in old if wanted and row["phase"] not in wanted]
    rows = sorted([*kept, *made], key=lambda row: row["phase"])
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} replies")
