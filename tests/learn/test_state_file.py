"""Files that are replaced whole, whatever a killed process left beside them."""

import errno
from pathlib import Path

import pytest

from learn import state_file as module
from learn.state_file import read_object, replace_file
from sera_data.errors import SeraError


def test_the_leftover_of_a_killed_process_is_no_obstacle(tmp_path):
    path = tmp_path / "loop.json"
    (tmp_path / ".loop.json").write_text("half")  # killed between the write and the rename
    for data in (b"one", b"two"):
        replace_file(path, data)
        assert path.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == ["loop.json"]


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "loop.json"
    replace_file(path, b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", full)
        with pytest.raises(SeraError, match=r"loop\.json was not written: the disk is full"):
            replace_file(path, b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("loop.json", b"old")]
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "cannot be read"), (b"{", "cannot be read"), (b"\xff", "cannot"), (b"[]", "got list")]
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path, content, says):
    path = Path(tmp_path / "loop.json")
    path.write_bytes(content)
    with pytest.raises(SeraError, match=rf"loop\.json.*{says}.*the way out"):
        read_object(path, hint="the way out")
