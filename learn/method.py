"""Method files: YAML that names switches, and how a method is found by name, rule set or path.

Invariant: what a file does not say comes from its `base`, then from the rule set (`learn/rules/reference.yaml` or
`recommended.yaml`), so a file holds only what makes the method. An unknown parameter or word is refused.

A method is named 'sera', 'sera:recommended', or by the path of a .yaml or .sql file; names are those under
`learn/methods` and those registered under the entry-point group `sera.credits`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_args

from pydantic import Field

from learn.depth_rule import DepthRule
from learn.needs import Needs
from learn.rule import CREDITS, METHODS, STAGES, Control, Method, Param, Rule, RuleSet
from learn.schedule import DEFAULT, parse_schedule
from learn.switches import RULES, check_switches
from schemas.words import Stage
from sera_data.config import Config, load_config
from sera_data.errors import ConfigError

__all__ = ["CREDITS", "METHODS", "Method", "Rule", "credit_rules", "open_method", "rule_set", "shipped"]

GROUP = "sera.credits"


class StageRule(Config):
    """Credit of a stage. credit: a shipped rule's name, or an SQL file beside the method file. params: its switches."""

    credit: str | None = None
    params: dict[str, Param] = {}


class MethodConfig(Config):
    """A method file; everything but the name may come from its base."""

    name: str
    title: str = ""
    paper: str = Field(default="", description="Row of the paper's tables that it is; empty: nobody's.")
    base: str | None = Field(default=None, description="Shipped method that says whatever this file does not.")
    rules: RuleSet = "reference"
    schedule: str = DEFAULT
    control: Control = "none"
    control_seed: int = 0
    stages: dict[Stage, StageRule | tuple[StageRule, ...] | None] = Field(
        default={}, description="Credit by stage, one rule or several; null takes a stage of the base away."
    )
    needs: Needs = Needs()
    depth_weights: DepthRule = DepthRule()
    loss: dict[str, Param] = Field(default={}, description="Settings under `loss` that the learner must use.")


class RuleSetConfig(Config):
    """A file under learn/rules."""

    credits: dict[str, dict[str, Param]]
    depth_weights: DepthRule


def shipped() -> tuple[str, ...]:
    """Names of the methods in the package."""
    return tuple(sorted(path.stem for path in METHODS.glob("*.yaml")))


def credit_rules() -> tuple[str, ...]:
    """Names of the shipped credit rules; 'shuffled' is a control that runs on a rule's rows."""
    return tuple(sorted(p.stem for p in CREDITS.glob("*.sql") if p.stem != "shuffled"))


def open_method(name: str | Path) -> Method:
    """Find a method by name, name:rules or path; raises ConfigError that lists the names."""
    text, rules = _split(str(name))
    path = Path(text)
    if path.suffix in (".yaml", ".yml", ".sql"):
        return _open(path, rules)
    if text in shipped():
        return _open(METHODS / f"{text}.yaml", rules)
    registered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if text in registered:
        return _open(Path(_path(registered[text].load(), text)), rules)
    known = ", ".join(sorted({*shipped(), *registered}))
    msg = f"no method {text!r}; allowed: {known}, or the path of a .yaml or .sql file"
    raise ConfigError(msg, hint="'sera methods' says what each is; NAME:recommended takes our rules for it")


def _split(text: str) -> tuple[str, RuleSet | None]:
    head, colon, tail = text.rpartition(":")
    known: RuleSet | None = next((r for r in get_args(RuleSet) if r == tail), None)
    if colon and known is None and head in shipped():
        msg = f"method {text!r}: no rules {tail!r}; allowed: {', '.join(get_args(RuleSet))}"
        raise ConfigError(msg)
    return (head, known) if known is not None else (text, None)


def _path(value: Any, name: str) -> str:
    if isinstance(value, (str, Path)):
        return str(value)
    msg = f"entry point {GROUP}:{name} must be the path of a .yaml or .sql file, got {type(value).__name__}"
    raise ConfigError(msg)


