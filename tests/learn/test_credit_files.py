"""A credit file sees the store's tables and no other file of the machine, however the store's path is written."""

import os
from pathlib import Path

import duckdb
import pytest

import sera_data as sd
from learn.credit import compute_credit
from learn.method import open_method
from sera_data.cli import main
from tests.sera_data.small_store import small_store


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store behind a path with quotes, spaces, umlauts and what a glob would take for a pattern."""
    root = tmp_path_factory.mktemp("it's a [sea] of *ü*")
    small_store(root / "own 'store'", tasks=1, samples=1, k=2)
    small_store(root / "own 'store'", tasks=1, samples=1, k=2, sealed=False, run_id="open-1")
    (root / "link").symlink_to(root / "own 'store'")
    (root / "secret.csv").write_text("word\nsesame\n")
    return root


WAYS = {
    "absolute": lambda root: root / "own 'store'",
    "relative": lambda root: Path(os.path.relpath(root / "own 'store'")),
    "symlink": lambda root: root / "link",
    "dots": lambda root: root / "link" / ".." / "own 'store'",
}


def quoted(path):
    return "'" + str(path).replace("'", "''") + "'"


@pytest.fixture(scope="module")
def wanted(place):
    with sd.open(WAYS["absolute"](place)).connect() as free:
        credit = compute_credit(free, open_method("sera"))
        assert len(credit.rows) > 0
        return credit.sha256


@pytest.mark.parametrize("way", WAYS)
def test_the_shipped_rules_run_on_a_confined_connection(place, wanted, way):
    with sd.open(WAYS[way](place)).connect(files="own") as confined:
        assert compute_credit(confined, open_method("sera")).sha256 == wanted


STOLEN = {
    "csv": lambda store: f"read_csv({quoted(store.parent / 'secret.csv')})",
    "text": lambda _: "read_text('/etc/passwd')",
    "dots": lambda store: f"read_text({quoted(store / 'epochs/../../secret.csv')})",
    "document": lambda store: f"read_text({quoted(store / 'store.json')})",
    "glob": lambda _: "glob('/*')",
    "query": lambda _: "query('from read_text(''/etc/passwd'')')",
    "bare": lambda _: "'/etc/passwd'",
}


@pytest.mark.parametrize(
    "stolen,way", [*((stolen, "symlink") for stolen in STOLEN), *(("dots", way) for way in WAYS if way != "symlink")]
)
def test_a_credit_file_reads_no_other_file(place, tmp_path, capsys, way, stolen):
    store = WAYS[way](place)
    credit = tmp_path / "mine.sql"
    credit.write_text(f"select * from {STOLEN[stolen](store)}")
    assert main(["credit", str(store), "--credit", str(credit)]) == 2
    err = capsys.readouterr().err
    assert "sesame" not in err
    assert "Permission Error" in err or "does not exist" in err


def test_a_credit_file_cannot_undo_it(place):
    with sd.open(place / "link").connect(files="own") as connection:
        for setting in ("enable_external_access = true", "allowed_directories = ['/']", "memory_limit = '1GB'"):
            with pytest.raises(duckdb.InvalidInputException):
                connection.execute(f"set {setting}")
        with pytest.raises(duckdb.PermissionException):
            connection.execute("attach '/tmp/other.db'")
        assert connection.sql("select count(*) > 0 from turns").fetchall() == [(True,)]
