"""What a worker of the live lane does with the outcome of a URL: an event for everybody, or the next hop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from webcrawl.crawler.session import Session
from webcrawl.engine.keys import LIVE_GROUP
from webcrawl.engine.replication import Command
from webcrawl.errors import InvalidURL
from webcrawl.frontier.operations import Operations
from webcrawl.frontier.url_state import URLState, url_state
from webcrawl.live.asks import Asks, LiveAsk, WantedURL
from webcrawl.live.events import DEAD, FILTERED, INVALID, REDIRECTS, LiveAnswer, events, related_urls
from webcrawl.live.stored import StoredChain, StoredChains
from webcrawl.metrics.totals import LIVE_ANSWERS, LIVE_MS, live_bucket
from webcrawl.stores.group_commit import GroupCommit
from webcrawl.stores.listeners import Publisher
from webcrawl.urls.canonical import normalize, split

logger = logging.getLogger(__name__)


_LOG_SECONDS = 60.0


class Answering:
    """Asks for URLs in the frontier, and answers those who asked.

    most_hops  the redirects that are followed
    stream     LIVE_STREAM
    look       is called when the frontier has new URLs
    extra      returns the `extra` of the queue entry of an ask
    counters   of the totals of the crawl
    """

    def __init__(
        self,
        session: Session,
        *,
        stream: str,
        most_hops: int,
        look: Callable[[], None],
        extra: Callable[[LiveAsk], bytes | None],
        counters: Counter[str],
    ) -> None:
        connection = session.connection
        self._session, self._stream, self._most_hops = session, stream, most_hops
        self._look, self._extra = look, extra
        self.asks = Asks(connection.engine, connection.keys)
        self._counters = counters
        self._waits: list[float] = []
        """The seconds from a message to its answer, since the last line in the log."""
        self._logged = time.monotonic()
        self._operations = Operations(connection.engine, connection.keys)
        self._stored = StoredChains(session.stores)
        self._finished: GroupCommit[str, None] = GroupCommit(self._acknowledge)
        self._publisher = Publisher(connection.engine, connection.keys, session.stores.listeners)

    async def close(self) -> None:
        await self._stored.close()

    async def want(self, asks: Sequence[LiveAsk], *, again: bool = False) -> None:
        """Asks for the next URL of each chain, unless it is stored and young enough; answers the others.

        `again`: a worker may have died with these asks, so what was stored since they were put counts.
        """
        wanted: list[tuple[LiveAsk, str]] = []
        for ask in asks:
            try:
                url = self._allowed(ask.url, is_resource=bool(ask.page))
            except InvalidURL as error:
                await self.answer([ask], LiveAnswer(ask.url, INVALID, str(error)))
                continue
            if url is None:
                await self.answer(
                    [ask], LiveAnswer(ask.url, FILTERED, "a URL filter of the settings forbids it")
                )
            else:
                wanted.append((ask, url))
        await self._ask(wanted, again=again)

    async def from_store(self, url: str) -> bool:
        """Answers those who wait for a URL by what was stored since they asked; returns whether it need not be fetched.

        A worker that died may have stored the page and not acknowledged the URL.
        """
        asks = await self.asks.of(url)
        if not asks:
            return True
        since = datetime.fromtimestamp(min(ask.put for ask in asks), UTC)
        (stored,) = await self._stored.follow([(url, since, False)])
        if stored.chain:
            await self.move(url, stored.chain[1] if len(stored.chain) > 1 else stored.url)
        elif stored.row is not None:
            await self.finish(url, LiveAnswer.of_row(stored.row))
        return bool(stored.chain or stored.row)

    async def give_up_host(self, host: str, reason: str) -> None:
        """Answers those who wait for URLs of a host that was given up."""
        for url in await self.asks.of_host(host):
            await self.finish(url, LiveAnswer(url, DEAD, reason))

    async def move(self, url: str, target: str) -> None:
        """Moves those who wait for a URL to the target of its redirect."""
        others = True
        # they ask meanwhile, and the URL is not queued for them
        while others and (asks := await self.asks.of(url)):
            await self._move(asks, url, target)
            others = await self.asks.remove(url, asks)

    async def finish(self, url: str, answer: LiveAnswer) -> None:
        """Answers those who wait for a URL.

        Who asks while others are answered, and wants no page from before, has the URL fetched again.
        """
        began = time.time()
        asks = await self.asks.of(url)
        while asks:
            await self._want_related(asks, answer)
            await self.answer(asks, answer)
            if not await self.asks.remove(url, asks):
                return
            others = await self.asks.of(url)
            # by the clocks of the engine and of this worker: if they differ, a page may be fetched once more
            late = [ask for ask in others if not ask.max_age and ask.put > began]
            asks = [ask for ask in others if ask not in late]
            if late and not asks:
                await self._fetch_again(url, late[0])

    async def _fetch_again(self, url: str, ask: LiveAsk) -> None:
        if await self.asks.add([WantedURL(url, ask, self._extra(ask), again=True)]):
            self._look()

    async def _want_related(self, asks: Sequence[LiveAsk], answer: LiveAnswer) -> None:
        """Asks for the picture and the feeds of a page, for those who want them."""
        if answer.row is None or not any(ask.related for ask in asks):
            return
        urls = related_urls(answer.row)
        wanted = [
            ask.of_related(answer.url, url) for ask in asks for kind in ask.related for url in urls[kind]
        ]
        await self.want(wanted)

    async def _move(self, asks: Sequence[LiveAsk], url: str, target: str) -> None:
        moved = [ask.moved(url) for ask in asks]
        circle = [ask for ask in moved if target in ask.chain]
        long = [ask for ask in moved if len(ask.chain) > self._most_hops and ask not in circle]
        if circle:
            await self.answer(circle, LiveAnswer(target, REDIRECTS, "the redirects go in a circle"))
        if long:
            await self.answer(
                long, LiveAnswer(target, REDIRECTS, f"there are over {self._most_hops} redirects")
            )
        going = [ask for ask in moved if ask not in circle and ask not in long]
        await self._ask([(ask, target) for ask in going], again=False)

    async def answer(self, asks: Sequence[LiveAsk], answer: LiveAnswer) -> None:
        """Publishes the events, and then acknowledges the messages that are finished."""
        await asyncio.gather(*map(self._publisher.publish_encoded, events(asks, answer)))
        self._count(asks, answer)
        finished = {ask.message for ask in asks if await self.asks.finish(ask)}
        await asyncio.gather(*map(self._finished.put, finished))

    def _count(self, asks: Sequence[LiveAsk], answer: LiveAnswer) -> None:
        outcome = answer.error or ("stored" if answer.stored else "fetched")
        self._counters[f"{LIVE_ANSWERS}{outcome}"] += len(asks)
        waits = [time.time() - ask.put for ask in asks if not ask.page]
        self._counters[LIVE_MS] += round(1000 * sum(waits))
        self._counters.update(map(live_bucket, waits))
        if (observed := self._session.observed) is not None and observed.traces is not None:
            for ask in asks:
                observed.traces.answered_live(ask.url, ask.put, answer.url, outcome, ask.id)
        self._waits += waits
        if (now := time.monotonic()) - self._logged < _LOG_SECONDS or not self._waits:
            return
        waits, self._waits, self._logged = sorted(self._waits), [], now
        median, longest = waits[len(waits) // 2], waits[-1]
        logger.info(
            "The live lane has answered %d URLs, half of them within %.2f s, all within %.2f s",
            *(len(waits), median, longest),
        )

    async def _acknowledge(self, messages: list[str]) -> list[None]:
        """Removes messages from the stream."""
        words = (("XACK", self._stream, LIVE_GROUP, *messages), ("XDEL", self._stream, *messages))
        commands = [Command(self._stream, command) for command in words]
        await self._session.connection.engine.change_all(commands)
        return [None] * len(messages)

    def _allowed(self, url: str, *, is_resource: bool) -> str | None:
        """Returns the URL to fetch for a URL as asked, or None if a filter forbids it; raises InvalidURL."""
        scope = self._session.scope
        return (scope.resource_filters if is_resource else scope.filters).apply(normalize(url))

    async def _ask(self, wanted: Sequence[tuple[LiveAsk, str]], *, again: bool) -> None:
        """Asks for normalized URLs, unless they are stored and young enough."""
        now, looked = datetime.now(UTC), []
        for ask, url in wanted:
            since = now - timedelta(seconds=ask.max_age)
            if again:
                since = min(since, datetime.fromtimestamp(ask.put, UTC))
            looked.append((url, since, again))
        needs_look = again or any(ask.max_age for ask, _ in wanted)
        chains = (
            await self._stored.follow(looked)
            if needs_look
            else [StoredChain((), url, None) for _, url in wanted]
        )
        new: list[WantedURL] = []
        for (ask, url), (_, since, _), stored in zip(wanted, looked, chains, strict=True):
            if again:
                await self._ask_again(ask, url, since, stored)
            elif stored.row is not None:
                await self._answer_stored(ask, stored)
            else:
                new.append(WantedURL(stored.url, ask.along(stored.chain), self._extra(ask)))
        if new and await self.asks.add(new):
            self._look()

    async def _answer_stored(self, ask: LiveAsk, stored: StoredChain) -> None:
        assert stored.row is not None
        await self.answer([ask.along(stored.chain)], LiveAnswer.of_row(stored.row, stored=True))

    async def _ask_again(self, ask: LiveAsk, url: str, since: datetime, stored: StoredChain) -> None:
        """Asks for a URL that was asked for before, unless it is on its way or finished.

        A worker stores a page, then moves or answers those who wait, and only then settles the URL in the frontier. So
        nobody will answer the ask if the frontier has none of its URLs, and nothing was stored until after that look.
        """
        before = None
        while stored.row is None and stored != before:
            for hop in (*stored.chain, stored.url):
                if any(other.key == ask.key for other in await self.asks.of(hop)):
                    state = await url_state(self._operations, *split(hop))
                    if _is_on_its_way(state):
                        return
                    if state.state == "dead" and (state.time or 0.0) >= ask.put:
                        await self.answer(
                            [ask.along(stored.chain)], LiveAnswer(hop, DEAD, state.reason or "")
                        )
                        await self.asks.remove(hop, [ask])
                        return
            before, (stored,) = stored, await self._stored.follow([(url, since, True)])
        if not await self._is_open(ask):
            return
        if stored.row is not None:
            await self._answer_stored(ask, stored)
            await self.asks.remove(stored.url, [ask])
            return
        # others may have asked for it meanwhile
        is_lacking = not _is_on_its_way(await url_state(self._operations, *split(stored.url)))
        wanted = WantedURL(stored.url, ask.along(stored.chain), self._extra(ask), is_lacking)
        if await self.asks.add([wanted]):
            self._look()

    async def _is_open(self, ask: LiveAsk) -> bool:
        """Whether an ask of a message is not finished."""
        if ask.of > 1:
            return await self.asks.is_left(ask)
        client, number = self._session.connection.engine.client, ask.message
        return bool(await client.xpending_range(self._stream, LIVE_GROUP, number, number, 1))


def _is_on_its_way(state: URLState) -> bool:
    """Whether the frontier has a URL, or may have it in queues that are too long to read."""
    return state.state in {"queued", "leased", "waiting", "scheduled"} or not state.complete
