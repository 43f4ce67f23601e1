"""`CrossConfig`: which writers and scorers are set against each other on a store of probes.

Invariant: names are the rows and columns of the table; a writer or scorer is a policy spec, or a word of its own.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sera_data.config import Config

STORED, GLOBAL = "stored", "global"
Control = Literal["other", "none"]


class CrossConfig(Config):
    """Writers x scorers, and the controls."""

    writers: dict[str, str] = Field(
        description="Name -> policy spec, or 'stored' (the rubric that is there), or 'global' (one rubric for all)."
    )
    scorers: dict[str, str] = Field(
        description="Name -> policy spec, for example initial, current, external, rule (scripted:flat_oracle)."
    )
    controls: tuple[Control, ...] = Field(
        default=("other", "none"),
        description="other: the rubric stored for another delegation; none: no rubric, the scorer judges alone.",
    )
    delegations: int = Field(default=64, ge=1, description="Mixed delegations of the store that are asked about.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.writers or not self.scorers:
            msg = "writers and scorers must name at least one each"
            raise ValueError(msg)
        taken = sorted(set(self.writers) & {"other", "none"})
        if taken:
            msg = f"a writer must not be called {taken[0]}: that is a control"
            raise ValueError(msg)
        return self
