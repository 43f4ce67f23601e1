"""A read that fails blames the file when the file is damaged, and the query when it is not."""

import shutil

import pytest

import sera_data as sd
from sera_data import damage
from sera_data.cli import main
from sera_data.errors import StoreError
from tests.sera_data.object_server import copied, file_at, on_disk
from tests.sera_data.small_store import small_store


@pytest.fixture(scope="module")
def original(new_place):
    """One sealed epoch and one open shard."""
    store = small_store(new_place("damage") / "s", tasks=1, samples=1, k=2)
    small_store(store.path, tasks=1, samples=1, k=2, sealed=False, run_id="open-1")
    return store.path


@pytest.fixture
def path(original, place):
    return copied(original, place / "copy")


def footer(data):
    data[-20] ^= 0xFF


def pages(data):
    for index in range(8, len(data) - 200, 40):
        data[index] ^= 0xA5


def zeros(data):
    data[:] = bytes(len(data))


COMMANDS = [
    ["data", "sql", "PATH", "select * from turns join nodes using (node_id)"],
    ["credit", "PATH"],
    ["audit", "PATH", "--json", "--reps", "0"],
]


def is_blamed(path, capsys, command, harm, damaged):
    file = file_at(path, damaged)
    data = bytearray(file.read_bytes())
    harm(data)
    file.write_bytes(bytes(data))
    assert main([str(path) if word == "PATH" else word for word in command]) == 1
    assert f"{file} is damaged: its sha256 is not the recorded" in capsys.readouterr().err


@pytest.mark.parametrize("damaged", ["epochs/e000000/nodes.parquet", "shards/e000001.u0000/turns.parquet"])
def test_a_damaged_file_is_a_fault_wherever_it_lies(path, capsys, damaged):
    is_blamed(path, capsys, COMMANDS[0], footer, damaged)


@on_disk("the commands read through one connection; the test before shows it elsewhere")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
@pytest.mark.parametrize("harm", [footer, pages, zeros], ids=lambda h: h.__name__)
@pytest.mark.parametrize("damaged", ["epochs/e000000/nodes.parquet", "shards/e000001.u0000/turns.parquet"])
def test_a_damaged_file_is_a_fault_and_named(path, capsys, command, harm, damaged):
    is_blamed(path, capsys, command, harm, damaged)


@pytest.mark.parametrize(
    "query", ["select nothing from nodes", "select * from nope", "selec 1", "select cast(goal as int) from nodes"]
)
def test_a_wrong_query_on_sound_files_is_a_usage_error(path, capsys, query):
    assert main(["data", "sql", str(path), query]) == 2
    assert "query failed" in capsys.readouterr().err


def test_a_typing_error_reads_no_file(path, capsys, monkeypatch):
    """A store may be large: only a query that failed while it read is worth hashing the files for."""
    monkeypatch.setattr(damage, "sha256_file", lambda _: pytest.fail("a file was hashed"))
    assert main(["data", "sql", str(path), "select nothing from nodes"]) == 2
    assert main(["data", "sql", str(path), "select cast(3 as varchar) from nodes limit 1"]) == 0


def test_a_flipped_bit_is_never_sealed(path):
    file = file_at(path, "shards/e000001.u0000/turns.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    store = sd.open(path)
    with pytest.raises(StoreError, match=r"turns[.\w]*\.parquet is damaged.*remove shards/e000001\.u0000 and run"):
        sd.seal(store, "e000001")
    assert store.sealed_names() == ["e000000"]
    assert list(store.layout.staging.iterdir()) == []


@on_disk("it removes a directory")
def test_a_connection_whose_files_are_gone_says_so(path):
    connection = sd.open(path).connect()
    shutil.rmtree(path / "shards/e000001.u0000")
    with pytest.raises(StoreError, match=r"is missing \(hint: open the store again"):
        damage.require_sound(connection)
