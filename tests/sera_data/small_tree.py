"""The rows of one small tree, made by hand and the same every time.

It is a root that looks, delegates once (turn 1) to `k` branches and finishes. Branch 0 delegates once more, plainly (a
factual grandchild), and so does branch 3 (an off-path grandchild). Every delegation has a rubric (k 0, attempt 0) and
every child a score (attempt 0); every node has a program label.

- Child `b` of sample `s` succeeds when `(b + s) % 2 == 0`; the root succeeds with its branch 0; grandchildren succeed.
- A success scores 0.75, a failure 0.25, except that branch 5 always scores 0.5; grandchildren score 1.0.
- Turns carry token ids, logprobs of -0.5 and hashes that keep the token rule (`tokens=False`: text only).

Use: ``tree_rows(...)``; ``small_store(...)`` makes a whole store of such trees.
"""

from __future__ import annotations

from typing import Any

from schemas import Rubric, RubricItem
from sera_data.canonical import canonical_json, sha256_json, sha256_text

STATE = '{"inventory":{"m1_ore":5}}'
POLICY = "tester"

Rows = dict[str, list[dict[str, Any]]]

RUBRIC = Rubric(
    items=(
        RubricItem(name="goal", description="The target item is there", weight=0.5),
        RubricItem(name="waste", description="Nothing is wasted", weight=0.5),
    ),
    success_gate="the target item is there",
    failure_conditions="the target item is missing",
    procedure="weighted sum",
)


def tree_id(run_id: str, epoch: int, task: str, sample: int) -> str:
    """Id of a tree, as the collectors make it."""
    return "r" + sha256_json([run_id, epoch, task, sample])[:16]


def tree_rows(
    task: str,
    sample: int,
    *,
    epoch: int,
    k: int,
    tokens: bool,
    run_id: str,
    purpose: str,
    version: int,
) -> Rows:
    """All rows of one tree as described in the module docstring."""
    tree = _Tree(task=task, tree=tree_id(run_id, epoch, task, sample), sample=sample, k=k, tokens=tokens)
    tree.purpose, tree.version = purpose, version
    tree.grow()
    return tree.rows


