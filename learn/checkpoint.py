"""Checkpoints of a run: `checkpoints/c000007/` with the engine's shards, the random states and `state.json`.

Invariant: a checkpoint is written aside and renamed, so a directory with its final name is whole and a process killed
at any moment leaves the one before it usable. Resuming on the same number of ranks is exact, bit for bit on one rank;
on another number the shards are converted to DeepSpeed's universal form first. A checkpoint of another tokenizer,
run lineage or ZeRO stage is refused by name.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
from argparse import Namespace
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from learn.state_file import replace_file, write_faults
from sera_data.canonical import canonical_json
from sera_data.disk import sync_directory, write_bytes
from sera_data.errors import SeraError

if TYPE_CHECKING:
    from learn.engine import Engine
    from learn.ranks import Ranks

FORMAT = 1
STATE = "state.json"
LATEST = "latest"


class CheckpointError(SeraError):
    """A checkpoint that cannot be read or does not belong to this run."""


@dataclass(frozen=True, slots=True)
class State:
    """Where a run stands. All of it is plain JSON.

    policy_sha256: policy.json of the directory that the phase started from. cursor: updates of the phase done.
    consumed: group uses per stage in the phase. rows: the `updates` rows of the phase so far. finished: the phase
    has no update left. lora: {} or {config, base, base_sha256}, the adapters' settings and the policy directory that
    they belong to.
    """

    run_id: str
    epoch: int
    version: int
    cursor: int
    finished: bool
    policy_sha256: str
    tokenizer_sha256: str | None
    snapshot_sha256: str
    consumed: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    world_size: int = 1
    zero: int = 0
    code_version: str = ""
    lora: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    path: Path
    state: State


def latest(root: Path) -> Checkpoint | None:
    """The newest whole checkpoint below `root`, or None."""
    names = sorted(p.name for p in root.glob("c[0-9]*") if (p / STATE).is_file()) if root.is_dir() else []
    return read(root / names[-1]) if names else None


def read(path: Path) -> Checkpoint:
    """Read the state of a checkpoint."""
    try:
        body = json.loads((path / STATE).read_text(encoding="utf-8"))
        if body.get("format") != FORMAT:
            msg = f"checkpoint {path} has format {body.get('format')!r}, this release reads {FORMAT}"
            raise CheckpointError(msg, hint="continue with the release that wrote it, or start in a new directory")
        state = State(**body)
        _require_types(state)
        return Checkpoint(path, state)
    except (OSError, ValueError, RecursionError, TypeError, AttributeError) as error:
        msg = f"cannot read checkpoint {path}: {error}"
        raise CheckpointError(msg, hint=f"remove {path}; the checkpoint before it is used then") from None


def _require_types(state: State) -> None:
    kinds = {"run_id": str, "snapshot_sha256": str, "epoch": int, "version": int, "cursor": int, "finished": bool}
    for name, kind in {**kinds, "consumed": dict, "rows": list, "world_size": int, "zero": int, "lora": dict}.items():
        value = getattr(state, name)
        if not isinstance(value, kind):
            msg = f"{name} must be {kind.__name__}, got {value!r}"
            raise TypeError(msg)


def require_tokenizer(checkpoint: Checkpoint, tokenizer_sha256: str | None) -> None:
    """Refuse a checkpoint whose token ids mean other text."""
    found = checkpoint.state.tokenizer_sha256
    if found != tokenizer_sha256:
        msg = (
            f"checkpoint {checkpoint.path} belongs to tokenizer {str(found)[:16]}, the policy has tokenizer"
            f" {str(tokenizer_sha256)[:16]}"
        )
        raise CheckpointError(msg, hint="give the policy that the run started from, or another --out directory")


def require_adapters(checkpoint: Checkpoint, lora: dict[str, Any]) -> None:
    """Refuse a checkpoint whose trained tensors are others than this run's: full weights, or other adapters."""
    found, wanted = (part.get("config") for part in (checkpoint.state.lora, lora))
    if found != wanted:
        named = [f"lora {json.dumps(part, sort_keys=True)}" if part else "full weights" for part in (found, wanted)]
        msg = f"checkpoint {checkpoint.path} was trained with {named[0]}, the config says {named[1]}"
        raise CheckpointError(msg, hint="keep lora as it was, or give another --out directory")


