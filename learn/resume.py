"""Where a phase begins: in the middle of itself, where an earlier phase of the run ended, or at the start policy.

Invariant: weights, moments and counters always belong together. Checkpoints of a run are continued only by a phase that
starts from the policy they lead to; anything else is refused, never mixed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from collect.policy_directory import PolicyDirectory, is_policy_directory, read_policy_directory
from collect.provenance import code_version
from learn.checkpoint import (
    Checkpoint,
    CheckpointError,
    State,
    convert,
    latest,
    load,
    needs_conversion,
    require_adapters,
    require_tokenizer,
)
from learn.config import LearnConfig
from learn.engine import Engine, open_engine
from learn.export import policy_path
from learn.ranks import Ranks


def resume(
    parent: PolicyDirectory, *, out: Path, config: LearnConfig, ranks: Ranks, start: State
) -> tuple[Engine, State]:
    """The engine and where it stands; `start` is the state of a phase that has done nothing."""
    found = latest(out / "checkpoints")
    universal, lora, directory = False, _adapters(config, parent), parent.path
    if found is not None:
        require_tokenizer(found, parent.tokenizer_sha256)
        _require_lineage(found, parent, out=out, start=start)
        require_adapters(found, lora)
        lora = found.state.lora  # the adapters stay those of the policy that the first phase started from
        universal = needs_conversion(found.state, ranks.size)
        if universal:
            convert(found, ranks)
            directory = adapter_base(found) if lora else directory
    engine = open_engine(
        directory,
        ranks=ranks,
        config=config.engine,
        optimizer=config.optimizer,
        temperature=config.loss.temperature,
        universal=universal,
        lora=config.lora,
    )
    state = start
    if found is not None:
        load(found, engine)
        state = found.state if _is_middle(found, start) else start
    return engine, replace(state, world_size=ranks.size, zero=engine.zero, code_version=code_version(), lora=lora)


def adapter_base(found: Checkpoint) -> Path:
    """The policy directory of a checkpoint's adapters, because DeepSpeed's universal form leaves frozen weights out.

    Raises CheckpointError when it is not there as it was.
    """
    path, wanted = Path(found.state.lora["base"]), found.state.lora["base_sha256"]
    if not is_policy_directory(path) or read_policy_directory(path, verify=False).sha256 != wanted:
        msg = f"the adapters of checkpoint {found.path} belong to policy {path}, which is not there as it was"
        raise CheckpointError(msg, hint=f"put it back, or continue with {found.state.world_size} ranks")
    return path


def _adapters(config: LearnConfig, parent: PolicyDirectory) -> dict[str, Any]:
    if config.lora is None:
        return {}
    return {"config": config.lora.resolved(), "base": str(parent.path.resolve()), "base_sha256": parent.sha256}


def _is_middle(found: Checkpoint, start: State) -> bool:
    state = found.state
    return (state.run_id, state.epoch, state.policy_sha256) == (start.run_id, start.epoch, start.policy_sha256)


def _require_lineage(found: Checkpoint, parent: PolicyDirectory, *, out: Path, start: State) -> None:
    """The checkpoint is of this phase, or its weights are those of the start policy."""
    state = found.state
    unmoved = (state.run_id, state.policy_sha256, state.version) == (start.run_id, start.policy_sha256, start.version)
    if _is_middle(found, start) or unmoved:
        return
    exported = policy_path(out, state.version)
    if state.finished and exported.exists() and read_policy_directory(exported, verify=False).sha256 == parent.sha256:
        return  # the optimizer goes on where an earlier phase ended
    msg = (
        f"{out} holds a checkpoint of run {state.run_id} at version {state.version} of epoch {state.epoch}, which is"
        f" not where policy {parent.path} (version {parent.version}) starts"
    )
    raise CheckpointError(msg, hint=f"start from {exported} if it exists, or give another --out directory")
