"""Signals: the first decides, one that follows at once is the same stop, a later one strikes again."""

import contextlib
import os
import signal

import pytest

from collect import interruption as module
from collect.interruption import Interrupted, Interruption
from sera_data.errors import Preempted


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, Interrupted), (signal.SIGTERM, Preempted), (signal.SIGUSR1, Preempted)]
)
def test_a_signal_raises_its_error_and_the_handlers_are_put_back(number, error):
    before = signal.getsignal(number)
    with pytest.raises(error, match="the same command continues"), Interruption().active():
        send(number)
    assert signal.getsignal(number) is before


def strike(first, second, cleaned):
    """A signal, and another one while the first one's end is cleaning up."""
    with Interruption().active():
        try:
            send(first)
        finally:
            send(second)
            cleaned.append(second)


def test_the_parents_signal_after_the_terminals_does_not_break_the_clean_end():
    cleaned = []
    with pytest.raises(Interrupted):
        strike(signal.SIGINT, signal.SIGTERM, cleaned)
    assert cleaned == [signal.SIGTERM]


def test_a_later_signal_strikes_again(monkeypatch):
    monkeypatch.setattr(module, "SAME_STOP_S", 0.0)
    cleaned = []
    with pytest.raises(Interrupted):
        strike(signal.SIGINT, signal.SIGINT, cleaned)
    assert cleaned == []


def in_a_block(number, catching, *, inner=False):
    """What was reached after a signal that something took for its own fault."""
    reached = []
    with pytest.raises((Interrupted, Preempted)), Interruption().active():
        swallow(number, catching, reached, inner=inner)
    return reached


def swallow(number, catching, reached, *, inner):
    with contextlib.suppress(catching):
        send(number)
        reached.append("what follows")
    reached.append("the end")
    if inner:
        with Interruption().active():
            reached.append("another phase")


def test_a_swallowed_stop_comes_where_the_block_is_left_or_the_next_one_entered():
    assert in_a_block(signal.SIGINT, BaseException) == ["the end"]
    assert in_a_block(signal.SIGTERM, BaseException, inner=True) == ["the end"]


def test_what_the_handler_raises_is_no_fault_that_a_library_catches():
    assert in_a_block(signal.SIGINT, Exception) == []


def test_between_steps_a_signal_waits_and_a_second_ctrl_c_does_not(monkeypatch):
    monkeypatch.setattr(module, "SAME_STOP_S", 0.0)
    reached = []

    def steps(interruption):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            send(number)
            reached.append((number, interruption.number))
        send(signal.SIGINT)
        reached.append("a second Ctrl-C went by")

    with pytest.raises(Interrupted), Interruption().active() as interruption, interruption.between_steps():
        steps(interruption)
    assert reached == [(number, signal.SIGINT) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
