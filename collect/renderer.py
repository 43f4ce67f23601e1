"""Chat template -> append-only token ids.

Invariant: the text of a model or a world never becomes a control token. The template is rendered with stand-ins for
the contents and cut at them; the template's own pieces are encoded with control tokens, contents with control
tokens split, so a planted ``<|end|>`` or ``<tool_call>`` stays text. For ordinary text the ids equal
`apply_chat_template`'s. Nothing already in a prompt is ever rendered again: `append` returns only what follows a
completion.

Run: ``ChatRenderer.load(directory).open([Message("user", "hello")])``; needs tokenizer.json and a chat template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collect.policy import Message
from sera_data.errors import SeraError

if TYPE_CHECKING:
    from jinja2 import Template
    from tokenizers import AddedToken, Tokenizer

from schemas.words import FinishReason

MARK = "\ue000"
TAG = re.compile(r"<[^<>\s]+>")
TAGS = ("think", "tool_call", "tool_response")
UNFINISHED = "\ufffd"
MOST_FRAMES = 64
REMEMBERED, REMEMBERED_CHARS = 4096, 2000
"""Contents whose ids are kept, and how long one may be: about 100 MB at most."""
"""Openings whose template text is remembered; a job has three or four."""


class RendererError(SeraError):
    """A tokenizer or chat template that cannot be rendered append-only."""


class ChatRenderer:
    """The renderer of one tokenizer and one chat template (see collect.policy.Renderer)."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: str,
        *,
        variables: Mapping[str, Any] | None = None,
        stop_ids: Sequence[int] = (),
    ) -> None:
        self._tokenizer = tokenizer
        tokenizer.add_special_tokens(_unmarked_controls(tokenizer, template))
        self._template = compile_template(template)
        self._reads_clock = "strftime_now" in template
        self._frames: dict[tuple[str, ...], list[list[int]]] = {}
        self._variables = dict(variables or {})
        _, after, start = self._pieces(_probe("user", "assistant", "user"))[1:]
        # samples and branches of one task read the same instructions and observations
        self._ids_of = lru_cache(REMEMBERED)(self._encode_content)
        self._after_user = self._encode_template(start)
        suffix = self._encode_template(after)
        if not suffix:
            msg = "the chat template puts nothing between an assistant message and the next user message"
            raise RendererError(msg, hint="use a template that closes each message with an end token")
        self.end_id = suffix[0]
        self.stop_ids = frozenset({self.end_id, *stop_ids})
        self._after_assistant = suffix[1:]

    @classmethod
    def load(cls, directory: Path, *, variables: Mapping[str, Any] | None = None) -> ChatRenderer:
        """Read tokenizer.json, the template and the end tokens of a model directory."""
        from tokenizers import Tokenizer

        path = directory / "tokenizer.json"
        if not path.is_file():
            msg = f"no tokenizer.json in {directory}"
            raise RendererError(msg, hint="save the model with a fast tokenizer (save_pretrained)")
        settings = _read_json(directory / "tokenizer_config.json")
        tokenizer = Tokenizer.from_file(str(path))
        names: dict[str, Any] = {
            key: _token_text(settings[key]) for key in ("bos_token", "eos_token", "pad_token") if key in settings
        }
        stops = _read_json(directory / "generation_config.json").get("eos_token_id") or []
        return cls(
            tokenizer,
            read_template(directory, settings),
            variables={**names, **(variables or {})},
            stop_ids=[stops] if isinstance(stops, int) else list(stops),
        )

    def open(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the messages plus the start of the assistant's reply (a keyframe prompt)."""
        first, *others = self._frame(tuple(m.role for m in messages))
        ids = list(first)
        for message, piece in zip(messages, others, strict=True):
            ids += self.encode(message.content)
            ids += piece
        return ids

    def append(self, completion_ids: Sequence[int], finish_reason: FinishReason, observation: str) -> list[int]:
        """Ids after a completion: its end token when it was not sampled, a user message, the reply's start."""
        ended = finish_reason == "stop" and bool(completion_ids) and completion_ids[-1] == self.end_id
        end = [] if ended else [self.end_id]
        return [*end, *self._after_assistant, *self.encode(observation), *self._after_user]

    def encode(self, text: str) -> list[int]:
        """Ids of a content; control tokens written in it are split into ordinary ones."""
        return list(self._ids_of(text) if len(text) <= REMEMBERED_CHARS else self._encode_content(text))

    def _encode_content(self, text: str) -> Sequence[int]:
        self._tokenizer.encode_special_tokens = True
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of completion ids without the end token."""
        kept = list(ids)
        while kept and kept[-1] in self.stop_ids:
            kept.pop()
        return self._text(kept)

    def offsets(self, ids: Sequence[int]) -> list[int]:
        """Character length of decode(ids[:k]) for k = 0..len(ids)."""
        out, base, begin = [0], 0, 0
        for k in range(1, len(ids) + 1):
            if ids[k - 1] in self.stop_ids:
                out.append(len(self.decode(ids[:k])))
                continue
            piece = self._text(list(ids[begin:k]))
            out.append(base + len(piece))
            if not piece.endswith(UNFINISHED):  # a whole character: later tokens cannot change this text
                base, begin = out[-1], k
        return out

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def _encode_template(self, text: str) -> list[int]:
        self._tokenizer.encode_special_tokens = False
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _frame(self, roles: tuple[str, ...]) -> list[list[int]]:
        """Ids of the template's own text around contents of these roles; rendered once, unless it reads the clock."""
        frame = self._frames.get(roles)
        if frame is None:
            marked = [{"role": role, "content": _mark(i)} for i, role in enumerate(roles)]
            frame = [self._encode_template(piece) for piece in self._pieces(marked)]
            if not self._reads_clock and len(self._frames) < MOST_FRAMES:
                self._frames[roles] = frame
        return frame

    def _pieces(self, marked: Sequence[Mapping[str, str]]) -> list[str]:
        """The template's own text before, between and after the marked contents."""
        text = self._template.render(messages=marked, add_generation_prompt=True, **self._variables)
        pieces = re.split(f"{MARK}\\d+{MARK}", text)
        if len(pieces) != len(marked) + 1:
            msg = f"the chat template shows {len(pieces) - 1} of {len(marked)} contents exactly once"
            raise RendererError(msg, hint="use a template that renders every message once, unchanged")
        return pieces


def compile_template(text: str) -> Template:
    """A chat template in the sandbox and with the settings that transformers uses."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        msg = f"the chat template refuses these messages: {message}"
        raise RendererError(msg)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", text))


def read_template(directory: Path, settings: Mapping[str, Any]) -> str:
    """The chat template of a model directory: chat_template.jinja, else the key in tokenizer_config.json."""
    path = directory / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, str):
        return template
    msg = f"no chat template in {directory}"
    raise RendererError(msg, hint="add chat_template.jinja (instruct models have one)")


def _unmarked_controls(tokenizer: Tokenizer, template: str) -> list[AddedToken]:
    """Added tokens that steer a chat and are not marked special: Qwen has ``<tool_call>`` and ``<think>`` so.

    Other added tokens, such as the item names of the pocket policies, are words and stay what they are.
    """
    from tokenizers import AddedToken

    return [
        AddedToken(text, special=True, normalized=False)
        for text in (token.content for token in tokenizer.get_added_tokens_decoder().values() if not token.special)
        if TAG.fullmatch(text) and (text in template or text.startswith("<|") or text.strip("</>") in TAGS)
    ]


def _probe(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": _mark(i)} for i, role in enumerate(roles)]


def _mark(index: int) -> str:
    return f"{MARK}{index}{MARK}"


def _token_text(value: Any) -> Any:
    return value.get("content") if isinstance(value, dict) else value


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return data if isinstance(data, dict) else {}
