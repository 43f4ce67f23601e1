"""A port for a server that is told its number before it starts."""

import contextlib
import os
import socket


def free_port():
    """A free one below those that the system hands out by itself, so that nobody is given it in the meantime.

    Processes of neighbouring ids, which look for one at the same time, begin far from each other.
    """
    for port in range(20_000 + os.getpid() * 97 % 10_000, 32_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    msg = "no port between 20000 and 32000 is free"
    raise OSError(msg)
