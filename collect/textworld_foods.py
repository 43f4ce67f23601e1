"""The food table of TextWorld-Sync tasks: where each food is and how each fold of tasks may prepare it.

Invariant: a table is known by the sha256 of its text. Ours ships with the package; the one of the published tasks is
read from `cooking_world.json` of textworld-express 1.1.0 (Apache-2.0), from a file, from its wheel or from the
installed package, and any other bytes are refused. It is never copied into this package.

Run: ``pip install textworld-express==1.1.0 && sera tasks build textworld --split train --food-db installed``.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from collect.textworld_recipes import Preparation
from sera_data.errors import UsageError

DATABASE = "cooking_world.json"
DATABASE_SHA256 = "ecef2d85523c9801d00ddb35c77b8f56e0f9f4ef37c022e8431102c0b49522fd"
PACKAGE = "textworld_express"
INSTALLED = "installed"
FOLDS = ("train", "valid", "test")
HINT = f"allowed: {DATABASE} or the wheel of textworld-express 1.1.0, or the word {INSTALLED!r} when it is installed"


@dataclass(frozen=True, slots=True)
class FoodTable:
    """Foods: preparations by fold and food, and the places of each food, the first being where a task puts it."""

    name: str
    sha256: str
    folds: Mapping[str, Mapping[str, tuple[Preparation, ...]]]
    locations: Mapping[str, tuple[str, ...]]

    @property
    def published(self) -> bool:
        """Whether this is the table of the published tasks."""
        return self.sha256 == DATABASE_SHA256


@cache
def own_foods() -> FoodTable:
    """The table that ships with the package."""
    text = files("collect").joinpath("textworld_foods.yaml").read_text(encoding="utf-8")
    body = yaml.safe_load(text)
    foods: Mapping[str, Mapping[str, list[str]]] = body["foods"]
    folds = {fold: {food: tuple(map(_pair, row[fold])) for food, row in foods.items()} for fold in FOLDS}
    locations = {food: tuple(row["locations"]) for food, row in foods.items()}
    return FoodTable(body["name"], sha256(text.encode()).hexdigest(), folds, locations)


def open_foods(source: str | None) -> FoodTable:
    """Our table for None, else the published one from a file, a wheel or (`installed`) the installed package.

    Raises UsageError when it is not there or its sha256 is not `DATABASE_SHA256`.
    """
    if source is None:
        return own_foods()
    path = _installed() if source == INSTALLED else Path(source)
    data = _bytes(path)
    found = sha256(data).hexdigest()
    if found != DATABASE_SHA256:
        msg = f"food database {path} has sha256 {found}, the published tasks need {DATABASE_SHA256}"
        raise UsageError(msg, hint=f"{HINT}; without --food-db our own table is used")
    return _published(json.loads(data))


def _pair(text: str) -> Preparation:
    cooking, cutting = text.split()
    return cooking, cutting


def _installed() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        msg = "food database 'installed': textworld-express is not installed"
        raise UsageError(msg, hint="pip install textworld-express==1.1.0, or name its file: --food-db FILE")
    return Path(next(iter(spec.submodule_search_locations))) / DATABASE


def _bytes(path: Path) -> bytes:
    try:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                return wheel.read(f"{PACKAGE}/{DATABASE}")
        return path.read_bytes()
    except FileNotFoundError:
        msg = f"food database not found: {path}"
        raise UsageError(msg, hint=HINT) from None
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        msg = f"food database {path} cannot be read: {error}"
        raise UsageError(msg, hint=HINT) from None


def _published(body: Mapping[str, Any]) -> FoodTable:
    """The table in the database's form, where one record may stand for several foods (`names`)."""
    folds = {
        fold: {food: tuple((cooking, cutting) for cooking, cutting in options) for food, options in foods.items()}
        for fold, foods in body["FOOD_PREPARATIONS_SPLITS"].items()
    }
    places = {
        alias: tuple(record["locations"])
        for name, record in body["FOODS_COMPACT"].items()
        for alias in record.get("names", [name])
    }
    locations = {food: places[food] for foods in folds.values() for food in foods}
    return FoodTable("textworld-express-1.1.0", DATABASE_SHA256, folds, locations)
