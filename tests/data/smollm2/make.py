"""Makes `replies.jsonl`: what SmolLM2-135M-Instruct answers to the prompts of every role and dialect.

Invariant: replies are stored exactly as they were sampled, {world, dialect, role, finish_reason, text} a line; the
prompts are those of real collect phases, in which the model plays, writes rubrics, scores and judges.

Run: ``python tests/data/smollm2/make.py POLICY_DIRECTORY``, with a directory that `sera policy import` made.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import sera_data as sd

HERE = Path(__file__).parent
CRAFT = ("world.profile=strict", "world.tasks={worlds: '1000-1003', n: 8, tier_mix: {2: 0.5, 3: 0.5}}")
KITCHEN = ("world={name: textworld, profile: strict, tasks: {generator: textworld, difficulties: [easy], limit: 4}}",)
PLAYS = ("groups={eval: 2}", "samples=2", "budgets.turns=6", "sampling.act={max_tokens: 64}", "delegation.mode=plain")
SERVES = (
    "policy.model=scripted:delegating_oracle", "groups={execution: 2}", "samples=2", "rubric.attempts=1",
    "sampling.writer={max_tokens: 320}", "sampling.scorer={max_tokens: 256, temperature: 1.0}",
    "judge={audit_share: 1.0, max_tokens: 160, temperature: 1.0, for: [execution]}", "style=full",
)  # fmt: skip


def replies(policy):
    """Rows of all phases."""
    model = f"policy.model={policy}"
    roles = f"policy.roles={{writer: {policy}, scorer: {policy}, judge: {policy}}}"
    phases = {
        "json": (*CRAFT, *PLAYS, model, "dialect=json"),
        "code": (*CRAFT, *PLAYS, model, "dialect=code"),
        "blocks": (*KITCHEN, *PLAYS, model, "dialect=blocks"),
        "roles": (*CRAFT, *SERVES, roles),
    }
    for name, settings in phases.items():
        with tempfile.TemporaryDirectory() as folder:
            sets = [part for text in settings for part in ("--set", text)]
            subprocess.run([sys.executable, "-m", "sera_data", "collect", "--store", f"{folder}/s", *sets], check=True)
            store = sd.open(f"{folder}/s")
            world = "textworld" if name == "blocks" else "textcraft"
            shared = {"world": world, "dialect": "json" if name == "roles" else name}
            for row in store.sql("from turns where completion_ids is not null order by turn_id").pl().to_dicts():
                yield {**shared, "role": row["role"], "finish_reason": row["finish_reason"], "text": row["text"]}
            for row in store.sql("from labels where kind = 'judge' order by node_id").pl().to_dicts():
                finish = "length" if "truncated" in (row["error"] or "") else "stop"
                yield {**shared, "role": "judge", "finish_reason": finish, "text": row["raw_text"]}


if __name__ == "__main__":
    lines = [json.dumps(row, ensure_ascii=False) for row in replies(sys.argv[1])]
    (HERE / "replies.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} replies")
