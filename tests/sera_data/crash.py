"""A disk that fails at its n-th call, for crash tests.

`FailingDisk(at=n, fault=...)` patches every call by which the store changes the disk (make, open, write, sync, rename,
link, remove). The n-th call raises; a write first puts half of its bytes on the disk. With `fault=Crash` every later
call raises too, as if the process were dead; with an OSError factory only that one call fails, as on a full disk.
"""

import io
import os
import pathlib
import shutil


class Crash(BaseException):
    """The process is gone: no handler of the code under test may catch this."""


class FailingDisk:
    def __init__(self, monkeypatch, *, at=None, fault=Crash):
        self.at, self.fault, self.calls, self.dead = at, fault, 0, False
        plain_open, disk = pathlib.Path.open, self

        class File(io.FileIO):
            def write(self, data):
                if disk.fails():
                    super().write(memoryview(data).cast("B")[: len(memoryview(data).cast("B")) // 2])
                    raise disk.fault()
                return super().write(data)

        def opened(path, mode="r", *args, **kwargs):
            if "x" not in mode:
                return plain_open(path, mode, *args, **kwargs)
            self.step()
            return File(path, "xb")

        monkeypatch.setattr(pathlib.Path, "open", opened)
        for place, name in (
            (pathlib.Path, "mkdir"),
            (os, "fsync"),
            (os, "rename"),
            (os, "link"),
            (shutil, "rmtree"),
        ):
            monkeypatch.setattr(place, name, self.wrapped(getattr(place, name)))

    def fails(self):
        """Count a call; True when it must fail."""
        if self.dead:
            return True
        self.calls += 1
        if self.at is not None and self.calls == self.at:
            self.dead = self.fault is Crash
            return True
        return False

    def step(self):
        if self.fails():
            raise self.fault()

    def wrapped(self, call):
        def guarded(*args, **kwargs):
            self.step()
            return call(*args, **kwargs)

        return guarded
