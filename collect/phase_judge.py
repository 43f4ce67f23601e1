"""The judge of a collect phase: from its configuration to an open labeller.

Invariant: a judge that names the same policy with the same options as another role shares its engine; one that cannot
be opened is refused before a plan is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collect.config import CollectConfig
from collect.labels import InlineJudge, labellers, open_inline_judge, require_judge
from collect.policies import options_of
from collect.policy import Policy
from schemas.words import Role


def open_phase_judge(config: CollectConfig, policies: Mapping[Role, Policy]) -> InlineJudge | None:
    """The judge that a phase names, or None."""
    return open_inline_judge(config.inline_judge(), options=_options(config), shared=_shared(config, policies))


def require_phase_judge(config: CollectConfig) -> None:
    """Refuse a judge that cannot be opened; no model is loaded for that."""
    require_judge(config.inline_judge(), options=_options(config))


def _options(config: CollectConfig) -> dict[str, Any]:
    """Options of the judge's engine; the section `judge` has none."""
    named = config.policy.roles.judge
    if named is None:
        return {}
    own = config.policy.own_options("judge")
    if own is not None:
        return own
    labels = config.policy.spec("judge").partition(":")[0] in labellers()
    return {} if labels else options_of(config.policy, "judge")


def _shared(config: CollectConfig, policies: Mapping[Role, Policy]) -> Policy | None:
    spec = config.policy.spec("judge")
    if config.policy.roles.judge is None or spec.partition(":")[0] in labellers():
        return None
    wanted = options_of(config.policy, "judge")
    same = (role for role in policies if role != "judge" and config.policy.spec(role) == spec)
    return next((policies[role] for role in same if options_of(config.policy, role) == wanted), None)
