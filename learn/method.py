"""A method: a row of switches that says which credit rule pays each stage, and in which schedule.

Invariant: a method holds file names and numbers only; the rules themselves are the SQL files. A method is found by
name (shipped under `learn/methods`, or registered under the entry-point group `sera.credits`) or by the path of a
YAML or SQL file.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, get_args

import duckdb

from learn.schedule import DEFAULT, Schedule, parse_schedule
from schemas.words import Stage
from sera_data.config import Config, load_config
from sera_data.errors import ConfigError

GROUP = "sera.credits"
METHODS = Path(__file__).parent / "methods"
CREDITS = Path(__file__).parent / "credits"

Control = Literal["none", "shuffled"]
STAGES: tuple[Stage, ...] = get_args(Stage)


class StageRule(Config):
    """Credit of one stage. credit: a shipped rule's name, or an SQL file beside the method file. params: `$name`s."""

    credit: str
    params: dict[str, float | str] = {}


class MethodConfig(Config):
    """A method file."""

    name: str
    title: str = ""
    schedule: str = DEFAULT
    control: Control = "none"
    control_seed: int = 0
    stages: dict[Stage, StageRule]


@dataclass(frozen=True, slots=True)
class Rule:
    """One SQL file with its parameters; `stages` are those its rows may name."""

    stages: tuple[Stage, ...]
    path: Path
    params: tuple[tuple[str, float | str], ...] = ()

    def param_names(self) -> set[str]:
        """Names of the `$name` parameters in the SQL; raises ConfigError for SQL that does not parse."""
        return set(self.statement().named_parameters)

    def statement(self) -> duckdb.Statement:
        """The one statement of the file; raises ConfigError for none, several or a syntax error."""
        try:
            statements = duckdb.extract_statements(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            msg = f"credit {self.path} cannot be read: {error}"
            raise ConfigError(msg, hint="a credit file is SQL in UTF-8") from None
        except duckdb.Error as error:
            msg = f"credit {self.path} does not run: {' '.join(str(error).split())}"
            raise ConfigError(msg) from None
        kinds = [str(statement.type).rpartition(".")[2] for statement in statements]
        if kinds != ["SELECT"]:
            msg = f"credit {self.path} must hold exactly one SELECT statement, got {', '.join(kinds) or 'none'}"
            raise ConfigError(msg)
        return statements[0]

    def bind(self, names: set[str]) -> dict[str, float | str]:
        """Values of the parameters that the SQL names; raises ConfigError for one without a value."""
        values = dict(self.params)
        missing = sorted(names - set(values))
        if missing:
            msg = f"credit {self.path} needs a value for {', '.join('$' + n for n in missing)}; given: {sorted(values)}"
            raise ConfigError(msg, hint="set it under stages.<stage>.params of the method, or with --set NAME=VALUE")
        return {name: values[name] for name in names}


@dataclass(frozen=True, slots=True)
class Method:
    """A method ready to compute credit with."""

    name: str
    title: str
    schedule: Schedule
    control: Control
    control_seed: int
    rules: tuple[Rule, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages that get credit, in the order of the vocabulary."""
        named = {stage for rule in self.rules for stage in rule.stages}
        return tuple(stage for stage in STAGES if stage in named)

    def with_params(self, params: dict[str, float | str]) -> Method:
        """The same method with parameters replaced in every rule."""
        rules = tuple(Rule(r.stages, r.path, tuple(sorted({**dict(r.params), **params}.items()))) for r in self.rules)
        return Method(self.name, self.title, self.schedule, self.control, self.control_seed, rules)

    def with_credit(self, path: Path) -> Method:
        """The same method with one user's SQL file in place of its rules; its rows may name any stage."""
        if not path.is_file():
            msg = f"credit file not found: {path}"
            raise ConfigError(msg, hint="name an existing .sql file")
        params = {name: value for rule in self.rules for name, value in rule.params}
        rule = Rule(STAGES, path, tuple(sorted(params.items())))
        return Method(self.name, self.title, self.schedule, self.control, self.control_seed, (rule,))


def shipped() -> tuple[str, ...]:
    """Names of the methods in the package."""
    return tuple(sorted(path.stem for path in METHODS.glob("*.yaml")))


def open_method(name: str | Path) -> Method:
    """Find a method by name or path; raises ConfigError that lists the names."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml", ".sql"):
        return _open(path)
    if name in shipped():
        return _open(METHODS / f"{name}.yaml")
    registered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name in registered:
        return _open(Path(_path(registered[str(name)].load(), str(name))))
    known = ", ".join(sorted({*shipped(), *registered}))
    msg = f"no method {str(name)!r}; allowed: {known}, or the path of a .yaml or .sql file"
    raise ConfigError(msg)


def _path(value: Any, name: str) -> str:
    if isinstance(value, (str, Path)):
        return str(value)
    msg = f"entry point {GROUP}:{name} must be the path of a .yaml or .sql file, got {type(value).__name__}"
    raise ConfigError(msg)


def _open(path: Path) -> Method:
    if path.suffix == ".sql":
        return Method(path.stem, "", parse_schedule(DEFAULT), "none", 0, ()).with_credit(path)
    config = load_config(MethodConfig, path)
    rules = tuple(
        Rule((stage,), _sql_file(rule.credit, path), tuple(sorted(rule.params.items())))
        for stage, rule in config.stages.items()
    )
    schedule = parse_schedule(config.schedule)
    unpaid = [stage for stage, _ in schedule.items if stage not in config.stages]
    if unpaid:
        msg = f"method {path}: schedule {config.schedule!r} names {unpaid[0]!r}, which has no credit under `stages`"
        raise ConfigError(msg)
    return Method(config.name, config.title, schedule, config.control, config.control_seed, rules)


def _sql_file(credit: str, method: Path) -> Path:
    builtin = CREDITS / f"{credit}.sql"
    path = builtin if builtin.is_file() else method.parent / credit
    if not path.is_file():
        msg = f"method {method}: no credit {credit!r}; shipped rules: {', '.join(credit_rules())}"
        raise ConfigError(msg, hint="name a shipped rule or an .sql file beside the method file")
    return path


def credit_rules() -> tuple[str, ...]:
    """Names of the shipped credit rules; 'shuffled' is a control that runs on a rule's rows."""
    return tuple(sorted(p.stem for p in CREDITS.glob("*.sql") if p.stem != "shuffled"))
