"""`PolicyConfig`: which policy serves each role, and with what options.

Invariant: a role that names a policy is served by that one, every other by `model`; nobody judges who is not named.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from schemas.words import Role
from sera_data.config import Config

MODEL_ROLES: tuple[Role, ...] = ("act", "writer", "scorer")


class RolePolicy(Config):
    """A policy of one role with options of its own."""

    model: str = Field(description="Spec of the policy.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options passed to its engine as they are.")


class RolePolicies(Config):
    """Policy per role: a spec, or {model, options}. null = `policy.model`; for the judge: nobody judges."""

    act: str | RolePolicy | None = Field(default=None, description="Plays the agents.")
    writer: str | RolePolicy | None = Field(default=None, description="Writes rubrics.")
    scorer: str | RolePolicy | None = Field(default=None, description="Scores nodes with rubrics.")
    judge: str | RolePolicy | None = Field(
        default=None,
        description="Judges nodes that no program can check, as the section `judge` says; rule:NAME is allowed too.",
    )


class PolicyConfig(Config):
    """Who plays. Spec: 'scripted:NAME', 'pocket', 'transformers:DIR', 'openai:MODEL@URL', or a policy directory.

    Roles with the same spec and the same options share one engine.
    """

    model: str = Field(default="pocket", description="Spec of the policy that serves every role not named in `roles`.")
    roles: RolePolicies = Field(default_factory=lambda: RolePolicies(), description="Exceptions by role.")
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the engine of `model`; roles with a spec of the same engine get them too.",
    )

    def spec(self, role: Role) -> str:
        """The spec that serves a role."""
        named = getattr(self.roles, role, None)
        return named.model if isinstance(named, RolePolicy) else named or self.model

    def own_options(self, role: Role) -> dict[str, Any] | None:
        """Options that the role names itself; None when it names none."""
        named = getattr(self.roles, role, None)
        return dict(named.options) if isinstance(named, RolePolicy) else None
