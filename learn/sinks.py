"""Sinks: copies of the `updates` rows for TensorBoard, Weights & Biases or Trackio.

Invariant: a sink only reads rows that the phase has written; nothing in the learner reads a sink, and none is on unless
asked for. The store stays the record.

Run: ``sera learn ... --log tensorboard,trackio``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from sera_data.errors import SeraError, UsageError


class Sink(Protocol):
    """Takes `updates` rows one by one."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Show one row."""

    def close(self) -> None:
        """Flush."""


class TensorBoard:
    """Event files below the run's directory."""

    def __init__(self, directory: Path, run_id: str) -> None:
        del run_id
        writer = _load("torch.utils.tensorboard", "tensorboard").SummaryWriter
        self.writer = writer(str(directory / "tensorboard"))

    def add(self, row: Mapping[str, Any]) -> None:
        """One scalar per measured column."""
        for name, value in numbers(row).items():
            self.writer.add_scalar(name, value, row["version_out"])

    def close(self) -> None:
        """Flush."""
        self.writer.close()


class Tracker:
    """wandb and trackio, which have the same three calls."""

    def __init__(self, package: str, directory: Path, run_id: str) -> None:
        self.module = _load(package, package)
        extra = {"dir": str(directory)} if package == "wandb" else {}
        self.module.init(project="sera", name=run_id, **extra)

    def add(self, row: Mapping[str, Any]) -> None:
        """One log record per row."""
        self.module.log({**numbers(row), "version": row["version_out"]})

    def close(self) -> None:
        """Flush."""
        self.module.finish()


SINKS: dict[str, Callable[[Path, str], Sink]] = {
    "tensorboard": TensorBoard,
    "wandb": lambda directory, run_id: Tracker("wandb", directory, run_id),
    "trackio": lambda directory, run_id: Tracker("trackio", directory, run_id),
}


def parse_sinks(text: str) -> list[str]:
    """'tensorboard,wandb' -> names; UsageError lists what is allowed."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in SINKS]
    if unknown:
        msg = f"no sink {unknown[0]!r}; allowed: {', '.join(SINKS)}"
        raise UsageError(msg)
    return names


def open_sinks(names: list[str], *, directory: Path, run_id: str) -> list[Sink]:
    """Open sinks by name."""
    return [SINKS[name](directory, run_id) for name in names]


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The measured columns of a row, with the stage in the name: `execution/loss`."""
    found = {k: v for k, v in row.items() if isinstance(v, float | int) and not isinstance(v, bool)}
    return {f"{row['stage']}/{name}": float(value) for name, value in found.items()}


def _load(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        msg = f"--log {package} needs the package {error.name}"
        raise SeraError(msg, hint=f"pip install {package}") from None
