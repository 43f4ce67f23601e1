"""The queue of parallel agents: one turn each, in the order of arrival, cancellation included."""

import asyncio
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from collect.rounds import Rounds


def played(turns, *, waits=()):
    """Who acted when, if agent i takes `turns[i]` turns and dawdles `waits[i]` loop turns before each."""
    order = []

    async def agent(rounds, name, count):
        seat = rounds.seat()
        for _ in range(count):
            await seat.take()
            for _ in range(waits[name] if name < len(waits) else 0):
                await asyncio.sleep(0)
            order.append(name)
            seat.give()

    async def run():
        rounds = Rounds()
        await asyncio.gather(*(agent(rounds, name, count) for name, count in enumerate(turns)))

    asyncio.run(run())
    return order


@given(st.lists(st.integers(0, 5), max_size=5), st.lists(st.integers(0, 4), max_size=5))
def test_agents_act_round_robin_whatever_they_wait_for(turns, waits):
    expected = [name for k in range(max(turns, default=0)) for name, count in enumerate(turns) if k < count]
    assert played(turns, waits=waits) == expected


def test_a_seat_is_held_until_it_is_given():
    async def run():
        rounds = Rounds()
        first, second = rounds.seat(), rounds.seat()
        await first.take()
        await first.take()
        waiting = asyncio.create_task(second.take())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        first.give()
        first.give()
        await waiting
        second.give()

    asyncio.run(run())


def test_a_cancelled_agent_hands_the_turn_on():
    async def run():
        rounds = Rounds()
        seats = [rounds.seat() for _ in range(3)]
        await seats[0].take()
        tasks = [asyncio.create_task(seat.take()) for seat in seats[1:]]
        await asyncio.sleep(0)
        seats[0].give()
        tasks[0].cancel()
        with suppress(asyncio.CancelledError):
            await tasks[0]
        await asyncio.wait_for(tasks[1], 5)

    asyncio.run(run())