class _Tree:
    """Grows one tree; every `add_*` appends complete rows."""

    def __init__(self, *, task: str, tree: str, sample: int, k: int, tokens: bool) -> None:
        self.task, self.tree, self.sample, self.k, self.tokens = task, tree, sample, k, tokens
        self.purpose, self.version = "execution", 0
        names = ("nodes", "turns", "rubrics", "branches", "labels", "scores")
        self.rows: Rows = {name: [] for name in names}

    def grow(self) -> None:
        success = self.sample % 2 == 0
        self.add_node(self.tree, depth=0, success=success, delegates=True, order=0)
        for branch in range(self.k):
            node = f"{self.tree}/t1d0b{branch}"
            good = (branch + self.sample) % 2 == 0
            score = 0.5 if branch == 5 else 0.75 if good else 0.25
            deeper = branch in (0, 3)
            self.add_node(node, depth=1, success=good, delegates=deeper, order=10, parent=self.tree, branch=branch)
            self.add_score(node, f"{self.tree}/t1d0", score)
            if deeper:
                child = f"{node}/t1d0b0"
                self.add_node(child, depth=2, success=True, delegates=False, order=20, parent=node, branch=0)
                self.add_score(child, f"{node}/t1d0", 1.0)
                self.add_delegation(node, depth=2, k=1, order=19)
        self.add_delegation(self.tree, depth=1, k=self.k, order=9)

    def add_node(
        self,
        node: str,
        *,
        depth: int,
        success: bool,
        delegates: bool,
        order: int,
        parent: str | None = None,
        branch: int | None = None,
    ) -> None:
        on_path = all(part.endswith("b0") for part in node.split("/")[1:])
        acts = self.add_acts(node, delegates=delegates, order=order)
        self.rows["nodes"].append(
            {
                "node_id": node,
                "tree_id": self.tree,
                "task_id": self.task,
                "sample": self.sample,
                "parent_id": parent,
                "delegation_id": None if parent is None else node.rpartition("b")[0],
                "branch": branch,
                "on_path": on_path,
                "depth": depth,
                "purpose": self.purpose,
                "goal": "craft 1x m2_i3",
                "targets": '{"m2_i3":1}',
                "start_state": STATE,
                "end_state": STATE,
                "start_digest": sha256_text(STATE),
                "end_digest": sha256_text(STATE),
                "outcome": "finished",
                "message": "done",
                "turn_budget": 10,
                "n_turns": len(acts),
                "n_children": int(delegates),
                "n_prompt_tokens": sum(len(a["prompt_ids"] or []) for a in acts),
                "n_completion_tokens": sum(len(a["completion_ids"] or []) for a in acts),
                "policy_version_min": self.version,
                "policy_version_max": self.version,
                "seed": 7,
                "order_start": order,
                "order_end": order + 5,
            }
        )
        self.rows["labels"].append(
            {
                "node_id": node,
                "tree_id": self.tree,
                "task_id": self.task,
                "source": "textcraft",
                "version": "1",
                "attempt": 0,
                "kind": "program",
                "use": "train",
                "inclusion_probability": 1.0,
                "valid": True,
                "value": float(success),
            }
        )

    def add_acts(self, node: str, *, delegates: bool, order: int) -> list[dict[str, Any]]:
        """Act turns 0, (1: delegates,) and the last, each extending the one before; a rubric turn after turn 1."""
        prompt: list[int] = []
        acts: list[dict[str, Any]] = []
        for step in range(3 if delegates else 2):
            own = list(range(10 * step, 10 * step + (6 if step == 0 else 3)))
            prompt = [*prompt, *own]
            launch = delegates and step == 1
            number = step if not delegates or step < 2 else step + 1
            text = '{"tool":"delegate"}' if launch else '{"tool":"view_inventory"}'
            turn = self.turn(node, number, "act", own, prompt, text, order=order + step)
            turn["step"] = step
            turn["base_turn"] = acts[-1]["turn_id"] if acts else None
            turn["action"] = text
            turn["observation"] = "Child: done." if launch else STATE
            if launch:
                span = {"char_start": 0, "char_end": len(text), "token_start": 0, "token_end": 4}
                span = span if self.tokens else {**span, "token_start": None, "token_end": None}
                launched = {"delegation_id": f"{node}/t1d0", "status": "launched", "targets": '{"m2_i3":1}'}
                turn["delegations"] = [{**launched, **span}]
            prompt = [*prompt, *(turn["completion_ids"] or [])]
            acts.append(turn)
            self.rows["turns"].append(turn)
            if launch:
                writer = self.turn(node, 2, "rubric", [1, 2, 3], [1, 2, 3], RUBRIC.canonical(), order=order + 2)
                self.rows["turns"].append(writer)
        return acts

    def turn(
        self, node: str, number: int, kind: str, own: list[int], prompt: list[int], text: str, *, order: int
    ) -> dict[str, Any]:
        """A turn with four completion ids (or text only)."""
        role = {"act": "act", "rubric": "writer", "score": "scorer"}[kind]
        turn: dict[str, Any] = {
            "turn_id": f"{node}#{number:04d}",
            "node_id": node,
            "tree_id": self.tree,
            "task_id": self.task,
            "kind": kind,
            "step": None,
            "role": role,
            "policy": POLICY,
            "policy_version": self.version,
            "trainable": self.tokens,
            "ok": True,
            "base_turn": None,
            "text": text,
            "temperature": 1.0,
            "top_p": 1.0,
            "max_tokens": 64,
            "seed": 11,
            "finish_reason": "stop",
            "tool_calls": [],
            "delegations": [],
            "order_stamp": order,
        }
        if self.tokens:
            exact = {"prompt_ids": own, "completion_ids": [5, 6, 7, 2], "logprobs": [-0.5] * 4, "n_prompt": len(prompt)}
            hashed = sha256_text(canonical_json(prompt))
            return {**turn, **exact, "logprobs_mode": "processed_logprobs", "prompt_sha256": hashed}
        plain = {"prompt_ids": None, "completion_ids": None, "logprobs": None, "prompt_text": "Goal: craft 1x m2_i3"}
        return {**turn, **plain, "logprobs_mode": "none", "prompt_sha256": sha256_text("Goal: craft 1x m2_i3")}

    def add_delegation(self, parent: str, *, depth: int, k: int, order: int) -> None:
        """A delegation's branches and its rubric."""
        delegation = f"{parent}/t1d0"
        shared = {"delegation_id": delegation, "tree_id": self.tree, "task_id": self.task}
        for branch in range(k):
            row = {
                "branch": branch,
                "k": k,
                "node_id": f"{delegation}b{branch}",
                "parent_id": parent,
                "depth": depth,
                "turn_id": f"{parent}#0001",
                "launch": 0,
                "committed": branch == 0,
                "seed": branch,
                "snapshot_digest": sha256_text(STATE),
                "selection": "recommended" if k > 1 else "plain",
                "budget_position": 1,
                "inclusion_probability": 1.0,
                "complete": True,
            }
            self.rows["branches"].append({**shared, **row})
        self.rows["rubrics"].append(
            {
                **shared,
                "rubric_id": f"{delegation}~{POLICY}~0~0",
                "node_id": parent,
                "turn_id": f"{parent}#0002",
                "writer": POLICY,
                "writer_version": self.version,
                "k": 0,
                "attempt": 0,
                "phase": "collect",
                "valid": True,
                "items": [item.model_dump() for item in RUBRIC.items],
                "success_gate": RUBRIC.success_gate,
                "failure_conditions": RUBRIC.failure_conditions,
                "procedure": RUBRIC.procedure,
                "rubric_sha256": RUBRIC.sha256(),
                "prompt_sha256": "0" * 64,
                "order_stamp": order,
            }
        )

    def add_score(self, node: str, delegation: str, value: float) -> None:
        """A score turn of a node and its score row."""
        number = sum(turn["node_id"] == node for turn in self.rows["turns"])
        turn = self.turn(node, number, "score", [4, 5], [4, 5], f'{{"final_score":{value}}}', order=40)
        self.rows["turns"].append(turn)
        self.rows["scores"].append(
            {
                "rubric_id": f"{delegation}~{POLICY}~0~0",
                "node_id": node,
                "delegation_id": delegation,
                "tree_id": self.tree,
                "task_id": self.task,
                "scorer": POLICY,
                "scorer_version": self.version,
                "attempt": 0,
                "phase": "collect",
                "valid": True,
                "final_score": value,
                "success": value > 0,
                "item_scores": [{"name": "goal", "score": value}, {"name": "waste", "score": value}],
                "weighted_score": value,
                "turn_id": turn["turn_id"],
                "prompt_sha256": "0" * 64,
                "order_stamp": 40,
            }
        )
