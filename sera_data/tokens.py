"""The token rule of `turns`: what is stored is exactly what the engine saw and sampled.

Invariant: full prompt = full prompt of the base turn + the base turn's completion + own `prompt_ids`, its length is
`n_prompt` and its hash `prompt_sha256`; `logprobs` aligns one to one with `completion_ids` and is finite; a
trainable turn has ids and processed logprobs of an untruncated distribution. A violation names the turn.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.words import LAUNCH_STATUSES
from sera_data.errors import RowError

Turn = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A full prompt, absorbed: number of ids, and sha256 over the beginning of their compact JSON list."""

    length: int
    digest: hashlib._Hash

    def grown(self, ids: Sequence[int]) -> Prompt:
        """This prompt with more ids behind it."""
        if len(ids) == 0:
            return self
        digest = self.digest.copy()
        digest.update((("," if self.length else "") + ",".join(map(str, map(int, ids)))).encode())
        return Prompt(self.length + len(ids), digest)

    def sha256(self) -> str:
        """Hex sha256 of the whole list."""
        whole = self.digest.copy()
        whole.update(b"]")
        return whole.hexdigest()


EMPTY = Prompt(0, hashlib.sha256(b"["))


def require_token_rule(turns: Iterable[Turn]) -> None:
    """Check every turn of a shard; RowError names the first that breaks the rule."""
    by_id = {turn["turn_id"]: turn for turn in turns}
    prompts: dict[str, Prompt] = {}
    for turn in by_id.values():
        _require_alignment(turn)
        _require_base(turn, by_id)
        _require_spans(turn)
    for turn in by_id.values():  # only now is every chain of base turns known to be whole and to end
        if turn["prompt_ids"] is not None:
            _require_prompt(turn, _rebuilt(turn, by_id, prompts))


def require_aligned(rows: Iterable[Mapping[str, Any]]) -> None:
    """Check every `logprobs` row of a shard by itself; RowError names the first that is not finite or not counted."""
    for row in rows:
        values = row["logprobs"]
        if row["n_tokens"] != len(values):
            fault = f"n_tokens is {row['n_tokens']}, got {len(values)} logprobs"
        elif not all(map(math.isfinite, values)):
            index, value = next((i, v) for i, v in enumerate(values) if not math.isfinite(v))
            fault = f"logprob {index} is {value}; logprobs must be finite"
        else:
            continue
        msg = f"logprobs of turn {row['turn_id']} in run {row['run_id']}: {fault}"
        raise RowError(msg, hint="the weights or the vocabulary mask are not those that sampled the turn")


def full_prompt(turn: Turn, by_id: Mapping[str, Turn], known: dict[str, list[int]]) -> list[int]:
    """The full prompt of a turn with ids, rebuilt along its base turns; `known` remembers those of earlier ones."""
    for link in reversed(_unknown_chain(turn, by_id, known)):
        base = by_id.get(link["base_turn"] or "")
        before = [] if base is None else [*known[base["turn_id"]], *base["completion_ids"]]
        known[link["turn_id"]] = [*before, *(int(i) for i in link["prompt_ids"])]
    return known[turn["turn_id"]]


def _rebuilt(turn: Turn, by_id: Mapping[str, Turn], known: dict[str, Prompt]) -> Prompt:
    """The same as `full_prompt`, absorbed piece by piece: each id is looked at once, however long its node is."""
    for link in reversed(_unknown_chain(turn, by_id, known)):
        base = by_id.get(link["base_turn"] or "")
        before = EMPTY if base is None else known[base["turn_id"]].grown(base["completion_ids"])
        known[link["turn_id"]] = before.grown(link["prompt_ids"])
    return known[turn["turn_id"]]


def _unknown_chain(turn: Turn, by_id: Mapping[str, Turn], known: Mapping[str, Any]) -> list[Turn]:
    """The turn and its base turns, back to the first or to one whose prompt is known."""
    chain: list[Turn] = []
    link: Turn | None = turn
    while link is not None and link["turn_id"] not in known:
        chain.append(link)
        link = by_id[link["base_turn"]] if link["base_turn"] is not None else None
    return chain


def prompt_hash(ids: Sequence[int]) -> str:
    """sha256 of a full prompt: its ids as a compact JSON list."""
    return EMPTY.grown(ids).sha256()


