"""Requests of the same moment: who goes with whom, and that nobody is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headwater.server.fast.batches import MOST_UNDER_WAY, Batch
from headwater.storage.errors import Unavailable

# Nobody waits so long: whatever begins does so because it is due.
FOR_EVER = 3_600.0
AT_ONCE = 0.001


class Work:
    """Does what it is given when it is told to, and remembers it."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self._gates: list[asyncio.Future[None]] = []

    async def __call__(self, keys: Sequence[int]) -> Sequence[str | None]:
        self.begun.append(list(keys))
        gate = asyncio.get_running_loop().create_future()
        self._gates.append(gate)
        await gate
        return [f"done {key}" for key in keys]

    async def finish(self, at: int, error: Exception | None = None) -> None:
        while len(self._gates) <= at:
            await asyncio.sleep(0)
        if error is None:
            self._gates[at].set_result(None)
        else:
            self._gates[at].set_exception(error)


async def _asked(batch: Batch[int, str], *keys: int) -> list[asyncio.Task[str | None]]:
    tasks = [asyncio.create_task(batch.get(key)) for key in keys]
    await asyncio.sleep(0)
    return tasks


def test_what_comes_meanwhile_goes_together() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(work, most=3, patience_seconds=FOR_EVER)
        first = await _asked(batch, 1)
        others = await _asked(batch, 2, 3, 4, 5)
        for at in range(3):
            await work.finish(at)
        answers = await asyncio.gather(*first, *others)
        assert work.begun == [[1], [2, 3, 4], [5]]
        assert answers == ["done 1", "done 2", "done 3", "done 4", "done 5"]

    asyncio.run(scenario())


def test_those_who_come_again_go_with_those_who_wait() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(
            work, most=8, linger_seconds=FOR_EVER, patience_seconds=FOR_EVER
        )
        first = await _asked(batch, 1)
        others = await _asked(batch, 2, 3)
        await work.finish(0)
        assert await first[0] == "done 1"
        assert work.begun == [[1]]
        again = await _asked(batch, 1)
        await work.finish(1)
        await asyncio.gather(*others, *again)
        assert work.begun == [[1], [2, 3, 1]]

    asyncio.run(scenario())


def test_one_who_is_alone_waits_for_nobody() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(
            work, most=8, linger_seconds=FOR_EVER, patience_seconds=FOR_EVER
        )
        for at in range(3):
            asked = await _asked(batch, at)
            await work.finish(at)
            assert await asked[0] == f"done {at}"

    asyncio.run(scenario())


def test_those_who_do_not_come_again_are_not_waited_for() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(
            work, most=8, linger_seconds=AT_ONCE, patience_seconds=FOR_EVER
        )
        first = await _asked(batch, 1)
        others = await _asked(batch, 2, 3)
        await work.finish(0)
        await work.finish(1)
        await asyncio.gather(*first, *others)
        late = await _asked(batch, 4)
        await work.finish(2)
        assert await late[0] == "done 4"

    asyncio.run(scenario())


def test_what_fails_is_left_to_others_and_stops_nobody() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(work, most=8, patience_seconds=FOR_EVER)
        first = await _asked(batch, 1)
        others = await _asked(batch, 2, 3)
        others[0].cancel()
        await work.finish(0, RuntimeError("broken"))
        assert await first[0] is None
        await work.finish(1)
        assert await others[1] == "done 3"
        with pytest.raises(asyncio.CancelledError):
            await others[0]

    asyncio.run(scenario())


def test_one_that_takes_long_holds_up_nobody_else() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(
            work, most=8, linger_seconds=FOR_EVER, patience_seconds=AT_ONCE
        )
        slow = await _asked(batch, 1)
        others = await _asked(batch, 2, 3)
        await work.finish(1)
        assert await asyncio.gather(*others) == ["done 2", "done 3"]
        assert not slow[0].done()
        await work.finish(0)
        assert await slow[0] == "done 1"

    asyncio.run(scenario())


def test_only_so_many_may_take_long() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(work, most=1, patience_seconds=AT_ONCE)
        slow = await _asked(batch, *range(MOST_UNDER_WAY + 1))
        while len(work.begun) < MOST_UNDER_WAY:
            await asyncio.sleep(0)
        # Whoever would begin now has had the time to.
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert len(work.begun) == MOST_UNDER_WAY
        await work.finish(3)
        await work.finish(MOST_UNDER_WAY)
        assert await slow[MOST_UNDER_WAY] == f"done {MOST_UNDER_WAY}"
        for at in {*range(MOST_UNDER_WAY)} - {3}:
            await work.finish(at)
        await asyncio.gather(*slow)

    asyncio.run(scenario())


def test_who_waits_no_more_is_left_out() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(work, most=3, patience_seconds=FOR_EVER)
        first = await _asked(batch, 1)
        gone, given_up = await _asked(batch, 2), asyncio.create_task(batch.get(3, lambda: False))
        stays = asyncio.create_task(batch.get(4, lambda: True))
        await asyncio.sleep(0)
        gone[0].cancel()
        await work.finish(0)
        await work.finish(1)
        assert [await first[0], await stays] == ["done 1", "done 4"]
        assert work.begun == [[1], [4]]
        given_up.cancel()

    asyncio.run(scenario())


def test_nobody_waits_behind_batches_that_are_stuck() -> None:
    async def scenario() -> None:
        work = Work()
        batch: Batch[int, str] = Batch(work, most=1, patience_seconds=AT_ONCE, longest_seconds=-1)
        asked = [(await _asked(batch, number))[0] for number in range(MOST_UNDER_WAY)]
        while len(work.begun) < MOST_UNDER_WAY:
            await asyncio.sleep(AT_ONCE)
        with pytest.raises(Unavailable, match="nothing was done"):
            await batch.get(99)
        await work.finish(0)
        await asked[0]
        await asyncio.sleep(0)
        again = await _asked(batch, 100)
        for at in range(1, MOST_UNDER_WAY + 1):
            await work.finish(at)
        assert await asyncio.gather(*asked, *again) == [
            *(f"done {number}" for number in range(MOST_UNDER_WAY)),
            "done 100",
        ]
        assert [99] not in work.begun

    asyncio.run(scenario())
