"""A method: a row of switches that says which credit rule pays each stage, in which schedule, and what it needs.

Invariant: a method holds file names, numbers and words only; the rules themselves are the SQL files. Equal methods pay
equal rows the same.

Run: ``sera methods`` lists them; ``sera credit STORE --method sera`` computes one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import duckdb

from learn.depth_rule import DepthRule
from learn.needs import Needs
from learn.schedule import Schedule
from learn.switches import check_switches
from schemas.words import Stage
from sera_data.errors import ConfigError

METHODS = Path(__file__).parent / "methods"
CREDITS = Path(__file__).parent / "credits"

Control = Literal["none", "shuffled", "coin_flip"]
RuleSet = Literal["reference", "recommended"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Param = float | str


@dataclass(frozen=True, slots=True)
class Rule:
    """One SQL file with its parameters; `stages` are those its rows may name."""

    stages: tuple[Stage, ...]
    path: Path
    params: tuple[tuple[str, Param], ...] = ()

    def param_names(self) -> set[str]:
        """Names of the `$name` parameters in the SQL; raises ConfigError for SQL that does not parse."""
        return set(self.statement().named_parameters)

    def statement(self) -> duckdb.Statement:
        """The one statement of the file; raises ConfigError for none, several or a syntax error."""
        return one_select(self.path, what="credit")

    def bind(self, names: set[str]) -> dict[str, Param]:
        """Values of the parameters that the SQL names; raises ConfigError for one without a value."""
        values = dict(self.params)
        missing = sorted(names - set(values))
        if missing:
            msg = f"credit {self.path} needs a value for {', '.join('$' + n for n in missing)}; given: {sorted(values)}"
            raise ConfigError(msg, hint="set it under stages.<stage>.params of the method, or with --set NAME=VALUE")
        return {name: values[name] for name in names}


@dataclass(frozen=True, slots=True)
class Method:
    """A method ready to compute credit with.

    paper: its row in the paper's tables, or empty. loss: settings under `loss` that it must be trained with.
    """

    name: str
    title: str
    schedule: Schedule
    rules: tuple[Rule, ...]
    paper: str = ""
    control: Control = "none"
    control_seed: int = 0
    needs: Needs = field(default_factory=Needs)
    depth_weights: DepthRule = field(default_factory=DepthRule)
    loss: tuple[tuple[str, Param], ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages that get credit, in the order of the vocabulary."""
        named = {stage for rule in self.rules for stage in rule.stages}
        return tuple(stage for stage in STAGES if stage in named)

    def with_params(self, params: dict[str, Param]) -> Method:
        """The same method with parameters replaced in every rule; ConfigError for a word unknown to a switch."""
        for rule in self.rules:
            check_switches(rule.path, params)
        rules = tuple(Rule(r.stages, r.path, tuple(sorted({**dict(r.params), **params}.items()))) for r in self.rules)
        return replace(self, rules=rules)

    def with_credit(self, path: Path) -> Method:
        """The same method with one user's SQL file in place of its rules; its rows may name any stage.

        The store is no longer asked for what the method's own rules need.
        """
        if not path.is_file():
            msg = f"credit file not found: {path}"
            raise ConfigError(msg, hint="name an existing .sql file")
        params = {name: value for rule in self.rules for name, value in rule.params}
        rules = (Rule(STAGES, path, tuple(sorted(params.items()))),)
        return replace(self, rules=rules, needs=Needs())


def one_select(path: Path, *, what: str) -> duckdb.Statement:
    """The one SELECT of a user's SQL file; ConfigError that names the file otherwise."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{what} {path} cannot be read: {error}"
        raise ConfigError(msg, hint=f"a {what} file is SQL in UTF-8") from None
    return one_select_of(text, what=f"{what} {path}")


def one_select_of(text: str, *, what: str) -> duckdb.Statement:
    """The one SELECT of a text; ConfigError that says `what` it is otherwise."""
    try:
        statements = _statements(text)
    except duckdb.Error as error:
        msg = f"{what} does not run: {' '.join(str(error).split())}"
        raise ConfigError(msg) from None
    kinds = [str(statement.type).rpartition(".")[2] for statement in statements]
    if kinds != ["SELECT"]:
        msg = f"{what} must hold exactly one SELECT statement, got {', '.join(kinds) or 'none'}"
        raise ConfigError(msg)
    return statements[0]


@lru_cache(maxsize=64)
def _statements(text: str) -> list[duckdb.Statement]:
    return duckdb.extract_statements(text)
