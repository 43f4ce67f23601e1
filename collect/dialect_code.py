"""The `code` dialect: one thought and one cell of Python per reply.

Invariant: a reply is read up to the first closing tag of its cell, and only the text between the tags is ever run, by
`collect.cell` in the sandbox. A missing closing tag is what an engine leaves that stops at it; replies that were cut
off by their token limit never come here. The format (tags, order, one cell) is that of the published CodeAct runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from typing import Any

from collect.decision import Decision
from collect.world import Action

OPEN, CLOSE = "<python>", "</python>"
THOUGHT = re.compile(r"\s*<thought>(.*?)</thought>", re.DOTALL)
BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*")
CELL_TOOL = "python"
LONGEST_CALL = 2_000  # characters of a call that are looked at for names that are written twice


class CodeDialect:
    """Reads cells, and writes any call as a cell of one line; UsageError where the interpreter is not installed."""

    name = "code"

    def __init__(self) -> None:
        from collect.sandbox import interpreter

        interpreter()

    def decide(self, text: str, *, tools: Collection[str]) -> Decision:
        """A decision of kind `cell`, or invalid; the tools are known to the cell, not here."""
        span = cell_span(text)
        if span is None:
            return Decision("invalid", reason=f"no {OPEN} cell in the reply")
        code = text[span[0] : span[1]]
        if not code:
            return Decision("invalid", reason="the cell is empty")
        return Decision("cell", action=Action(CELL_TOOL, {"code": code}), cell=code)

    def write(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str:
        """A reply whose cell makes one call and prints what came back."""
        given = dict(arguments or {})
        if tool == "finish":
            return write_cell(f"I call {tool}.", f"finish({given.get('message', '')!r})")
        if tool != "delegate":
            return write_cell(f"I call {tool}.", f"print({tool}({_keywords(given)}))")
        launches = given.get("launches") or [given]
        calls = [f"delegate({_keywords(launch)})" for launch in launches]
        if len(calls) == 1:
            return write_cell("I delegate.", f"print(await {calls[0]})")
        return write_cell("I delegate.", f'print(*await asyncio.gather({", ".join(calls)}), sep="\\n")')


def write_cell(thought: str, code: str) -> str:
    """A reply in the dialect's form."""
    return f"<thought>{thought}</thought>\n{OPEN}\n{code}\n{CLOSE}"


def cell_span(text: str) -> tuple[int, int] | None:
    """Half-open span of the cell's code in a reply, without blank lines around it; None without an opening tag."""
    thought = THOUGHT.match(text)
    start = text.find(OPEN, thought.end() if thought else 0)
    if start < 0:
        return None
    start += len(OPEN)
    end = text.find(CLOSE, start)
    code = text[start : len(text) if end < 0 else end].rstrip()
    blank = BLANK_LINES.match(code)
    return start + (blank.end() if blank else 0), start + len(code)


def thought_of(text: str) -> str:
    """The thought of a reply, or an empty text."""
    match = THOUGHT.match(text)
    return match[1].strip() if match else ""


def names_written(call: str) -> list[str]:
    """The names of a launch's targets as its call writes them, twice where they stand twice; empty when they are not
    written in the call. Python keeps the last of two equal names and says nothing.
    """
    if len(call) > LONGEST_CALL:
        return []
    try:
        body = ast.parse(call.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if not isinstance(body, ast.Call):
        return []
    given = [*body.args[:1], *(word.value for word in body.keywords if word.arg == "targets")]
    written = given[0] if given else None
    keys = written.keys if isinstance(written, ast.Dict) else []
    return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def _keywords(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items() if value is not None)
