"""The published food database is taken from where it is and by its hash only; our own table has its shape."""

import shutil
import zipfile
from pathlib import Path

import pytest

from collect import textworld_foods
from collect.textworld_foods import DATABASE, DATABASE_SHA256, FOLDS, INSTALLED, PACKAGE, open_foods, own_foods
from collect.textworld_recipes import AS_IT_IS
from sera_data.canonical import sha256_file
from sera_data.errors import UsageError

RAW_ONLY = {"black pepper", "flour", "olive oil", "salt", "water"}
COOKING, CUTTING = {"raw", "fried", "roasted", "grilled"}, {"uncut", "chopped", "sliced", "diced"}


def installed_file():
    return textworld_foods._installed()


def preparable(foods, fold):
    return {food for food, options in foods.folds[fold].items() if any(option != AS_IT_IS for option in options)}


def test_the_installed_database_is_the_published_one():
    foods = open_foods(INSTALLED)
    assert foods.published
    assert foods.sha256 == DATABASE_SHA256 == sha256_file(installed_file())
    assert {fold: len(names) for fold, names in foods.folds.items()} == dict.fromkeys(FOLDS, 22)
    assert set(foods.folds["train"]) == set(foods.folds["valid"]) == set(foods.folds["test"])
    assert {fold: len(preparable(foods, fold)) for fold in FOLDS} == {"train": 17, "valid": 16, "test": 17}
    assert set(foods.folds["test"]) - preparable(foods, "test") == RAW_ONLY
    sizes = {fold: [len(options) for options in foods.folds[fold].values()] for fold in FOLDS}
    assert {fold: (min(found), max(found)) for fold, found in sizes.items()} == {
        "train": (1, 9),
        "valid": (1, 4),
        "test": (1, 3),
    }
    pairs = {fold: {(food, o) for food, options in foods.folds[fold].items() for o in options} for fold in FOLDS}
    assert (len(pairs["train"]), len(pairs["test"]), len(pairs["train"] & pairs["test"])) == (120, 44, 5)


def test_aliases_have_places():
    foods = open_foods(INSTALLED)
    assert foods.locations["olive oil"] == ("pantry.shelf", "supermarket.showcase")
    assert foods.locations["purple potato"] == ("kitchen.counter", "garden")
    assert {places[0].partition(".")[0] for places in foods.locations.values()} == {"kitchen", "pantry"}


def test_a_file_and_a_wheel_give_the_same_table(tmp_path):
    copy = tmp_path / "foods.json"
    shutil.copy(installed_file(), copy)
    wheel = tmp_path / "textworld_express-1.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(installed_file(), f"{PACKAGE}/{DATABASE}")
    assert open_foods(str(copy)) == open_foods(str(wheel)) == open_foods(INSTALLED)


def test_another_file_is_refused_by_its_hash(tmp_path):
    wrong = tmp_path / DATABASE
    wrong.write_bytes(installed_file().read_bytes() + b"\n")
    with pytest.raises(UsageError, match=rf"{wrong} has sha256 {sha256_file(wrong)}, .*need {DATABASE_SHA256}"):
        open_foods(str(wrong))


def test_what_is_no_database_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not found"):
        open_foods(str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="cannot be read"):
        open_foods(str(tmp_path))
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    with pytest.raises(UsageError, match="cannot be read"):
        open_foods(str(broken))
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    with pytest.raises(UsageError, match="cannot be read"):
        open_foods(str(tmp_path / "empty.whl"))


def test_a_package_that_is_not_installed_says_so(monkeypatch):
    monkeypatch.setattr(textworld_foods, "PACKAGE", "no_such_package_of_foods")
    with pytest.raises(UsageError, match="pip install textworld-express"):
        open_foods(INSTALLED)


def test_our_table_has_the_published_shape():
    foods = own_foods()
    assert not foods.published
    assert foods == open_foods(None)
    names = set(foods.locations)
    assert 20 <= len(names) <= 30
    for fold in FOLDS:
        assert set(foods.folds[fold]) == names
        assert len(preparable(foods, fold)) >= 15  # five dishes with three prepared foods each
        for options in foods.folds[fold].values():
            assert options
            assert len(set(options)) == len(options)
            assert all(cooking in COOKING and cutting in CUTTING for cooking, cutting in options)
    most = [max(len(options) for options in foods.folds[fold].values()) for fold in FOLDS]
    assert most == sorted(most, reverse=True)
    rooms = {place.partition(".")[0] for places in foods.locations.values() for place in places}
    assert rooms <= {"kitchen", "pantry", "garden", "supermarket"}


def test_no_two_folds_of_our_table_share_a_preparation():
    foods = own_foods()
    staples = set.intersection(*({f for f in foods.locations if f not in preparable(foods, fold)} for fold in FOLDS))
    assert len(staples) >= 5
    for food in set(foods.locations) - staples:
        options = [foods.folds[fold][food] for fold in FOLDS]
        assert len({option for some in options for option in some}) == sum(map(len, options))


def test_our_words_are_not_the_published_ones():
    assert not set(own_foods().locations) & set(open_foods(INSTALLED).locations)


def test_the_database_is_not_in_the_repository(request):
    root = request.config.rootpath
    size = installed_file().stat().st_size
    places = [root / name for name in ("collect", "tests", "docs", "examples", "configs", "benchmarks")]
    same = [path for place in places for path in place.rglob("*") if path.is_file() and path.stat().st_size == size]
    assert not [path for path in same if sha256_file(Path(path)) == DATABASE_SHA256]
