"""The prompt of a judge: a pure function of the case.

Invariant: root task, the delegating agent's goal and the goal to examine are told apart by name; texts written by
agents are JSON strings, so that none of them can pass for a line of the prompt. A long trajectory loses middle steps;
the goals, the report and the answer format are never cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import yaml

from collect.policy import Message
from collect.prompts import shortened
from collect.subject import Case, Step
from sera_data.canonical import canonical_json, sha256_json


@cache
def judge_texts() -> Mapping[str, str]:
    """The texts of `prompts/judge.yaml`."""
    return yaml.safe_load((files("collect") / "prompts" / "judge.yaml").read_text(encoding="utf-8"))


@cache
def judge_texts_sha256() -> str:
    """Hash of the texts: another wording is another judge."""
    return sha256_json(dict(judge_texts()))


def judge_messages(case: Case, *, trajectory_chars: int) -> list[Message]:
    """System and user message about one case; at most about `trajectory_chars` characters of steps are shown."""
    texts = judge_texts()
    parent = texts["no_parent"] if case.parent_goal is None else _quoted(case.parent_goal)
    lines = [
        f"{texts['root_task']}: {_quoted(case.root_task)}",
        f"{texts['parent_goal']}: {parent}",
        f"{texts['goal']}: {_quoted(case.goal)}",
        *([f"{texts['context']}: {_quoted(case.context)}"] if case.context else []),
        f"{texts['steps']}:",
        *(_steps(case.steps, trajectory_chars) or [texts["no_steps"]]),
        f"{texts['finish']}: {texts[f'finish_{case.finish}']}",
        f"{texts['report']}: {_quoted(case.report) if case.report else texts['no_report']}",
        f"{texts['change']}: {canonical_json(case.change)}",
        texts["question"],
    ]
    return [Message("system", texts["system"]), Message("user", "\n".join(lines))]


def messages_sha256(messages: Sequence[Message]) -> str:
    """sha256 of the messages as JSON: what `labels.prompt_sha256` holds."""
    return sha256_json([{"role": message.role, "content": message.content} for message in messages])


def _steps(steps: Sequence[Step], limit: int) -> list[str]:
    whole = [_step(number, step, longest=None) for number, step in enumerate(steps, start=1)]
    if sum(map(len, whole)) + len(whole) <= limit:
        return whole
    longest = max(40, limit // 10)  # texts are cut before they are quoted, so that a line stays JSON
    return shortened([_step(number, step, longest=longest) for number, step in enumerate(steps, start=1)], limit)


def _step(number: int, step: Step, *, longest: int | None) -> str:
    body: dict[str, str | int] = {"step": number, "call": _clip(step.reply, longest)}
    if step.helpers:
        body["helpers"] = _clip("\n".join(step.helpers), longest)
    if step.answer is not None:
        body["answer"] = _clip(step.answer, longest)
    return json.dumps(body, ensure_ascii=False)


def _clip(text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
