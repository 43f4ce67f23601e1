"""Configuration: YAML -> frozen pydantic models, with `--set a.b=c` overrides.

Invariant: an unknown key is an error that names the allowed keys; the resolved configuration is plain JSON, holds
no secret, and its hash names the run.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Tag, ValidationError, ValidationInfo, field_validator

from sera_data.canonical import sha256_json
from sera_data.errors import ConfigError

MAX_COUNT, MAX_SEED = 2**31 - 1, 2**63 - 1
"""Largest numbers of a setting: counts and budgets are 32-bit columns of the store, seeds 64-bit ones."""

COLDEST, HOTTEST = 0.01, 100.0
"""Sampling temperatures besides 0: scores are divided by them, beyond which their float32 overflows or says nothing."""


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key written twice, where the plain loader silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name and name != "<<" and name in seen:
                msg = f"key {name!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, msg, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


def _degrees(value: float) -> float:
    if value and not COLDEST <= value <= HOTTEST:
        msg = f"want a temperature of 0 (greedy) or from {COLDEST:g} to {HOTTEST:g}, got {value:g}"
        raise ValueError(msg)
    return value


Temperature = Annotated[float, AfterValidator(_degrees)]
"""Of sampling; 0 = greedy."""


class Config(BaseModel):
    """Base of all configuration models: frozen, unknown keys refused, a switch is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true for 1, and numbers that no column of the store holds; in lists and mappings as well."""
        name = str(info.field_name)
        annotation = cls.model_fields[name].annotation
        limit = MAX_SEED if "seed" in name else MAX_COUNT
        group = hasattr(_model_in(annotation), "model_fields")  # it checks its own
        for part in () if group or _allows(annotation, Any) else _parts(value):
            if isinstance(part, bool) and not _allows(annotation, bool):
                msg = f"want no true or false here, got {str(part).lower()}"
                raise ValueError(msg)
            if isinstance(part, (int, float)) and math.isfinite(part) and abs(part) > limit:
                msg = f"want a number of at most {limit} either way, got {part}"
                raise ValueError(msg)
        return value

    def resolved(self) -> dict[str, Any]:
        """Every setting, defaults included, as plain JSON values."""
        return self.model_dump(mode="json")

    def hash(self) -> str:
        """sha256 of the resolved configuration."""
        return sha256_json(self.resolved())


C = TypeVar("C", bound=Config)


def run_id(name: str, config: Config) -> str:
    """Config name + 8 hex digits of the config hash, for example ``demo-1f2e3d4c``."""
    return f"{name}-{config.hash()[:8]}"


def load_config(model: type[C], path: Path | None, overrides: Sequence[str] = ()) -> C:
    """Read `path` (YAML, may be None for defaults), apply `a.b=value` overrides, validate.

    Raises ConfigError for a missing file, bad YAML, an unknown key or a wrong value; the message names the
    file, the dotted key, what was got and what is allowed.
    """
    data = {} if path is None else _read(path)
    for override in overrides:
        _apply(data, override)
    config = checked(model, data, path=path)
    try:
        config.hash()
    except ValueError as error:  # a free value (`options`) that has no JSON form
        where = f"config {path}" if path else "config"
        msg = f"{where} holds a value that has no JSON form: {' '.join(str(error).split())}"
        hint = "allowed are texts, finite numbers, true, false, null, lists and mappings"
        raise ConfigError(msg, hint=hint) from None
    return config


def checked(model: type[C], data: Mapping[str, Any], *, path: Path | None = None) -> C:
    """The settings as a model; ConfigError names the dotted key, what was got and what is allowed."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_explain(model, path, error)) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        msg = f"config file not found: {path}"
        raise ConfigError(msg, hint="name an existing YAML file, for example configs/demo.yaml") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: not UTF-8, or no such date
        msg = f"cannot read config {path}: {' '.join(str(error).split())}"
        raise ConfigError(msg) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        msg = f"config {path} must be a mapping of keys, got {type(data).__name__}"
        raise ConfigError(msg)
    return data


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        msg = f"--set wants a.b=value, got {override!r}"
        raise ConfigError(msg)
    *parents, last = key.strip().split(".")
    for parent in parents:
        child = data.setdefault(parent, {})
        if not isinstance(child, dict):
            msg = f"--set {override}: {parent!r} is not a group of settings"
            raise ConfigError(msg)
        data = child
    try:
        data[last] = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # not YAML: then it is text
        data[last] = text


def _explain(model: type[BaseModel], path: Path | None, error: ValidationError) -> str:
    where = f"config {path}" if path else "config"
    parts = []
    for fault in error.errors():
        key = ".".join(str(p) for p in fault["loc"]) or "(root)"
        if fault["type"] == "extra_forbidden":
            allowed = _allowed(model, fault["loc"][:-1])
            parts.append(f"unknown key {key!r}; allowed here: {', '.join(allowed)}")
        elif fault["type"] == "value_error":  # our own validators say what they got
            parts.append(f"{key}: {fault['msg'].removeprefix('Value error, ')}")
        else:
            parts.append(f"{key}: {fault['msg']}, got {fault.get('input')!r}")
    return f"{where}: " + "; ".join(parts)


def _parts(value: Any) -> Iterator[Any]:
    """The value, or the values inside a list or a mapping."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else None
    if inner is None:
        yield value
        return
    for part in inner:
        yield from _parts(part)


def _allows(annotation: Any, kind: Any) -> bool:
    """True when a field of this annotation may hold a value of that kind."""
    return annotation in (kind, Any) or any(_allows(option, kind) for option in get_args(annotation))


def _allowed(model: type[BaseModel], location: Sequence[Any]) -> list[str]:
    kind: Any = model
    annotation: Any = model
    for part in location:
        field = getattr(kind, "model_fields", {}).get(part)
        if field is None:  # the tag of one of several models, or an index
            kind = _tagged(annotation, part) or kind
        else:
            annotation = field.annotation
            kind = _model_in(annotation)
    return sorted(getattr(kind, "model_fields", {})) or ["nothing"]


def _model_in(kind: Any) -> Any:
    """The configuration model inside an optional, union or annotated type; the type itself when there is none."""
    if hasattr(kind, "model_fields"):
        return kind
    found = [_model_in(option) for option in get_args(kind)]
    return next((option for option in found if hasattr(option, "model_fields")), kind)


def _tagged(kind: Any, tag: Any) -> Any:
    """The model that a discriminated union calls by this tag, or None."""
    options = get_args(kind)
    if any(isinstance(option, Tag) and option.tag == tag for option in options):
        return _model_in(options[0])
    return next((found for option in options if (found := _tagged(option, tag)) is not None), None)