def _open(path: Path, rules: RuleSet | None) -> Method:
    if path.suffix == ".sql":
        return Method(path.stem, "", parse_schedule(DEFAULT), ()).with_credit(path)
    config, folder = _with_base(path)
    chosen = rule_set(rules or config.rules)
    schedule = parse_schedule(config.schedule)
    stages = {stage: rule for stage, rule in config.stages.items() if rule is not None}
    unpaid = [stage for stage in schedule.stages if stage not in stages]
    if unpaid:
        msg = f"method {path}: schedule {config.schedule!r} names {unpaid[0]!r}, which has no credit under `stages`"
        raise ConfigError(msg)
    built = [
        _rule(stage, one, chosen, config, path, folder)
        for stage in STAGES
        if stage in stages
        for one in _several(stages[stage])
    ]
    depth = chosen.depth_weights.model_dump() | config.depth_weights.model_dump(exclude_unset=True)
    return Method(
        name=config.name if (rules or config.rules) == "reference" else f"{config.name}:recommended",
        title=config.title,
        schedule=schedule,
        rules=tuple(built),
        paper=config.paper,
        control=config.control,
        control_seed=config.control_seed,
        needs=config.needs,
        depth_weights=DepthRule(**depth),
        loss=tuple(sorted(config.loss.items())),
    )


def _several(rule: StageRule | tuple[StageRule, ...] | None) -> tuple[StageRule, ...]:
    return rule if isinstance(rule, tuple) else (rule,) if rule is not None else ()


def _rule(stage: Stage, rule: StageRule, rules: RuleSetConfig, config: MethodConfig, path: Path, folder: Path) -> Rule:
    if rule.credit is None:
        msg = f"method {path}: stage {stage!r} names no credit"
        raise ConfigError(msg, hint=f"shipped rules: {', '.join(credit_rules())}")
    sql = _sql_file(rule.credit, path, folder)
    defaults: dict[str, Param] = dict(rules.credits.get(rule.credit, {})) if sql.parent == CREDITS else {}
    if config.needs.k is not None and "k" in defaults:
        defaults["k"] = float(config.needs.k)
    built = Rule((stage,), sql, tuple(sorted({**defaults, **rule.params}.items())))
    unknown = sorted(set(rule.params) - built.param_names())
    if unknown:
        msg = f"method {path}: credit {rule.credit!r} has no parameter {unknown[0]!r}; it has: "
        raise ConfigError(msg + (", ".join(sorted(built.param_names())) or "none"))
    check_switches(sql, dict(built.params))
    return built


def _sql_file(credit: str, method: Path, folder: Path) -> Path:
    builtin = CREDITS / f"{credit}.sql"
    path = builtin if builtin.is_file() else folder / credit
    if not path.is_file():
        msg = f"method {method}: no credit {credit!r}; shipped rules: {', '.join(credit_rules())}"
        raise ConfigError(msg, hint="name a shipped rule or an .sql file beside the method file")
    return path


@cache
def rule_set(name: RuleSet) -> RuleSetConfig:
    """The switches of a rule set; recommended says only what it changes."""
    reference = load_config(RuleSetConfig, RULES / "reference.yaml").model_dump()
    if name == "reference":
        return RuleSetConfig(**reference)
    changes = load_config(RuleSetConfig, RULES / f"{name}.yaml").model_dump(exclude_unset=True)
    return RuleSetConfig(**_merged(reference, changes))


def _with_base(path: Path) -> tuple[MethodConfig, Path]:
    """The file over its bases, and the folder in which its SQL files lie."""
    config = load_config(MethodConfig, path)
    own = config.model_dump(exclude_unset=True)
    seen = [path.stem]
    while config.base is not None:
        if config.base not in shipped() or config.base in seen:
            msg = f"method {path}: base {config.base!r} is not another shipped method; allowed: {', '.join(shipped())}"
            raise ConfigError(msg)
        seen.append(config.base)
        config = load_config(MethodConfig, METHODS / f"{config.base}.yaml")
        inherited = config.model_dump(exclude_unset=True, exclude={"title", "paper"})
        own = _merged(inherited, {**own, "base": None})
    return MethodConfig(**{**own, "base": None}), path.parent


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid over `base`, mappings key by key."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
