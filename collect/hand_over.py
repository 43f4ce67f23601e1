"""The hand-over of weights: a vLLM policy that is kept over an epoch goes on with the next version.

Invariant: weights change only while no request runs, so that no completion holds two versions; afterwards the prefix
cache is empty, the output layer computes what the new file says, and completions name the new version. A directory of
another model, tokenizer, template or mask is refused before anything changes.

Run: ``await hand_over(policy, "runs/policies/v000020")`` between two phases. `sera loop` runs every phase as a
process that opens its own engine and needs none of this; it is for programs that keep one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collect.policy import Policy, PolicyError
from collect.policy_directory import is_policy_directory, read_policy_directory
from collect.vllm_policy import VllmPolicy
from sera_data.errors import UsageError

HEAD_GAP = 1.0
"""Largest difference of the output layer from its file, in units of what rounding explains."""
SAME = ("config.json", "tokenizer.json", "chat_template.jinja", "vocab_mask.json")


async def hand_over(policy: Policy, directory: Path | str) -> None:
    """Give a running vLLM policy the weights of a policy directory.

    Raises UsageError while requests run, for other engines, and for a directory of another model, tokenizer, template
    or mask; PolicyError when the engine failed or still computes with old weights, after which it must be closed.
    """
    new = Path(directory)
    if not isinstance(policy, VllmPolicy):
        msg = f"only policies of vLLM take new weights while they run, got the engine {policy.identity.engine}"
        raise UsageError(msg, hint="close it and open the new directory")
    if policy.running:
        msg = f"{policy.running} requests still run; weights change only between phases"
        raise UsageError(msg, hint="end the collect phase first")
    _require_same_kind(policy.directory, new)
    gap = await policy.engine.take_weights(new)
    if not gap <= HEAD_GAP:
        msg = f"after the hand-over of {new} the output layer computes with other weights (gap {gap:.3g})"
        raise PolicyError(msg, lasting=True)
    policy.identity = read_policy_directory(new, verify=False).identity(engine=policy.identity.engine)
    policy.directory = new


def _require_same_kind(old: Path, new: Path) -> None:
    if not is_policy_directory(new):
        msg = f"no policy directory at {new}"
        raise UsageError(msg, hint="name a directory that `sera learn` or `sera policy make` wrote")
    read_policy_directory(new)
    for name in SAME:
        if _content(old / name) != _content(new / name):
            msg = f"{new} has another {name} than {old}, which the engine was started with"
            raise UsageError(msg, hint="close the policy and open the new directory")


def _content(path: Path) -> Any:
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return text
    body = json.loads(text)
    if isinstance(body, dict):
        body.pop("transformers_version", None)  # who wrote it, not what it is
    return body
