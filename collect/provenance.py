"""Which code ran and on what, for `runs` rows.

Invariant: the code version is stable within a checkout; the hardware is volatile and enters no hash.
"""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from sera_data.canonical import canonical_json


@lru_cache(maxsize=1)
def code_version() -> str:
    """Version of the package, with the git revision when it runs from a checkout: ``0.1.0+g1a2b3c4d5e6f``."""
    base = version("sera-data")
    revision = _revision(Path(__file__).resolve().parent.parent / ".git")
    return f"{base}+g{revision[:12]}" if revision else base


@lru_cache(maxsize=1)
def hardware() -> str:
    """CPU model, cores, memory and the models of the accelerators that the driver lists, as JSON."""
    facts = {"cpu": _cpu(), "cores": os.cpu_count(), "memory_gib": _memory_gib()}
    return canonical_json({**facts, "accelerators": accelerators(Path("/proc/driver/nvidia/gpus"))})


def _revision(git: Path) -> str | None:
    head = _read(git / "HEAD")
    if head is None or not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    direct = _read(git / name)
    if direct is not None:
        return direct
    packed = _read(git / "packed-refs") or ""
    return next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {name}")), None)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def accelerators(drivers: Path) -> list[str]:
    """Model per device under the driver's directory; [] where there is no such driver."""
    if not drivers.is_dir():
        return []
    texts = [_read(device / "information") or "" for device in sorted(drivers.iterdir())]
    return [next((t[6:].strip() for t in text.splitlines() if t.startswith("Model:")), "unknown") for text in texts]


def _cpu() -> str:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (OSError, ValueError):
        return None
