"""Opening policies by spec, through the entry-point group `sera.policies`.

Invariant: roles that name the same spec share one engine; a policy directory is verified before an engine loads it.
Spec: 'NAME' or 'NAME:ARGUMENT' of a registered engine, or the path of a policy directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from collect.model_argument import split_argument
from collect.policy import Identified, Identity, Policy
from collect.policy_config import MODEL_ROLES, PolicyConfig
from collect.policy_directory import Style, is_policy_directory, read_policy_directory
from schemas.words import Role
from sera_data.canonical import canonical_json, sha256_json
from sera_data.errors import UsageError

GROUP = "sera.policies"
DIRECTORY_ENGINE = "transformers"
TERSE_ENGINES = ("scripted", "known", "pocket")


def engines() -> dict[str, EntryPoint]:
    """Registered engines by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def split_spec(spec: str) -> tuple[str, str]:
    """Engine and argument of a spec; raises UsageError with the allowed forms."""
    name, _, argument = spec.partition(":")
    if name in engines():
        return name, argument
    if is_policy_directory(Path(spec)):
        return DIRECTORY_ENGINE, spec
    if spec and Path(spec).is_dir():  # '' would be the working directory
        read_policy_directory(spec)  # says what is missing
    allowed = ", ".join(engines())
    msg = f"no policy {spec!r}; allowed: an engine ({allowed}) as NAME or NAME:ARGUMENT, or a policy directory"
    raise UsageError(msg, hint="for example scripted:delegating_oracle, pocket, or runs/demo/policies/v8")


def open_policy(spec: str, *, options: Mapping[str, Any] | None = None) -> Policy:
    """Load the policy that a spec names; a policy directory is hashed first."""
    name, argument = split_spec(spec)
    directory, _ = split_argument(argument)
    if argument and is_policy_directory(directory):
        read_policy_directory(directory)
    opener = engines()[name].load()
    policy: Policy = opener(argument, options=dict(options or {}))
    return policy


def open_policies(config: PolicyConfig, *, roles: Sequence[Role] = MODEL_ROLES) -> dict[Role, Policy]:
    """One policy per role; equal specs with equal options are opened once and shared."""
    opened: dict[tuple[str, str], Policy] = {}
    chosen: dict[Role, Policy] = {}
    for role in roles:
        spec, options = config.spec(role), options_of(config, role)
        key = (spec, canonical_json(options))
        if key not in opened:
            opened[key] = open_policy(spec, options=options)
        chosen[role] = opened[key]
    return chosen


def options_of(config: PolicyConfig, role: Role) -> dict[str, Any]:
    """Options of a role's engine: its own, else `policy.options` where its engine is of `model`'s kind."""
    own = config.own_options(role)
    if own is not None:
        return own
    same = split_spec(config.spec(role))[0] == split_spec(config.model)[0]
    return dict(config.options) if same else {}


def with_model(config: PolicyConfig, spec: str | None) -> PolicyConfig:
    """The same with another `model`, or unchanged."""
    return config if spec is None else config.model_copy(update={"model": spec})


def style_of(spec: str) -> Style:
    """Prompt style a policy was made for: as its directory says, terse for scripts and the pocket, full otherwise."""
    name, argument = split_spec(spec)
    directory, _ = split_argument(argument)
    if argument and is_policy_directory(directory):
        return read_policy_directory(directory, verify=False).style
    return "terse" if name in TERSE_ENGINES else "full"


def policy_rows(policies: Mapping[Role, Identified]) -> list[dict[str, Any]]:
    """The `runs.policies` list: one element per role."""
    return [{"role": role, **_identity(policy.identity)} for role, policy in policies.items()]


def policy_hash(policies: Mapping[Role, Identified]) -> str:
    """Hash of who serves which role, recorded in the plan, so that a restart with other weights is refused."""
    return sha256_json(policy_rows(policies))


def _identity(identity: Identity) -> dict[str, Any]:
    return {
        "name": identity.name,
        "weights_sha256": identity.weights_sha256,
        "tokenizer_sha256": identity.tokenizer_sha256,
        "template_sha256": identity.template_sha256,
        "engine": identity.engine,
        "version": identity.version,
    }
