"""Export: the weights after a learn phase as a policy directory, `policies/v000020/`.

Invariant: tokenizer, chat template and vocabulary mask are the parent's files byte for byte; weights are safetensors in
the engine's dtype under Hugging Face names; the directory is written aside and renamed, `policy.json` (version, parent,
sha256 of every file) last.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from collect.policy_directory import PolicyDirectory, read_policy_directory, write_policy_json
from learn.state_file import write_faults
from sera_data.disk import sync_directory, sync_files
from sera_data.errors import SeraError

WEIGHTS = "model.safetensors"


def policy_path(out: Path, version: int) -> Path:
    """Where a run puts the policy of a version."""
    return out / "policies" / f"v{version:06d}"


def export_policy(
    out: Path, *, weights: Mapping[str, torch.Tensor], tied: bool, parent: PolicyDirectory, version: int, run_id: str
) -> PolicyDirectory:
    """Write the policy directory of a version, or return the one this run wrote before."""
    target = policy_path(out, version)
    if target.exists():
        return _written(target, parent=parent, version=version, run_id=run_id)
    staging = target.with_name(f".tmp-{target.name}")
    with write_faults(target, aside=staging):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        _write(staging, weights=weights, tied=tied, parent=parent)
        write_policy_json(
            staging, name=parent.name, version=version, style=parent.style, parent=parent.sha256, run_id=run_id
        )
        sync_files(staging)
        staging.rename(target)
        sync_directory(target.parent)
    return read_policy_directory(target)


def _write(staging: Path, *, weights: Mapping[str, torch.Tensor], tied: bool, parent: PolicyDirectory) -> None:
    """Weights, config and the parent's other files."""
    kept = {n: t.contiguous() for n, t in weights.items() if not (tied and n == "lm_head.weight")}
    save_file(kept, staging / WEIGHTS, metadata={"format": "pt"})
    for name in parent.files:
        if not name.endswith((".safetensors", ".safetensors.index.json")) and name != "config.json":
            shutil.copyfile(parent.path / name, staging / name)
    config = json.loads((parent.path / "config.json").read_text(encoding="utf-8"))
    config.pop("torch_dtype", None)
    config["dtype"] = str(next(iter(kept.values())).dtype).removeprefix("torch.")
    (staging / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _written(target: Path, *, parent: PolicyDirectory, version: int, run_id: str) -> PolicyDirectory:
    found = read_policy_directory(target)
    if (found.version, found.parent, found.run_id) != (version, parent.sha256, run_id):
        msg = f"{target} holds version {found.version} of run {found.run_id}, not version {version} of run {run_id}"
        raise SeraError(msg, hint="give another --out directory, or move that policy away")
    return found
