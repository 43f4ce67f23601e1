"""A price file: what a model's tokens cost, by role, as YAML.

    currency: USD                  # only a word that is printed
    models:
      qwen3-32b: {input: 0.10, cached: 0.02, output: 0.40}      # per million tokens
      gpt-5-mini:
        input: 0.25
        output: 2.00
        roles: {judge: {input: 0.125, output: 1.00}}             # another price where it judges
      "*": {input: 0, output: 0}   # any other model

Invariant: a price is never guessed: a model that the file does not name has none. `cached` are prompt tokens that the
server took from its cache; without a price of their own they cost what any prompt token costs.

Run: ``sera data costs STORE --prices prices.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from schemas.words import Role
from sera_data.config import Config, load_config
from sera_data.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

MILLION = 1_000_000
ANY = "*"


@dataclass(frozen=True, slots=True)
class Price:
    """Prices per million tokens of prompts, of prompts from a cache, and of completions."""

    input: float
    cached: float
    output: float

    def cost(self, *, prompt: int, cached: int | None, completion: int) -> float:
        """Price of calls with these token counts; `cached` of the prompt tokens came from a cache."""
        known = min(cached or 0, prompt)
        return ((prompt - known) * self.input + known * self.cached + completion * self.output) / MILLION


class RolePrice(Config):
    """Prices per million tokens; what is left out is that of the model."""

    input: float | None = Field(default=None, ge=0, description="Prompt tokens.")
    cached: float | None = Field(default=None, ge=0, description="Prompt tokens from the server's cache.")
    output: float | None = Field(default=None, ge=0, description="Completion tokens, thinking included.")


class ModelPrice(RolePrice):
    """Prices of a model, and exceptions by role."""

    roles: dict[Role, RolePrice] = Field(default_factory=dict, description="Other prices in a role.")


class Prices(Config):
    """A price file."""

    currency: str = Field(default="USD", description="Printed behind amounts.")
    models: dict[str, ModelPrice] = Field(description="Prices by model, as policies name it; '*' for any other.")

    def of(self, model: str, role: str) -> Price | None:
        """The price of a model in a role; None when the file says none."""
        found = self.models.get(model) or self.models.get(ANY)
        if found is None:
            return None
        own = next((part for name, part in found.roles.items() if name == role), None)
        parts: list[RolePrice] = [found] if own is None else [own, found]
        fresh, cached, output = (_first(parts, name) for name in ("input", "cached", "output"))
        if fresh is None or output is None:
            return None
        return Price(fresh, fresh if cached is None else cached, output)

    def table(self, pairs: Iterable[tuple[str, str]]) -> pa.Table:
        """The prices of these (model, role) pairs per million tokens, as the table that `cost_prices.sql` joins.

        Columns model, role (string), input, cached, output (float64); pairs without a price are left out.
        """
        import pyarrow as pa

        rows = [(model, role, price) for model, role in pairs if (price := self.of(model, role)) is not None]
        names = pa.array([model for model, _, _ in rows], pa.string())
        roles = pa.array([role for _, role, _ in rows], pa.string())
        amounts = {
            name: pa.array([getattr(price, name) for _, _, price in rows], pa.float64())
            for name in ("input", "cached", "output")
        }
        return pa.table({"model": names, "role": roles, **amounts})


def _first(parts: list[RolePrice], name: str) -> float | None:
    """The first price of that name that is said."""
    return next((value for part in parts if (value := getattr(part, name)) is not None), None)


def read_prices(path: Path) -> Prices:
    """Read a price file; ConfigError for one that is missing, no YAML, or not of this form."""
    prices = load_config(Prices, path)
    if not prices.models:
        msg = f"price file {path} names no model"
        raise ConfigError(msg, hint="models: {NAME: {input: 0.10, output: 0.40}}, per million tokens")
    return prices
