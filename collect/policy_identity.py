"""Who a served model directory is: name, version and hashes, as `runs.policies` stores them.

Invariant: the hashes are of the files that the engine loads; a policy directory brings those of its `policy.json`.
"""

from __future__ import annotations

from pathlib import Path

from collect.policy import Identity
from collect.policy_directory import MASK, TEMPLATE, TOKENIZER, is_policy_directory, read_policy_directory
from sera_data.canonical import sha256_file, sha256_json


def read_identity(directory: Path, *, engine: str) -> Identity:
    """Name, version and hashes; a plain model directory is version 0 of its own name."""
    if is_policy_directory(directory):
        return read_policy_directory(directory, verify=False).identity(engine=engine)
    hashes = {
        f.name: sha256_file(f) for f in sorted(directory.iterdir()) if f.suffix == ".safetensors" or f.name == MASK
    }
    tokenizer = {name: sha256_file(directory / name) for name in TOKENIZER if (directory / name).is_file()}
    template = directory / TEMPLATE
    return Identity(
        name=directory.resolve().name,
        engine=engine,
        version=0,
        weights_sha256=sha256_json(hashes),
        tokenizer_sha256=sha256_json(tokenizer),
        template_sha256=sha256_file(template) if template.is_file() else None,
    )
