"""What a model directory may get wrong although its hashes are right.

Invariant: a directory whose files do not belong together is refused in one line that names it, whatever a library
raised; weights that the files lack are never filled with random numbers.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collect.policy_directory import MASK, PolicyDirectoryError
from sera_data.errors import SeraError

HINT = "its files do not belong together: export or download it again"


@contextlib.contextmanager
def loading_faults(directory: Path) -> Iterator[None]:
    """Turn what libraries raise about a model's files into PolicyDirectoryError."""
    try:
        yield
    except SeraError:
        raise
    except Exception as error:  # tokenizers and safetensors raise plain Exception
        known = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())[:300]
        msg = f"cannot load the model in {directory}: {known}"
        raise PolicyDirectoryError(msg, hint=HINT) from error


def require_weights(directory: Path, report: Mapping[str, Any], *, tied: bool) -> None:
    """Refuse weights that `from_pretrained` would have made up; `report` is its loading info."""
    lacking = sorted(str(name) for name in report["missing_keys"] if not (tied and str(name) == "lm_head.weight"))
    wrong = sorted(str(name) for name in report["mismatched_keys"])
    if lacking or wrong:
        what = f"lacks {lacking[0]} and {len(lacking) - 1} others" if lacking else f"has another shape for {wrong[0]}"
        msg = f"the model in {directory} {what}, which its config.json asks for"
        raise PolicyDirectoryError(msg, hint=HINT)


def read_mask(directory: Path, vocabulary: int) -> list[int] | None:
    """Allowed ids of vocab_mask.json, ascending ids below `vocabulary`; None when the directory has no mask."""
    path = directory / MASK
    if not path.is_file():
        return None
    try:
        allowed = json.loads(path.read_text(encoding="utf-8"))["allowed"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{path} must be a JSON object with the list 'allowed', got {type(error).__name__}: {error}"
        raise PolicyDirectoryError(msg, hint=HINT) from None
    whole = isinstance(allowed, list) and all(type(i) is int and 0 <= i < vocabulary for i in allowed)
    if not whole or not allowed or len(set(allowed)) != len(allowed):
        msg = f"{path} must list different ids from 0 to {vocabulary - 1} under 'allowed', at least one"
        raise PolicyDirectoryError(msg, hint=HINT)
    return list(allowed)
