"""The turns of IP addresses over all names, workers and crawls (POLITENESS_ADDRESS_CONNECTIONS, _DELAY).

A request `enter`s, which makes it wait without a connection until a window of time for its address is near; it then
connects, and `begin`s right before it is sent. `end` follows in any case.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext

from webcrawl.config import AddressConfig
from webcrawl.errors import LongWait
from webcrawl.hosts.address_place import Place
from webcrawl.hosts.address_turn import LEAD, AddressTurn, Ask, Grant, turn_of
from webcrawl.hosts.networks import Networks

_LONGEST_READY = 5.0
"""Seconds for which a request waits on an open connection."""
_LOOK_AGAIN_SECONDS = 1.0
_HASTE = 0.7
"""Hosts that were put off come a little faster than requests are sent, so that the address is never idle."""
_EXTENSIONS = 4
_USABLE = 0.8
"""Share of the time for which connections are kept in which requests may be sent; the rest is for the last response."""
_PLACES_KEPT = 10_000

Asking = Callable[[Ask], Awaitable[tuple[Grant, float]]]
"""Asks the engine; returns what it gives, and the monotonic time before it was asked. Raises EngineUnavailable."""


class AddressTurns:
    """The turns of addresses of one worker. Requests are known by any key of theirs.

    `held_seconds`: how long the engine keeps the connections of a dead worker; `longest_wait`: seconds after which a
    host is better given back than kept waiting.
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
        self._places: OrderedDict[str, Place] = OrderedDict()
        self._requests: dict[Hashable, Place] = {}
        self._sent: dict[Hashable, Place] = {}
        self._quiet_until = 0.0
        self._extending: asyncio.Task[None] | None = None

    def limits(self, address: str) -> bool:
        """Whether requests to an address have to wait for its turn."""
        return not self._exceptions.covers(address)

    async def enter(
        self, key: Hashable, address: str, ending: asyncio.Event, *, may_be_put_off: bool = False
    ) -> None:
        """Waits until a request may connect. If `ending` is set meanwhile, it returns, and the caller has to look.

        Raises EngineUnavailable; with `may_be_put_off` also LongWait, if the request would wait for long.
        """
        place = self._place(address)
        if may_be_put_off:
            self._check_wait(place)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place.queue.append((key, admitted))
        self._requests[key] = place
        self._drive(place)
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
                place.queue.remove((key, admitted))

    def leave(self, key: Hashable) -> None:
        """Withdraws a request that was not sent."""
        if place := self._requests.pop(key, None):
            place.ahead.pop(key, None)
            place.wake()

    async def begin(
        self,
        key: Hashable,
        address: str | None,
        aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Waits until a request may be sent, which it must be at once.

        `address`: the one it is connected to, if that is known. It is `aside` while its time is not near. Raises
        LongWait if it waits too long, and EngineUnavailable.
        """
        place = self._requests.get(key)
        if place is not None and address is not None and turn_of(address) != place.address:
            self.leave(key)
            if not self.limits(address):
                return
            place = self._requests[key] = self._place(address)
        if place is None:
            return
        began = now = time.monotonic()
        place.ready += 1
        place.ahead.pop(key, None)
        try:
            while not place.turn.may_start(now):
                if now - began > _LONGEST_READY:
                    raise LongWait(place.address, place.pace)
                self._drive(place)
                until = min(place.turn.ready_at(), now + LEAD)
                async with aside() if now - began > LEAD else nullcontext():
                    await place.wait(until)
                now = time.monotonic()
        finally:
            place.ready -= 1
            self._requests.pop(key, None)
        place.turn.start(now)
        place.sent += 1
        self._sent[key] = place
        place.wake()

    def written(self, key: Hashable) -> None:
        """Records that a request is written; the delay counts from then."""
        if place := self._sent.get(key):
            place.turn.written(time.monotonic())

    def end(self, key: Hashable) -> None:
        """Ends a request, whether it was sent or not."""
        self.leave(key)
        if place := self._sent.pop(key, None):
            place.turn.finish()
            place.wake()
            if place.turn.connections:
                self._drive(place)

    def wake(self) -> None:
        """Lets all requests look whether the crawl ends."""
        for place in self._places.values():
            for _, admitted in place.queue:
                if not admitted.done():
                    admitted.set_result(None)
            place.queue.clear()
            place.wake()

    def engine_restarted(self, seconds: float) -> None:
        """Reserves no window for so many seconds: the engine may not know those of other workers."""
        self._quiet_until = time.monotonic() + seconds
        for place in self._places.values():
            place.turn.forget()
            place.wake()
        if self._extending is not None:
            self._extending.cancel()
            self._extending = asyncio.ensure_future(self._extend(0.0))

    async def close(self) -> None:
        """Ends all that waits."""
        tasks = [place.driver for place in self._places.values() if place.driver]
        tasks += [self._extending] if self._extending else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _place(self, address: str) -> Place:
        name = turn_of(address)
        place = self._places.get(name)
        if place is None:
            turn = AddressTurn(self.config.delay, self.config.connections)
            place = self._places[name] = Place(name, turn, pace=self.config.delay)
            if len(self._places) > _PLACES_KEPT:
                oldest = next(iter(self._places.values()))
                self._places.move_to_end(oldest.address)
                if oldest.is_idle:
                    del self._places[oldest.address]
        return place

    def _check_wait(self, place: Place) -> None:
        """Raises LongWait if a further request would wait for long. Such hosts come again at the address's pace."""
        if not place.queue or (len(place.queue) + 1) * place.pace <= self._longest_wait:
            return
        now = time.monotonic()
        place.put_off = max(place.put_off, now + self._longest_wait) + _HASTE * place.pace
        raise LongWait(place.address, place.put_off - now)

    def _drive(self, place: Place) -> None:
        """Makes sure that windows are reserved while requests wait."""
        if place.driver is None:
            place.driver = asyncio.ensure_future(self._reserve_windows(place))

    async def _reserve_windows(self, place: Place) -> None:
        """Reserves windows while requests wait, and then returns the connections that are not in use."""
        turn = place.turn
        try:
            while place.waiting or (turn.connections and turn.held > turn.in_flight):
                now = time.monotonic()
                if not place.waiting:
                    await self._ask(place, turn.ask_connections(place.address, 0))
                elif not turn.is_over(now):
                    await self._use_window(place, now)
                elif now < self._quiet_until:
                    await place.wait(self._quiet_until)
                else:
                    await self._ask(place, turn.ask(place.address, place.waiting, now))
        except Exception as error:
            self._fail(place, error)
        finally:
            place.driver = None

    async def _use_window(self, place: Place, now: float) -> None:
        """Lets requests connect when it is time, and waits until something may happen."""
        turn = place.turn
        if now >= turn.begins and turn.is_full and turn.held < turn.connections:
            await self._ask(place, turn.ask_connections(place.address, place.waiting))
        if now >= turn.begins - LEAD:
            place.admit(now)
        await place.wait(place.next_look(time.monotonic()))

    async def _ask(self, place: Place, ask: Ask) -> None:
        turn = place.turn
        begun, ended = turn.begins, max(turn.begins, turn.ends)
        turn.asks(ask)
        grant, asked = await self.ask(ask)
        turn.take(ask, grant, asked, time.monotonic(), self._usable_seconds)
        if ask.length is not None:
            place.note_window(turn.begins - begun if asked - ended < LEAD else None)
        if turn.connections and self._extending is None:
            self._extending = asyncio.ensure_future(self._extend(self._hold_seconds))
        place.wake()

    async def _extend(self, pause: float) -> None:
        """Keeps connections in use from being given to others; begins after a pause."""
        while True:
            await asyncio.sleep(pause)
            pause = self._hold_seconds
            busy = [place for place in self._places.values() if place.turn.in_flight]
            asks = [self._ask(place, place.turn.ask_connections(place.address, 0)) for place in busy]
            await asyncio.gather(*asks, return_exceptions=True)

    def _fail(self, place: Place, error: Exception) -> None:
        """Passes an error on to the requests that wait."""
        for _, admitted in place.queue:
            if not admitted.done():
                admitted.set_exception(error)
        place.queue.clear()
        place.wake()
