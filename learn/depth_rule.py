"""How depths of a batch share the update: a method's choice of depth weights.

Invariant: pure data; `learn/queries/depth_weights.sql` computes with it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sera_data.config import Config


class DepthRule(Config):
    """rule: trajectories (1 / T_d, the paper's), gamma (gamma ** depth), none (1)."""

    rule: Literal["trajectories", "gamma", "none"] = Field(default="trajectories", description="How depths weigh.")
    gamma: float = Field(default=1.0, gt=0, description="Factor per level, for rule gamma.")
    cap: float = Field(default=0.0, ge=0, description="Largest weight as a multiple of the smallest; 0 = no cap.")
