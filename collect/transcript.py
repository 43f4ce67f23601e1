"""One append-only chat with a policy, as messages and as token ids.

Invariant: ids are rendered once and never re-tokenised: each prompt is the previous prompt + the previous completion
exactly as sampled + new ids, so that concatenating the stored deltas reproduces what the engine saw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from collect.policy import Completion, Message, Policy
from schemas.words import Role
from sera_data.canonical import canonical_json


class Transcript:
    """The chat of one session.

    role, session, node_id: who speaks. messages: system, user, assistant, user, ... . prompt: ids of the whole prompt
    now, or None for a policy without ids. delta: ids that the current prompt adds to the base turn's prompt
    + completion. delta_text: the same as JSON messages, for policies without ids. base_turn: turn that it extends.
    """

    def __init__(self, policy: Policy, *, role: Role, session: str, node_id: str, opening: Sequence[Message]) -> None:
        self.policy = policy
        self.role: Role = role
        self.session = session
        self.node_id = node_id
        self.messages: list[Message] = list(opening)
        self.base_turn: str | None = None
        renderer = policy.renderer
        self.prompt: list[int] | None = None if renderer is None else renderer.open(opening)
        self.delta: list[int] | None = None if self.prompt is None else list(self.prompt)
        self.delta_text: str | None = _text(opening) if self.prompt is None else None
        self._hash = hashlib.sha256(b"[")
        self._empty = True
        self._absorb_delta()

    @property
    def n_prompt(self) -> int | None:
        """Length of the whole prompt in tokens; None without ids."""
        return None if self.prompt is None else len(self.prompt)

    def prompt_sha256(self) -> str:
        """sha256 of the whole prompt: JSON of its ids, or of its messages for a policy without ids."""
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()

    def answer(self, completion: Completion) -> None:
        """Take the policy's reply; ids stay exactly as sampled."""
        self.messages.append(Message("assistant", completion.text))

    def reply(self, completion: Completion, *, turn_id: str, observation: str) -> None:
        """Append what the world answered to the last completion: the next prompt extends turn `turn_id`."""
        self.messages.append(Message("user", observation))
        self.base_turn = turn_id
        renderer = self.policy.renderer
        if self.prompt is None or renderer is None:
            self._absorb_text(_text([self.messages[-2]]))
            self.delta_text = _text([self.messages[-1]])
        else:
            ids = list(completion.completion_ids or ())
            self.delta = renderer.append(ids, completion.finish_reason, observation)
            self.prompt += ids
            self.prompt += self.delta
            self._absorb_ids(ids)
        self._absorb_delta()

    def _absorb_delta(self) -> None:
        if self.delta is not None:
            self._absorb_ids(self.delta)
        elif self.delta_text is not None:
            self._absorb_text(self.delta_text)

    def _absorb_ids(self, ids: Sequence[int]) -> None:
        if ids:
            self._update(",".join(map(str, ids)))

    def _absorb_text(self, text: str) -> None:
        self._update(text[1:-1])

    def _update(self, items: str) -> None:
        self._hash.update((items if self._empty else "," + items).encode())
        self._empty = False


def _text(messages: Sequence[Message]) -> str:
    rows: list[dict[str, Any]] = [{"role": m.role, "content": m.content} for m in messages]
    return canonical_json(rows)