def save(root: Path, engine: Engine, state: State, *, keep: int) -> Checkpoint:
    """Write a checkpoint aside and rename it; every rank calls this. Keeps the newest `keep`."""
    ranks = engine.ranks
    before = latest(root)
    name = f"c{int(before.path.name[1:]) + 1 if before else 0:06d}"
    staging, target = root / f".tmp-{name}", root / name
    ranks.barrier()
    with write_faults(target, aside=staging):
        if ranks.first:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
        ranks.barrier()
        engine.save(staging)
        write_bytes(staging / f"random-{ranks.rank:05d}.json", canonical_json(random_states()).encode())
        ranks.barrier()
        if ranks.first:
            _publish(staging, target, state)
            _prune(root, keep)
    ranks.barrier()
    return Checkpoint(target, state)


def load(checkpoint: Checkpoint, engine: Engine) -> None:
    """Put a checkpoint into an engine and set this rank's random states; every rank calls this."""
    ranks, state = engine.ranks, checkpoint.state
    if state.zero != engine.zero:
        msg = f"checkpoint {checkpoint.path} was written with ZeRO stage {state.zero}, the config says {engine.zero}"
        raise CheckpointError(msg, hint=f"continue with --set engine.zero={state.zero}")
    try:
        engine.load(checkpoint.path / "universal" if needs_conversion(state, ranks.size) else checkpoint.path)
        own = checkpoint.path / f"random-{ranks.rank:05d}.json"
        if own.exists():
            set_random_states(json.loads(own.read_text(encoding="utf-8")))
    except SeraError:
        raise
    except Exception as error:  # torch, pickle and zip name a cut file each in their own way
        msg = f"checkpoint {checkpoint.path} is damaged: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise CheckpointError(msg, hint=f"remove {checkpoint.path}; the checkpoint before it is used then") from error


def needs_conversion(state: State, world_size: int) -> bool:
    """True when the shards are cut for another number of ranks; ZeRO 0 shards are not cut."""
    return state.zero > 0 and state.world_size != world_size


def convert(checkpoint: Checkpoint, ranks: Ranks) -> None:
    """Make the universal form of a checkpoint beside its shards, once; every rank calls this.

    It is done in this process, one shard after another: a process of its own would import DeepSpeed anew, and one that
    has a process group must not fork helpers.
    """
    target = checkpoint.path / "universal"
    if ranks.first and not target.exists():
        staging = checkpoint.path / ".tmp-universal"
        shutil.rmtree(staging, ignore_errors=True)
        try:
            _to_universal(checkpoint.path / "engine", staging / "engine")
        except SeraError:  # stopped by a signal
            raise
        except Exception as error:  # torch, pickle and DeepSpeed's own assertions: all are about what lies there
            size, said = checkpoint.state.world_size, " ".join(str(error).split())[:300]
            msg = f"cannot convert {checkpoint.path} from {size} ranks: {type(error).__name__}: {said}"
            raise CheckpointError(msg, hint=f"continue with {size} ranks") from error
        staging.rename(target)
    ranks.barrier()


def _to_universal(source: Path, target: Path) -> None:
    """DeepSpeed's own converter, without its talk on stdout."""
    from deepspeed.checkpoint import ds_to_universal

    options = Namespace(
        input_folder=str(source),
        output_folder=str(target),
        num_extract_workers=1,
        num_merge_workers=1,
        keep_temp_folder=False,
        strict=True,
        inject_missing_state=True,
    )
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        ds_to_universal.main(options)


def random_states() -> dict[str, Any]:
    """States of all generators in use, as JSON."""
    name, keys, position, has_gauss, cached = np.random.get_state()
    version, numbers, gauss = random.getstate()
    states: dict[str, Any] = {
        "torch": bytes(torch.get_rng_state().numpy()).hex(),
        "numpy": [name, np.asarray(keys).tolist(), position, has_gauss, cached],
        "python": [version, list(numbers), gauss],
    }
    if torch.cuda.is_available():
        states["cuda"] = bytes(torch.cuda.get_rng_state().numpy()).hex()
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Inverse of `random_states`."""
    torch.set_rng_state(_bytes(states["torch"]))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(_bytes(states["cuda"]))


def _bytes(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8).clone()


def _publish(staging: Path, target: Path, state: State) -> None:
    write_bytes(staging / STATE, canonical_json(asdict(state)).encode())
    for path in staging.rglob("*"):
        if path.is_file():
            with path.open("rb+") as handle:
                os.fsync(handle.fileno())
    for directory in [staging, *(p for p in staging.rglob("*") if p.is_dir())]:
        sync_directory(directory)
    shutil.rmtree(target, ignore_errors=True)  # only an unreadable one can be there
    staging.rename(target)
    replace_file(target.parent / LATEST, f"{target.name}\n".encode())


def _prune(root: Path, keep: int) -> None:
    whole = sorted(p for p in root.glob("c[0-9]*") if (p / STATE).is_file())
    for path in whole[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
