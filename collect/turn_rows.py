"""Rows of the `turns` table.

Invariant: ids and logprobs are stored exactly as the engine returned them; a turn is trainable only with ids and
logprobs of the untruncated distribution that was sampled from.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from collect.decision import Launch
from collect.policy import Completion, Policy, Sampling
from collect.records import Row
from collect.transcript import Transcript
from collect.world import Action, Event
from schemas.words import TurnKind
from sera_data.canonical import canonical_json


def turn_row(
    *,
    turn_id: str,
    node_id: str,
    kind: TurnKind,
    step: int | None,
    transcript: Transcript,
    completion: Completion,
    sampling: Sampling,
    order_stamp: int,
    started_at: datetime,
) -> Row:
    """Row of a completion before anything is known of what it did; must be called before the chat goes on."""
    policy = transcript.policy
    ids, logprobs = completion.completion_ids, completion.logprobs
    return {
        "turn_id": turn_id,
        "node_id": node_id,
        "kind": kind,
        "step": step,
        "role": transcript.role,
        "policy": policy.identity.name,
        "policy_version": completion.policy_version,
        "trainable": _trainable(policy, completion, sampling),
        "ok": True,
        "base_turn": transcript.base_turn,
        "prompt_ids": transcript.delta,
        "completion_ids": None if ids is None else list(ids),
        "logprobs": None if logprobs is None else list(logprobs),
        "logprobs_mode": completion.logprobs_mode,
        "n_prompt": completion.n_prompt if transcript.n_prompt is None else transcript.n_prompt,
        "n_cached": completion.n_cached,
        "prompt_text": transcript.delta_text,
        "text": completion.text,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "finish_reason": completion.finish_reason,
        "action": None,
        "observation": None,
        "error": None,
        "tool_calls": [],
        "delegations": [],
        "order_stamp": order_stamp,
        "prompt_sha256": transcript.prompt_sha256(),
        "n_completion": completion.n_completion if ids is None else len(ids),
        "served_model": completion.served_model,
        "cost": completion.cost,
        "started_at": started_at,
        "latency_s": (datetime.now(UTC) - started_at).total_seconds(),
    }


def failed_completion(policy: Policy) -> Completion:
    """Stands for a writer's or scorer's completion that never came, so that its attempt is stored."""
    return Completion(
        text="",
        completion_ids=None if policy.renderer is None else [],
        logprobs=None,
        finish_reason="error",
        logprobs_mode="none",
        policy_version=policy.identity.version,
    )


def token_span(policy: Policy, ids: Sequence[int] | None, launch: Launch) -> tuple[int | None, int | None]:
    """Half-open token span of a launch's characters: the tokens that hold its first and last character."""
    if policy.renderer is None or ids is None:
        return None, None
    lengths = policy.renderer.offsets(ids)

    def boundary(characters: int) -> int:
        return next((k for k, length in enumerate(lengths) if length >= characters), len(lengths) - 1)

    start = max(0, boundary(launch.char_start + 1) - 1)
    return start, min(len(ids), max(start + 1, boundary(launch.char_end)))


def tool_call(action: Action, event: Event, *, order_stamp: int) -> dict[str, Any]:
    """Element of `tool_calls`; order_stamp: the acting agent's clock when the call was applied."""
    return {
        "tool": action.tool,
        "arguments": canonical_json(action.arguments),
        "ok": event.ok,
        "result": event.result,
        "delta": None if event.delta is None else canonical_json(event.delta),
        "feedback": event.feedback,
        "order_stamp": order_stamp,
    }


def _trainable(policy: Policy, completion: Completion, sampling: Sampling) -> bool:
    return (
        policy.trainable
        and completion.completion_ids is not None
        and completion.logprobs is not None
        and completion.logprobs_mode == "processed_logprobs"
        and sampling.temperature > 0
        and sampling.top_p == 1.0
    )
