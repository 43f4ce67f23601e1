"""A judge over any OpenAI-compatible endpoint: the chat client, asked as a judge is.

Invariant: a reply that was cut off at the token limit holds no verdict, whatever it says.

Run: ``sera label STORE --judge openai:qwen3-32b@http://localhost:8000/v1 --votes 3 --temperature 0.7``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from collect.chat_endpoint import Address, Caller, ChatEndpoint, Reply, read_address
from collect.judge_config import KEY_VARIABLES, JudgeSettings
from collect.labels import LabellerRefused
from collect.policy import Message

__all__ = ["JudgeEndpoint", "Reply", "open_endpoint"]

CALLER = Caller("judge", KEY_VARIABLES, LabellerRefused)


class JudgeEndpoint(ChatEndpoint):
    """A chat endpoint with a judge's sampling."""

    def __init__(self, address: Address, *, settings: JudgeSettings) -> None:
        super().__init__(address, settings=settings, caller=CALLER)
        self.settings = settings

    def parameters(self, seed: int | None) -> dict[str, Any]:
        """The request without its messages, and where it goes: what a label stores as `params`."""
        return {"url": self.url, **self.fields(self._sampling(seed))}

    async def ask(self, messages: Sequence[Message], *, seed: int | None) -> Reply:
        """One reply. Raises LabellerRefused when the endpoint refuses the key or the model."""
        reply = await self.request(messages, self._sampling(seed))
        if reply.error is None and reply.finish_reason == "length":
            return replace(reply, error=f"truncated reply: it reached {self.settings.max_tokens} tokens")
        return reply

    def _sampling(self, seed: int | None) -> dict[str, Any]:
        return {"temperature": self.settings.temperature, "max_tokens": self.settings.max_tokens, "seed": seed}


def open_endpoint(argument: str, *, settings: JudgeSettings) -> JudgeEndpoint:
    """The endpoint of 'MODEL@URL', the URL with its /v1, with the key of the environment."""
    address = read_address(argument, noun="judge", keys=KEY_VARIABLES)
    return JudgeEndpoint(address, settings=settings)
