"""A signal ends a query that would never end, whatever the query's library makes of it."""

import os
import signal
import threading

import duckdb
import pytest

from sera_data import cli, stops
from sera_data.duck import connect_empty
from sera_data.stops import Stopped, Stops

ENDLESS = "select sum(a.range * b.range * c.range) from range(1000000) a, range(1000000) b, range(1000000) c"
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGUSR1: signal.SIG_DFL}
CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 75), (signal.SIGUSR1, 75)]


@pytest.fixture(autouse=True)
def defaults():
    """As in a shell's foreground: test runners that work side by side ignore Ctrl-C, and what is ignored stays so."""
    before = {number: signal.signal(number, handler) for number, handler in DEFAULTS.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), CODES)
def test_an_endless_query_of_a_user_ends(sealed, monkeypatch, capsys, number, code):
    def struck(connection):
        threading.Thread(target=os.kill, args=(os.getpid(), number)).start()
        return stops.interruptible(connection)

    monkeypatch.setattr("sera_data.duck.interruptible", struck)
    assert cli.main(["data", "sql", str(sealed.path), ENDLESS]) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("error: interrupted" if code == 130 else f"error: stopped by {number.name}")


def test_the_signal_of_a_swallowed_stop_is_known(monkeypatch, capsys):
    def app(**_):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Stopped:
            msg = "Query interrupted"
            raise RuntimeError(msg) from None

    monkeypatch.setattr(cli, "commands", lambda: {"boom": type("Entry", (), {"load": lambda self: app})()})
    assert cli.main(["boom"]) == 75
    assert capsys.readouterr().err.startswith("error: stopped by SIGTERM")


def test_every_connection_is_interrupted_until_the_block_ends():
    with Stops().active():
        first, second = connect_empty(), connect_empty()
        first.close()
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(duckdb.InterruptException):
                second.sql(ENDLESS).fetchall()
    assert second.sql("select 1").fetchall() == [(1,)]


def test_handlers_and_wakeup_are_as_before_and_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        handlers = [signal.getsignal(number) for number in stops.NUMBERS]
        with Stops().active():
            os.kill(os.getpid(), signal.SIGUSR1)
            assert signal.getsignal(signal.SIGTERM) not in handlers
        assert [signal.getsignal(number) for number in stops.NUMBERS] == handlers
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_does_not_wake_its_parent():
    with Stops().active():
        child = os.fork()
        if child == 0:
            os._exit(signal.set_wakeup_fd(-1) + 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
