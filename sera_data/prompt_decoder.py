"""The opening of an agent's chat, read back from the token ids that the engine saw.

Invariant: ids are decoded only by the tokenizer that made them (its hash is the one that the store recorded), and only
when they are exactly what the chat template makes of `system, user` or of `user`; anything else is an error, so a
chat is never guessed. Text of a user that looks like a control token stays text, because it has other ids.

Run: ``PromptDecoder(Path("policies/v000020"))([1, 2, 3])``; needs tokenizer.json and a chat template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.canonical import sha256_file, sha256_json
from sera_data.errors import SeraError, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MARK = "\ue000"
SHAPES = (("system", "user"), ("user",))
FILES = ("tokenizer.json", "tokenizer_config.json")


class PromptDecoder:
    """Reads openings of one tokenizer and chat template."""

    def __init__(self, directory: Path) -> None:
        from tokenizers import Tokenizer

        for name in FILES:
            if not (directory / name).is_file():
                msg = f"{directory} has no {name}"
                raise UsageError(msg, hint="name a policy or model directory, for example runs/demo/policies/v000004")
        self.directory = directory
        self.sha256 = sha256_json({name: sha256_file(directory / name) for name in FILES})
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        template = _template(directory)
        self._shapes = [(roles, self._pieces(template, roles)) for roles in SHAPES]

    def require_known(self, hashes: Sequence[str]) -> None:
        """UsageError when the store's ids come from another tokenizer."""
        if list(hashes) != [self.sha256]:
            known = ", ".join(h[:16] for h in hashes) or "none"
            msg = f"the tokenizer of {self.directory} is {self.sha256[:16]}, the store's ids were made by {known}"
            raise UsageError(msg, hint="name the directory of the policy that collected")

    def __call__(self, ids: list[int]) -> list[dict[str, Any]]:
        """The messages of a whole prompt; SeraError when the template does not make such ids."""
        for roles, pieces in self._shapes:
            contents = _between(ids, pieces) if pieces else None
            if contents is not None:
                texts = [self._tokenizer.decode(part, skip_special_tokens=False) for part in contents]
                return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
        shown = self._tokenizer.decode(ids[:40], skip_special_tokens=False)
        msg = f"a stored prompt is not what the chat template of {self.directory} makes: {shown!r}"
        raise SeraError(msg, hint="export without --tokenizer, or with the directory of the policy that collected")

    def _pieces(self, template: Any, roles: tuple[str, ...]) -> list[list[int]]:
        """Ids of the template's own text around the contents; [] when it cannot render these roles."""
        messages = [{"role": role, "content": f"{MARK}{n}{MARK}"} for n, role in enumerate(roles)]
        try:
            text = template.render(messages=messages, add_generation_prompt=True)
        except _Refused:
            return []
        parts = re.split(f"{MARK}[0-9]+{MARK}", text)
        if len(parts) != len(roles) + 1:
            return []
        return [self._tokenizer.encode(part, add_special_tokens=False).ids for part in parts]


class _Refused(Exception):
    """A template that refuses these roles."""


def _template(directory: Path) -> Any:
    """The chat template as transformers compiles it."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    settings = json.loads((directory / FILES[1]).read_text(encoding="utf-8"))
    file = directory / "chat_template.jinja"
    text = file.read_text(encoding="utf-8") if file.is_file() else settings.get("chat_template")
    if not isinstance(text, str):
        msg = f"{directory} has no chat template"
        raise UsageError(msg, hint="add chat_template.jinja (instruct models have one)")

    def refuse(message: str) -> None:
        raise _Refused(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = refuse
    return environment.from_string(re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", text))


def _between(ids: list[int], pieces: list[list[int]]) -> list[list[int]] | None:
    """What stands between the pieces, or None when the ids do not begin, go on and end with them."""
    first, *inner, last = pieces
    if not first or not last or ids[: len(first)] != first or ids[len(ids) - len(last) :] != last:
        return None
    contents, start, end = [], len(first), len(ids) - len(last)
    for piece in inner:
        place = next((i for i in range(start, end - len(piece) + 1) if ids[i : i + len(piece)] == piece), None)
        if place is None or not piece:
            return None
        contents.append(ids[start:place])
        start = place + len(piece)
    return [*contents, ids[start:end]] if start <= end else None
