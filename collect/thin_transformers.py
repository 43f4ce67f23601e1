"""transformers without packages that it imports for what nothing here uses.

Invariant: where they are installed, SciPy and scikit-learn (losses of detectors, assisted generation) and boto3
(accelerate's SageMaker) are not imported: with them every process of a learn phase takes a quarter longer to start. The
libraries go on as on a machine without them. What is loaded already stays, and everybody else can import them as ever.

Run: ``from collect.thin_transformers import transformers``, before anything else has imported it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

UNUSED = ("boto3", "scipy", "sklearn")


@contextlib.contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Within, packages that are not loaded yet are as if they were not installed."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type] # None there means: cannot be imported
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


with hidden(*UNUSED):
    import transformers
    import transformers.generation.candidate_generator
    import transformers.modeling_utils

__all__ = ["hidden", "transformers"]
