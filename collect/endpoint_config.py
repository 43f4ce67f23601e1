"""`EndpointSettings`: how patiently an OpenAI-compatible endpoint is asked, and which key it gets.

Invariant: no secret is in it (it names environment variables at most), so that it can be stored and hashed with a run.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from sera_data.config import Config

OWN_FIELDS = ("messages", "model", "n", "stream")


class EndpointSettings(Config):
    """Patience with an endpoint, further fields of its requests, and where its key is read from."""

    body: dict[str, Any] = Field(default_factory=dict, description="Further fields of the request, as they are.")
    concurrency: int = Field(default=16, ge=1, description="Requests in flight.")
    timeout_s: float = Field(default=300.0, ge=0.01, le=86_400, description="Longest wait for one reply, in seconds.")
    retries: int = Field(default=4, ge=0, le=100, description="Tries again after 429, 5xx or a lost connection.")
    retry_wait_s: float = Field(
        default=1.0, ge=0, le=3600, description="Seconds before the first retry; doubles each time."
    )
    retry_wait_max_s: float = Field(default=60.0, ge=0, le=3600, description="Longest wait before a retry.")
    key_variable: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the key; null: the usual ones of the role.",
    )

    @field_validator("body")
    @classmethod
    def _not_ours(cls, body: dict[str, Any]) -> dict[str, Any]:
        taken = [name for name in OWN_FIELDS if name in body]
        if taken:
            msg = f"body must not hold {', '.join(taken)}: every request sets them itself"
            raise ValueError(msg)
        return body
