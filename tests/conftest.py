"""What all tests share."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """Runners that work side by side ignore Ctrl-C, and what is ignored stays so in a command and its children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