def _require_alignment(turn: Turn) -> None:
    ids, logprobs, mode = turn["completion_ids"], turn["logprobs"], turn["logprobs_mode"]
    if (ids is None) != (turn["prompt_ids"] is None):
        _refuse(turn, "prompt_ids and completion_ids must both be there or both be null")
    if (logprobs is None) != (mode == "none"):
        _refuse(turn, f"logprobs must be null exactly when logprobs_mode is 'none', got mode {mode!r}")
    if logprobs is not None:
        if ids is None or len(logprobs) != len(ids):
            _refuse(turn, f"got {len(logprobs)} logprobs for {0 if ids is None else len(ids)} completion ids")
        if not all(map(math.isfinite, logprobs)):
            index, value = next((i, v) for i, v in enumerate(logprobs) if not math.isfinite(v))
            _refuse(turn, f"logprob {index} is {value}; logprobs must be finite", hint="the engine's logits are bad")
    if turn["trainable"] and (ids is None or mode != "processed_logprobs" or turn["top_p"] != 1):
        _refuse(
            turn,
            "a trainable turn needs ids, logprobs_mode 'processed_logprobs' and top_p 1,"
            f" got mode {mode!r}, top_p {turn['top_p']}, {'no ids' if ids is None else 'ids'}",
        )


def _require_base(turn: Turn, by_id: Mapping[str, Turn]) -> None:
    if turn["node_id"] != turn["turn_id"].rpartition("#")[0]:
        _refuse(turn, f"turn_id must be its node and a number, 'node#0007', got node {turn['node_id']!r}")
    if (turn["kind"] == "act") != (turn["step"] is not None):
        _refuse(turn, f"step must be null exactly for rubric and score turns, got {turn['step']} for {turn['kind']!r}")
    if turn["base_turn"] is None:
        return
    base = by_id.get(turn["base_turn"])
    if base is None:
        _refuse(turn, f"base_turn {turn['base_turn']!r} is not in this shard")
    elif turn["kind"] != "act" or base["kind"] != "act" or base["node_id"] != turn["node_id"]:
        _refuse(turn, f"base_turn {turn['base_turn']!r} must link act turns of one node")
    elif base["step"] >= turn["step"]:
        _refuse(turn, f"base_turn {turn['base_turn']!r} (step {base['step']}) is not earlier than step {turn['step']}")
    elif (base["prompt_ids"] is None) != (turn["prompt_ids"] is None):
        _refuse(turn, f"base_turn {turn['base_turn']!r} and this turn must both have ids or both have none")


def _require_prompt(turn: Turn, prompt: Prompt) -> None:
    if turn["n_prompt"] != prompt.length:
        _refuse(
            turn, f"n_prompt is {turn['n_prompt']}, the full prompt rebuilt from its base turns has {prompt.length} ids"
        )
    found = prompt.sha256()
    if turn["prompt_sha256"] != found:
        _refuse(
            turn, f"prompt_sha256 is {turn['prompt_sha256']}, the full prompt rebuilt from its base turns has {found}"
        )


def _require_spans(turn: Turn) -> None:
    n_ids = None if turn["completion_ids"] is None else len(turn["completion_ids"])
    for launch in turn["delegations"]:
        if launch.get("status") not in LAUNCH_STATUSES:
            _refuse(turn, f"delegation status {launch.get('status')!r} is not one of {', '.join(LAUNCH_STATUSES)}")
        if (launch.get("delegation_id") is None) == (launch.get("status") == "launched"):
            _refuse(turn, "a launch has a delegation_id exactly when its status is 'launched'")
        for unit, limit in (("char", len(turn["text"])), ("token", n_ids)):
            start, end = launch.get(f"{unit}_start"), launch.get(f"{unit}_end")
            if start is None and end is None:
                continue
            if start is None or end is None or limit is None or not 0 <= start <= end <= limit:
                _refuse(turn, f"{unit} span [{start}, {end}) of a delegation is not inside the completion ({limit})")


def _refuse(turn: Turn, fault: str, *, hint: str | None = None) -> None:
    msg = f"turn {turn['turn_id']}: {fault}"
    raise RowError(msg, hint=hint)
