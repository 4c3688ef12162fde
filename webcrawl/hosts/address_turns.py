"""The turns of IP addresses over all names, workers and crawls (POLITENESS_ADDRESS_CONNECTIONS, _DELAY).

A request calls `enter`, which waits without a connection until a window for its address is near. The request then
connects, and calls `begin` right before it is sent. `end` follows in any case.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext

from webcrawl.config import AddressConfig
from webcrawl.errors import LongWait
from webcrawl.hosts.address_slot import AddressSlot
from webcrawl.hosts.address_turn import LEAD, AddressTurn, Ask, Grant, turn_of
from webcrawl.hosts.networks import Networks

_LONGEST_READY = 5.0
"""The longest time in seconds that a request waits on an open connection."""
_LOOK_AGAIN_SECONDS = 1.0
_HASTE = 0.7
"""Hosts that were put off return a little faster than requests are sent, so that the address is never idle."""
_EXTENSIONS = 4
_USABLE = 0.8
"""Requests may be sent in this share of the time for which connections are kept; the rest is for the last response."""
_SLOTS_KEPT = 10_000

Asking = Callable[[Ask], Awaitable[tuple[Grant, float]]]
"""Asks the engine; returns the grant, and the monotonic time before the engine was asked. Raises EngineUnavailable."""


class AddressTurns:
    """The turns of one worker at IP addresses. A request is known by a key, which may be any object.

    `held_seconds`: how long the engine keeps the connections of a dead worker. `longest_wait`: seconds; a host that
    would wait for longer is given back instead.
    """

    def __init__(
        self,
        config: AddressConfig,
        exceptions: Networks,
        held_seconds: float,
        longest_wait: float = 10.0,
    ) -> None:
        self.config = config
        self.ask: Asking
        """Set when the engine is connected."""
        self._exceptions = exceptions
        self._hold_seconds = held_seconds / _EXTENSIONS
        self._usable_seconds = _USABLE * held_seconds
        self._longest_wait = min(longest_wait, held_seconds / 2)
        self._slots: OrderedDict[str, AddressSlot] = OrderedDict()
        self._requests: dict[Hashable, AddressSlot] = {}
        self._sent: dict[Hashable, AddressSlot] = {}
        self._quiet_until = 0.0
        self._extending: asyncio.Task[None] | None = None

    def limits(self, address: str) -> bool:
        """Whether requests to an address have to wait for its turn."""
        return not self._exceptions.covers(address)

    async def enter(
        self, key: Hashable, address: str, ending: asyncio.Event, *, may_be_put_off: bool = False
    ) -> None:
        """Waits until a request may connect. Returns early if `ending` is set, which the caller must check.

        Raises EngineUnavailable; with `may_be_put_off` also LongWait, if the request would wait for long.
        """
        slot = self._slot(address)
        if may_be_put_off:
            self._check_wait(slot)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slot.queue.append((key, admitted))
        self._requests[key] = slot
        self._drive(slot)
        try:
            while not (admitted.done() or ending.is_set()):
                await asyncio.wait([admitted], timeout=_LOOK_AGAIN_SECONDS)
            if admitted.done():
                admitted.result()
        except BaseException:
            self.leave(key)
            raise
        finally:
            if not admitted.done():
                admitted.cancel()
                slot.queue.remove((key, admitted))

    def leave(self, key: Hashable) -> None:
        """Withdraws a request that was not sent."""
        if slot := self._requests.pop(key, None):
            slot.ahead.pop(key, None)
            slot.wake()

    async def begin(
        self,
        key: Hashable,
        address: str | None,
        aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Waits until a request may be sent; the caller must send it at once.

        `address`: the address of the open connection, if known. `aside`: makes the context of a long wait. Raises
        LongWait if the request waits too long, and EngineUnavailable.
        """
        slot = self._requests.get(key)
        if slot is not None and address is not None and turn_of(address) != slot.address:
            self.leave(key)
            if not self.limits(address):
                return
            slot = self._requests[key] = self._slot(address)
        if slot is None:
            return
        began = now = time.monotonic()
        slot.ready += 1
        slot.ahead.pop(key, None)
        try:
            while not slot.turn.may_start(now):
                if now - began > _LONGEST_READY:
                    raise LongWait(slot.address, slot.pace)
                self._drive(slot)
                until = min(slot.turn.ready_at(), now + LEAD)
                async with aside() if now - began > LEAD else nullcontext():
                    await slot.wait(until)
                now = time.monotonic()
        finally:
            slot.ready -= 1
            self._requests.pop(key, None)
        slot.turn.start(now)
        slot.sent += 1
        self._sent[key] = slot
        slot.wake()

    def written(self, key: Hashable) -> None:
        """Records that a request is written; the delay begins now."""
        if slot := self._sent.get(key):
            slot.turn.written(time.monotonic())

    def end(self, key: Hashable) -> None:
        """Ends a request, whether it was sent or not."""
        self.leave(key)
        if slot := self._sent.pop(key, None):
            slot.turn.finish()
            slot.wake()
            if slot.turn.connections:
                self._drive(slot)

    def wake(self) -> None:
        """Wakes all waiting requests, so that they notice the end of the crawl."""
        for slot in self._slots.values():
            for _, admitted in slot.queue:
                if not admitted.done():
                    admitted.set_result(None)
            slot.queue.clear()
            slot.wake()

    def engine_restarted(self, seconds: float) -> None:
        """Reserves no window for some seconds: the engine may have forgotten the windows of other workers."""
        self._quiet_until = time.monotonic() + seconds
        for slot in self._slots.values():
            slot.turn.forget()
            slot.wake()
        if self._extending is not None:
            self._extending.cancel()
            self._extending = asyncio.ensure_future(self._extend(0.0))

    async def close(self) -> None:
        """Ends all waiting requests."""
        tasks = [slot.driver for slot in self._slots.values() if slot.driver]
        tasks += [self._extending] if self._extending else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _slot(self, address: str) -> AddressSlot:
        name = turn_of(address)
        slot = self._slots.get(name)
        if slot is None:
            turn = AddressTurn(self.config.delay, self.config.connections)
            slot = self._slots[name] = AddressSlot(name, turn, pace=self.config.delay)
            if len(self._slots) > _SLOTS_KEPT:
                oldest = next(iter(self._slots.values()))
                self._slots.move_to_end(oldest.address)
                if oldest.is_idle:
                    del self._slots[oldest.address]
        return slot

    def _check_wait(self, slot: AddressSlot) -> None:
        """Raises LongWait if a further request would wait for long. Hosts so put off return at the address's pace."""
        if not slot.queue or (len(slot.queue) + 1) * slot.pace <= self._longest_wait:
            return
        now = time.monotonic()
        slot.put_off = max(slot.put_off, now + self._longest_wait) + _HASTE * slot.pace
        raise LongWait(slot.address, slot.put_off - now)

    def _drive(self, slot: AddressSlot) -> None:
        """Makes sure that windows are reserved while requests wait."""
        if slot.driver is None:
            slot.driver = asyncio.ensure_future(self._reserve_windows(slot))

    async def _reserve_windows(self, slot: AddressSlot) -> None:
        """Reserves windows while requests wait, and then returns the connections that are not in use."""
        turn = slot.turn
        try:
            while slot.waiting or (turn.connections and turn.held > turn.in_flight):
                now = time.monotonic()
                if not slot.waiting:
                    await self._ask(slot, turn.ask_connections(slot.address, 0))
                elif not turn.is_over(now):
                    await self._use_window(slot, now)
                elif now < self._quiet_until:
                    await slot.wait(self._quiet_until)
                else:
                    await self._ask(slot, turn.ask(slot.address, slot.waiting, now))
        except Exception as error:
            self._fail(slot, error)
        finally:
            slot.driver = None

    async def _use_window(self, slot: AddressSlot, now: float) -> None:
        """Lets requests connect when it is time, and waits until the next event of the window."""
        turn = slot.turn
        if now >= turn.begins and turn.is_full and turn.held < turn.connections:
            await self._ask(slot, turn.ask_connections(slot.address, slot.waiting))
        if now >= turn.begins - LEAD:
            slot.admit(now)
        await slot.wait(slot.next_look(time.monotonic()))

    async def _ask(self, slot: AddressSlot, ask: Ask) -> None:
        turn = slot.turn
        begun, ended = turn.begins, max(turn.begins, turn.ends)
        turn.asks(ask)
        grant, asked = await self.ask(ask)
        turn.take(ask, grant, asked, time.monotonic(), self._usable_seconds)
        if ask.length is not None:
            slot.note_window(turn.begins - begun if asked - ended < LEAD else None)
        if turn.connections and self._extending is None:
            self._extending = asyncio.ensure_future(self._extend(self._hold_seconds))
        slot.wake()

    async def _extend(self, pause: float) -> None:
        """Renews the hold on connections in use, so that no other worker gets them; begins after a pause."""
        while True:
            await asyncio.sleep(pause)
            pause = self._hold_seconds
            busy = [slot for slot in self._slots.values() if slot.turn.in_flight]
            asks = [self._ask(slot, slot.turn.ask_connections(slot.address, 0)) for slot in busy]
            await asyncio.gather(*asks, return_exceptions=True)

    def _fail(self, slot: AddressSlot, error: Exception) -> None:
        """Passes an error on to the requests that wait."""
        for _, admitted in slot.queue:
            if not admitted.done():
                admitted.set_exception(error)
        slot.queue.clear()
        slot.wake()
