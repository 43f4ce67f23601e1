"""Episodes of other tools as rows of a store.

Invariant: a root node per episode and an act turn per completion; ids and log-probabilities are stored exactly as
recorded. A turn is trainable only with ids, log-probabilities that the importing person declares to be those of the
untruncated distribution, top_p 1 and a temperature above 0; everything else serves audits and chats.

Run: ``episode_rows(episode, ...)`` after a reader of `sera_data/import_*.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemas.words import LabelKind, LogprobsMode, Purpose
from sera_data.canonical import canonical_json, sha256_json, sha256_text
from sera_data.episode import Episode, Message, Step, text_of
from sera_data.tokens import prompt_hash

WORLD = "imported"
STATE = "{}"
VERSION = "import-1"
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the importing person says of the files. threshold: lowest score that counts as success."""

    form: str
    split: str = "train"
    purpose: Purpose = "execution"
    threshold: float = 0.5
    label_kind: LabelKind = "program"
    logprobs: LogprobsMode = "raw_logprobs"


def task_row(episode: Episode, options: ImportOptions) -> dict[str, Any]:
    """The task of an episode; episodes with one key share it."""
    spec = canonical_json({"key": episode.key, "source": options.form, "task": episode.extra})
    return {
        "task_id": "t" + sha256_json([WORLD, options.form, episode.key])[:16],
        "world": WORLD,
        "profile": options.form,
        "split": options.split,
        "difficulty": WORLD,
        "goal": episode.goal,
        "spec": spec,
        "upstream_id": episode.key[:200],
    }


def episode_rows(
    episode: Episode, options: ImportOptions, *, run_id: str, epoch: int, task_id: str, sample: int
) -> Rows:
    """Rows of `nodes`, `turns` and `labels` of one episode."""
    tree = "r" + sha256_json([run_id, epoch, task_id, sample])[:16]
    shared = {"node_id": tree, "tree_id": tree, "task_id": task_id}
    turns = _turns(episode, options, shared)
    ids = [t for t in turns if t["completion_ids"] is not None]
    node = {
        **shared,
        "sample": sample,
        "on_path": True,
        "depth": 0,
        "purpose": options.purpose,
        "goal": episode.goal,
        "start_state": STATE,
        "end_state": None if episode.outcome == "infra_error" else STATE,
        "start_digest": sha256_text(STATE),
        "end_digest": None if episode.outcome == "infra_error" else sha256_text(STATE),
        "outcome": episode.outcome,
        "message": text_of(episode.steps[-1].reply),
        "turn_budget": len(turns),
        "n_turns": len(turns),
        "n_children": 0,
        "n_prompt_tokens": sum(len(t["prompt_ids"]) for t in ids),
        "n_completion_tokens": sum(len(t["completion_ids"]) for t in ids),
        "policy_version_min": 0,
        "policy_version_max": 0,
        "seed": 0,
        "order_start": 0,
        "order_end": len(turns) + 1,
        "error": episode.error,
    }
    return {"nodes": [node], "turns": turns, "labels": _labels(episode, options, shared)}


def _turns(episode: Episode, options: ImportOptions, shared: dict[str, Any]) -> list[dict[str, Any]]:
    names = [f"{shared['node_id']}#{n:04d}" for n in range(len(episode.steps))]
    wholes: list[list[int] | None] = []
    said: list[list[Message]] = []
    rows = []
    for n, step in enumerate(episode.steps):
        base = step.base
        before = None if base is None or wholes[base] is None else wholes[base]
        prompt = None if step.prompt_ids is None else [*(before or []), *step.prompt_ids]
        messages = [*([] if base is None else said[base]), *step.prompt]
        wholes.append(None if prompt is None else [*prompt, *(step.completion_ids or [])])
        said.append([*messages, step.reply])
        answered = next((s.prompt for s in episode.steps[n + 1 :] if s.base == n), None)
        if answered is None and n == len(episode.steps) - 1:
            answered = episode.after
        row = {
            **shared,
            "turn_id": names[n],
            "kind": "act",
            "step": n,
            "role": "act",
            "policy": step.model or episode.model or WORLD,
            "policy_version": 0,
            "base_turn": None if base is None else names[base],
            "n_prompt": None if prompt is None else len(prompt),
            "prompt_text": canonical_json(step.prompt),
            "text": text_of(step.reply),
            "observation": "\n".join(map(text_of, answered)) if answered else None,
            "prompt_sha256": sha256_text(canonical_json(messages)) if prompt is None else prompt_hash(prompt),
            "order_stamp": n + 1,
        }
        rows.append({**row, **_sampling(step, options), **_calls(step.reply, answered or [], n + 1)})
    return rows


def _sampling(step: Step, options: ImportOptions) -> dict[str, Any]:
    mode: LogprobsMode = "none" if step.logprobs is None else options.logprobs
    exact = step.completion_ids is not None and mode == "processed_logprobs"
    return {
        "trainable": step.trainable and exact and step.top_p == 1 and step.temperature > 0,
        "ok": step.error is None,
        "error": step.error,
        "prompt_ids": step.prompt_ids,
        "completion_ids": step.completion_ids,
        "logprobs": step.logprobs,
        "logprobs_mode": mode,
        "temperature": step.temperature,
        "top_p": step.top_p,
        "max_tokens": max(step.max_tokens, len(step.completion_ids or [])),
        "seed": 0,
        "finish_reason": step.finish_reason,
        "latency_s": step.latency_s,
        "delegations": [],
    }


def _calls(reply: Message, answers: list[Message], stamp: int) -> dict[str, Any]:
    """Tool calls of a reply in whatever form they come, and `action`, from which a chat gets them back."""
    kept = {name: reply[name] for name in ("tool_calls", "reasoning_content") if reply.get(name)}
    results = {m["tool_call_id"]: text_of(m) for m in answers if "tool_call_id" in m}
    raw = reply.get("tool_calls")
    calls = [c for c in raw if isinstance(c, dict)] if isinstance(raw, list) else []
    return {
        "action": canonical_json(kept) if kept else None,
        "tool_calls": [_call(call, results, stamp) for call in calls],
    }


def _call(call: dict[str, Any], results: dict[str, str], stamp: int) -> dict[str, Any]:
    function = call.get("function")
    body = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else body.get("name") or call.get("function_name") or "unknown"
    arguments = body.get("arguments", {})
    known = call.get("id") or call.get("tool_call_id")
    return {
        "tool": str(name),
        "arguments": arguments if isinstance(arguments, str) else canonical_json(arguments),
        "ok": True,
        "result": results.get(str(known), ""),
        "delta": None,
        "feedback": None,
        "order_stamp": stamp,
    }


def _labels(episode: Episode, options: ImportOptions, shared: dict[str, Any]) -> list[dict[str, Any]]:
    if episode.score is None or episode.outcome == "infra_error":
        return []
    details = {"score": episode.score, "threshold": options.threshold, "given": episode.details}
    return [
        {
            **shared,
            "source": episode.checker,
            "version": VERSION,
            "attempt": 0,
            "kind": options.label_kind,
            "use": "train",
            "inclusion_probability": 1.0,
            "valid": True,
            "value": float(episode.score >= options.threshold),
            "details": canonical_json(details),
        }
    ]
