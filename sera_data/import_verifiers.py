"""Import of verifiers traces: the v1 message graph with its tokens, or the older result lines.

Invariant: the graph is kept as it is: one turn per sampled message, extending the nearest sampled message on its path;
the ids along that path are the prompt, so concatenating them is what the model saw. Two turns on one message are a fork
and stay one. A node whose sampled tokens are not one run is an error, never patched.

Run: ``sera data import STORE traces.jsonl --from verifiers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.episode import (
    Episode,
    Step,
    fault,
    first_user,
    optional_list,
    optional_object,
    require_list,
    require_object,
    shown,
    steps_of,
)
from sera_data.import_text import ids_of, json_lines, message_of, messages_of, number_of, numbers_of

if TYPE_CHECKING:
    from schemas.words import FinishReason, Outcome
    from sera_data.losses import Losses

LOST = (
    "advantages, reference log-probabilities and loss weights of a trace (credit is computed from the store)",
    "semantic links between branches, tools, metrics and timing spans",
)
STOPS: Mapping[str, Outcome] = {
    "max_turns": "not_finished",
    "max_input_tokens": "truncated",
    "max_output_tokens": "truncated",
    "max_total_tokens": "truncated",
    "compaction_failed": "truncated",
    "timeout": "timeout",
    "error": "infra_error",
}
OLD = "token ids (result lines of verifiers before 1.0 hold text only)"


def read_verifiers(path: Path, losses: Losses) -> Iterator[Episode]:
    """Episodes of a traces or results file; ImportFault names the line of a fault."""
    for place, value in json_lines(path):
        row = require_object(value, place, "a trace")
        if "nodes" in row:
            yield _trace(row, place, losses)
        elif "prompt" in row and "completion" in row:
            losses.add(OLD)
            yield _result(row, place, losses)
        else:
            fault(place, f"a trace needs 'nodes' (v1), or 'prompt' and 'completion', got {', '.join(sorted(row))}")


def _trace(row: dict[str, Any], place: str, losses: Losses) -> Episode:
    version = row.get("version", 1)
    if version != 1:
        fault(place, f"trace version {shown(version)}; this release reads version 1")
    nodes = [require_object(n, place, f"nodes[{i}]") for i, n in enumerate(require_list(row["nodes"], place, "nodes"))]
    calls = _calls(row, place)
    trains = bool(optional_object(row.get("agent"), place, "agent").get("trainable", True))
    messages = [message_of(n.get("message"), place, losses, what=f"nodes[{i}].message") for i, n in enumerate(nodes)]
    steps: list[Step] = []
    index: dict[int, int] = {}
    for i, node in enumerate(nodes):
        if node.get("sampled"):
            index[i] = len(steps)
            steps.append(_step(i, nodes, messages, index, calls.get(i) or {}, trains=trains, place=place))
    if not steps:
        fault(place, "the trace has no sampled message")
    _whole_or_none(steps, losses)
    task = optional_object(row.get("task"), place, "task")
    errors = [
        str(require_object(e, place, f"errors[{n}]").get("message"))
        for n, e in enumerate(optional_list(row.get("errors"), place, "errors"))
    ]
    stop = row.get("stop_condition")
    return Episode(
        place=place,
        source_id=str(row.get("id") or place.rpartition("/")[2]),
        key=str(task.get("key") or task.get("hash") or first_user(messages, str(row.get("id")))),
        goal=first_user(messages, "(no user message)"),
        steps=steps,
        score=_reward(row, place),
        checker="verifiers",
        details=row.get("rewards"),
        outcome=STOPS.get(str(stop), "finished") if stop else "finished",
        error=errors[-1] if errors else None,
        model=next((str(c["model"]) for c in calls.values() if c.get("model")), None),
        extra={"type": task.get("type"), "data": task.get("data")},
    )


def _step(
    i: int,
    nodes: list[dict[str, Any]],
    messages: list[dict[str, Any]],
    index: dict[int, int],
    call: dict[str, Any],
    *,
    trains: bool,
    place: str,
) -> Step:
    """The turn of node i: what lies between it and the nearest sampled node above is its prompt."""
    between, above = _path(i, nodes, index, place)
    own_prompt, completion = _own(i, nodes, place)
    _, rest = ([], []) if above is None else _split(above, nodes, place)
    ids = [
        *rest,
        *(t for j in between for t in ids_of(nodes[j].get("token_ids"), place, f"nodes[{j}].token_ids") or []),
    ]
    logprobs = optional_list(nodes[i].get("logprobs"), place, f"nodes[{i}].logprobs") or None
    if logprobs is not None and completion is not None and len(logprobs) != len(completion):
        fault(place, f"nodes[{i}] has {len(logprobs)} logprobs for {len(completion)} sampled tokens")
    sampling = optional_object(call.get("sampling"), place, "sampling")
    reason = call.get("finish_reason") or nodes[i].get("finish_reason")
    return Step(
        prompt=[messages[j] for j in between],
        reply={**messages[i], "role": "assistant"},
        base=None if above is None else index[above],
        prompt_ids=None if completion is None else [*ids, *own_prompt],
        completion_ids=completion,
        logprobs=None if logprobs is None else numbers_of(logprobs, place, f"nodes[{i}].logprobs"),
        finish_reason=_finish(reason),
        temperature=_sampled_at(sampling, "temperature", place),
        top_p=_sampled_at(sampling, "top_p", place),
        max_tokens=_cap(sampling, place),
        model=None if call.get("model") is None else str(call["model"]),
        trainable=trains,
    )


def _calls(row: dict[str, Any], place: str) -> dict[int, dict[str, Any]]:
    """Model calls by the node that they made."""
    found = {}
    for n, value in enumerate(optional_list(row.get("calls"), place, "calls")):
        call = require_object(value, place, f"calls[{n}]")
        node = call.get("node")
        if node is not None:
            if isinstance(node, bool) or not isinstance(node, int):
                fault(place, f"calls[{n}].node must be an index, got {shown(node)}")
            found[node] = call
    return found


def _cap(sampling: dict[str, Any], place: str) -> int:
    cap = number_of(sampling.get("max_tokens") or sampling.get("max_completion_tokens"), place, "max_tokens")
    return 0 if cap is None or not 0 <= cap < 2**31 else int(cap)


def _path(i: int, nodes: list[dict[str, Any]], index: dict[int, int], place: str) -> tuple[list[int], int | None]:
    """Nodes between the nearest sampled ancestor and node i, in order; and that ancestor."""
    between: list[int] = []
    at = nodes[i].get("parent")
    while at is not None:
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < i:
            fault(place, f"a parent of nodes[{i}] is {shown(at)}; parents come before their children")
        if at in index:
            return between[::-1], at
        between.append(at)
        i, at = at, nodes[at].get("parent")
    return between[::-1], None


def _own(i: int, nodes: list[dict[str, Any]], place: str) -> tuple[list[int], list[int] | None]:
    """Ids of a sampled node before its completion, and the completion; no ids at all give ([], None)."""
    ids = ids_of(nodes[i].get("token_ids"), place, f"nodes[{i}].token_ids")
    if ids is None:
        return [], None
    mask = require_list(nodes[i].get("mask"), place, f"nodes[{i}].mask")
    if len(mask) != len(ids):
        fault(place, f"nodes[{i}] has {len(mask)} mask values for {len(ids)} token ids")
    sampled = [k for k, m in enumerate(mask) if m]
    if not sampled:
        return [], None
    if sampled != list(range(sampled[0], sampled[-1] + 1)):
        fault(place, f"nodes[{i}].mask: the sampled tokens are not one run", hint="such a trace cannot be token-exact")
    return ids[: sampled[0]], ids[sampled[0] : sampled[-1] + 1]


def _split(i: int, nodes: list[dict[str, Any]], place: str) -> tuple[list[int], list[int]]:
    """The completion of a sampled node, and the ids that follow it within the node."""
    before, completion = _own(i, nodes, place)
    ids = ids_of(nodes[i].get("token_ids"), place, f"nodes[{i}].token_ids") or []
    return completion or [], ids[len(before) + len(completion or []) :]


def _whole_or_none(steps: list[Step], losses: Losses) -> None:
    """A turn with ids may only extend a turn with ids; a trace with holes is kept as text."""
    holes = [s for s in steps if s.completion_ids is None]
    if holes and len(holes) < len(steps):
        losses.add("token ids of traces in which some turns have none")
        for step in steps:
            step.prompt_ids = step.completion_ids = step.logprobs = None
    for step in holes:
        step.prompt_ids = step.completion_ids = step.logprobs = None


def _reward(row: dict[str, Any], place: str) -> float | None:
    rewards = optional_object(row.get("rewards"), place, "rewards")
    if rewards:
        given = {name: require_object(r, place, f"rewards.{name}") for name, r in rewards.items() if r is not None}
        if not given:
            return None
        return sum(
            (number_of(r.get("score"), place, f"rewards.{name}.score") or 0.0)
            * (1.0 if r.get("weight") is None else number_of(r["weight"], place, f"rewards.{name}.weight") or 0.0)
            for name, r in given.items()
        )
    return number_of(row.get("reward"), place, "reward")


def _result(row: dict[str, Any], place: str, losses: Losses) -> Episode:
    """A line of results.jsonl: prompt and completion as messages or text, a reward."""
    prompt, completion = row["prompt"], row["completion"]
    opening = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    rest = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion
    messages = [
        *messages_of(opening, place, losses, what="prompt"),
        *messages_of(rest, place, losses, what="completion"),
    ]
    steps, after = steps_of(messages)
    if not steps:
        fault(place, "the completion has no assistant message")
    task = row.get("example_id", row.get("id"))
    goal = first_user(messages, "(no user message)")
    return Episode(
        place=place,
        source_id=str(row.get("rollout_id") or place.rpartition("/")[2]),
        key=goal if task is None else f"{row.get('task', '')}/{task}",
        goal=goal,
        steps=steps,
        after=after,
        score=number_of(row.get("reward"), place, "reward"),
        checker="verifiers",
        extra={"answer": row.get("answer"), "task": row.get("task"), "info": row.get("info")},
    )


def _sampled_at(sampling: dict[str, Any], name: str, place: str) -> float:
    value = number_of(sampling.get(name), place, name)
    return 1.0 if value is None else value


def _finish(reason: Any) -> FinishReason:
    return "length" if reason == "length" else "stop"
