"""Import of other agents' trajectory JSON: ATIF (v1.x), SWE-agent `.traj` and mini-swe-agent `.traj.json`.

Invariant: the form is told by the file's own mark (`schema_version`, `trajectory_format`, `trajectory`), never by its
name. Token ids of ATIF are kept: a prompt that begins with an earlier prompt and its completion extends that turn.

Run: ``sera data import STORE runs/*.traj --from trajectory``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.episode import (
    Episode,
    Message,
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
from sera_data.import_text import ids_of, json_document, json_lines, messages_of, number_of, numbers_of

if TYPE_CHECKING:
    from schemas.words import Outcome
    from sera_data.losses import Losses

LOST = (
    "what the agent's tool recorded beside the messages: costs, states, settings",
    "which agent launched which: a sub-agent's file is a tree of its own",
)
SOURCES = {"system": "system", "user": "user", "agent": "assistant"}


def read_trajectory(path: Path, losses: Losses) -> Iterator[Episode]:
    """Episodes of a file with one trajectory, or JSON lines of them; ImportFault names the place of a fault."""
    if path.suffix == ".jsonl":
        documents = json_lines(path)
    else:
        value = json_document(path)
        documents = iter(
            [(f"{path}:1", value)]
            if not isinstance(value, list)
            else ((f"{path}[{n}]", v) for n, v in enumerate(value))
        )
    for place, value in documents:
        yield _episode(require_object(value, place, "a trajectory"), path, place, losses)


def _episode(body: dict[str, Any], path: Path, place: str, losses: Losses) -> Episode:
    if str(body.get("schema_version", "")).startswith("ATIF-v1"):
        return _atif(body, place, losses)
    if str(body.get("trajectory_format", "")).startswith("mini-swe-agent"):
        return _mini(body, path, place, losses)
    if "trajectory" in body:
        return _swe_agent(body, path, place, losses)
    return fault(
        place,
        "no known trajectory: it has neither schema_version 'ATIF-v1...', nor trajectory_format 'mini-swe-agent...',"
        f" nor 'trajectory'; it has {', '.join(sorted(body)) or 'nothing'}",
        hint="chats go in with --from chat",
    )


def _atif(body: dict[str, Any], place: str, losses: Losses) -> Episode:
    agent = require_object(body.get("agent"), place, "agent")
    messages: list[Message] = []
    metrics: list[tuple[dict[str, Any], str | None]] = []
    for n, value in enumerate(require_list(body.get("steps"), place, "steps")):
        step = require_object(value, place, f"steps[{n}]")
        if step.get("source") not in tuple(SOURCES):  # of any type: a list cannot be looked up in a dict
            fault(place, f"steps[{n}].source is {shown(step.get('source'))}; allowed: {', '.join(SOURCES)}")
        messages.append(_atif_message(step))
        if step["source"] == "agent":
            measured = optional_object(step.get("metrics"), place, f"steps[{n}].metrics")
            metrics.append((measured, step.get("model_name") or agent.get("model_name")))
        messages += _results(step, losses, f"steps[{n}]", place)
    messages = messages_of(messages, place, losses, what="steps")
    steps, after = steps_of(messages)
    if not steps:
        fault(place, "the trajectory has no agent step")
    for own, (measured, model) in zip(steps, metrics, strict=True):
        own.model = None if model is None else str(model)
        _tokens(own, measured, place)
    _chain(steps, messages, losses)
    inside = optional_list(body.get("subagent_trajectories"), place, "subagent_trajectories")
    losses.add("sub-agents' trajectories inside the file", n=len(inside))
    goal = first_user(messages, "(no user message)")
    extra = optional_object(body.get("extra"), place, "extra")
    return Episode(
        place=place,
        source_id=str(body.get("session_id") or body.get("trajectory_id") or place),
        key=str(extra.get("task_id") or extra.get("instance_id") or goal),
        goal=goal,
        steps=steps,
        after=after,
        score=number_of(extra.get("reward"), place, "extra.reward"),
        checker="atif",
        model=None if agent.get("model_name") is None else str(agent["model_name"]),
        extra={"agent": agent.get("name"), "agent_version": agent.get("version")},
    )


def _atif_message(step: dict[str, Any]) -> Message:
    message: Message = {"role": SOURCES[step["source"]], "content": step.get("message")}
    if step.get("reasoning_content"):
        message["reasoning_content"] = step["reasoning_content"]
    if step.get("tool_calls"):
        message["tool_calls"] = step["tool_calls"]
    return message


def _results(step: dict[str, Any], losses: Losses, what: str, place: str) -> list[Message]:
    """What the world answered to a step, one tool message per result."""
    found: list[Message] = []
    observation = optional_object(step.get("observation"), place, f"{what}.observation")
    for n, value in enumerate(optional_list(observation.get("results"), place, f"{what}.observation.results")):
        result = require_object(value, place, f"{what}.observation.results[{n}]")
        references = optional_list(result.get("subagent_trajectory_ref"), place, "subagent_trajectory_ref")
        losses.add("references to sub-agents", n=len(references))
        message: Message = {"role": "tool", "content": result.get("content") or ""}
        if result.get("source_call_id"):
            message["tool_call_id"] = result["source_call_id"]
        found.append(message)
    return found


def _tokens(step: Step, metrics: dict[str, Any], place: str) -> None:
    prompt = ids_of(metrics.get("prompt_token_ids"), place, "prompt_token_ids")
    completion = ids_of(metrics.get("completion_token_ids"), place, "completion_token_ids")
    if prompt is None or completion is None:
        return
    step.prompt_ids, step.completion_ids = prompt, completion
    logprobs = optional_list(metrics.get("logprobs"), place, "logprobs")
    if logprobs:
        if len(logprobs) != len(completion):
            fault(place, f"a step has {len(logprobs)} logprobs for {len(completion)} completion ids")
        step.logprobs = numbers_of(logprobs, place, "logprobs")


def _chain(steps: list[Step], messages: list[Message], losses: Losses) -> None:
    """Whole prompts into what they add to an earlier turn; without ids in every step, none are kept.

    A prompt that extends no earlier turn stands alone, in ids and in words.
    """
    if any(step.completion_ids is None for step in steps):
        losses.add("token ids of trajectories in which some steps have none", n=any(s.completion_ids for s in steps))
        for step in steps:
            step.prompt_ids = step.completion_ids = step.logprobs = None
        return
    wholes: list[list[int]] = []
    for n, step in enumerate(steps):
        prompt, completion = step.prompt_ids or [], step.completion_ids or []
        step.base = next((m for m in range(n - 1, -1, -1) if prompt[: len(wholes[m])] == wholes[m]), None)
        step.prompt_ids = prompt if step.base is None else prompt[len(wholes[step.base]) :]
        wholes.append([*prompt, *completion])
    replies = [n for n, m in enumerate(messages) if m["role"] == "assistant"]
    for step, place in zip(steps[1:], replies[1:], strict=True):
        step.prompt = messages[:place] if step.base is None else step.prompt


def _mini(body: dict[str, Any], path: Path, place: str, losses: Losses) -> Episode:
    info = optional_object(body.get("info"), place, "info")
    raw = require_list(body.get("messages"), place, "messages")
    messages = messages_of([m for m in raw if not _is_exit(m)], place, losses)
    return _messages_episode(
        messages, info, path, place, model=_mini_model(info, place), source=body.get("instance_id")
    )


def _is_exit(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "exit"


def _mini_model(info: dict[str, Any], place: str) -> str | None:
    config = optional_object(info.get("config"), place, "info.config")
    model = optional_object(config.get("model"), place, "info.config.model").get("model_name")
    return None if model is None else str(model)


def _swe_agent(body: dict[str, Any], path: Path, place: str, losses: Losses) -> Episode:
    turns = [
        require_object(t, place, f"trajectory[{n}]")
        for n, t in enumerate(require_list(body["trajectory"], place, "trajectory"))
    ]
    if not turns:
        fault(place, "the trajectory has no step")
    opening = turns[0].get("query") or turns[0].get("messages")
    if not opening:
        opening = _before_first_reply(optional_list(body.get("history"), place, "history"), place)
    messages = messages_of(opening, place, losses, what="trajectory[0].query")
    for n, turn in enumerate(turns):
        reply = turn.get("response")
        if not isinstance(reply, str):
            fault(place, f"trajectory[{n}].response must be text, got {shown(reply)}")
        messages.append({"role": "assistant", "content": reply})
        if turn.get("observation") is not None:
            messages.append({"role": "user", "content": str(turn["observation"])})
    info = optional_object(body.get("info"), place, "info")
    return _messages_episode(messages, info, path, place, model=None, source=body.get("instance_id"))


def _before_first_reply(history: list[Any], place: str) -> list[Any]:
    before = []
    for n, message in enumerate(history):
        if require_object(message, place, f"history[{n}]").get("role") == "assistant":
            break
        before.append(message)
    if not before:
        fault(place, "no opening: the first step has no 'query' and the history does not begin with one")
    return before


def _messages_episode(
    messages: list[Message], info: dict[str, Any], path: Path, place: str, *, model: str | None, source: Any
) -> Episode:
    steps, after = steps_of(messages)
    if not steps:
        fault(place, "the trajectory has no assistant message")
    status = str(info.get("exit_status") or "")
    name = str(source or path.name.partition(".")[0])
    return Episode(
        place=place,
        source_id=name,
        key=name,
        goal=first_user(messages, name),
        steps=steps,
        after=after,
        score=number_of(info.get("resolved"), place, "info.resolved"),
        checker="resolved",
        outcome=_exit_outcome(status),
        model=model,
        extra={"exit_status": status or None},
    )


def _exit_outcome(status: str) -> Outcome:
    """How SWE-agent and mini-swe-agent say that an episode ended."""
    low = status.lower()
    if "submitted" in low or not low:
        return "finished"
    if "time" in low:
        return "timeout"
    if "context" in low or "cost" in low:
        return "truncated"
    return (
        "not_finished" if "limit" in low else "infra_error" if "error" in low or "exception" in low else "not_finished"
    )
