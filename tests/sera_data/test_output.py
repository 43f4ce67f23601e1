"""Files that a command writes for its user: whole, or as they were before."""

import errno
import os
from pathlib import Path

import pytest

from sera_data.errors import StoreError
from sera_data.output import output_file, write_output


def test_text_and_bytes_replace_what_was_there(tmp_path):
    path = tmp_path / "made" / "rows.csv"
    write_output(path, "a\nä\r\n")
    assert path.read_bytes() == "a\nä\r\n".encode()
    write_output(path, b"b")
    assert [(p.name, p.read_bytes()) for p in path.parent.iterdir()] == [("rows.csv", b"b")]


def half(path):
    with output_file(path) as aside:
        aside.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_named_with_the_file_and_leaves_no_half(tmp_path):
    path = tmp_path / "rows.csv"
    write_output(path, "old")
    with pytest.raises(StoreError, match=r"rows\.csv was not written: the disk is full"):
        half(path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("rows.csv", "old")]


def test_a_link_keeps_pointing_and_a_device_is_written_as_it_is(tmp_path):
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_output(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_output(Path(os.devnull), "anything")
    assert Path(os.devnull).is_char_device()
