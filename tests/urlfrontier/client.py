"""A plain client of the protocol, whose code protoc generates from the .proto, and a server in a thread."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
from grpc_tools import protoc

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.urlfrontier.queues import ClientQueues
from webcrawl.urlfrontier.server import Certificates, FrontierServer

SOURCE = Path("webcrawl/urlfrontier")
SECONDS = 30.0
"""How long a call may take."""


def generated(folder: Path) -> tuple[ModuleType, ModuleType]:
    """Returns the modules of messages and stubs that protoc writes."""
    protoc.main(
        ["", f"-I{SOURCE}", f"--python_out={folder}", f"--grpc_python_out={folder}", "urlfrontier.proto"]
    )
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("urlfrontier_pb2"), importlib.import_module("urlfrontier_pb2_grpc")
    finally:
        sys.path.remove(str(folder))


class Client:
    """Calls the methods with plain values. `pb`: the generated messages."""

    def __init__(self, channel: grpc.Channel, pb: Any, stubs: Any) -> None:
        self.channel = channel
        self.pb = pb
        self.stub = stubs.URLFrontierStub(channel)

    def info(
        self, url: str, key: str = "", crawl: str = "", metadata: dict[str, list[str]] | None = None
    ) -> Any:
        lists = {name: self.pb.StringList(values=values) for name, values in (metadata or {}).items()}
        return self.pb.URLInfo(url=url, key=key, crawlID=crawl, metadata=lists)

    def discovered(self, url: str, *, id: str = "", **fields: Any) -> Any:
        return self.pb.URLItem(ID=id, discovered=self.pb.DiscoveredURLItem(info=self.info(url, **fields)))

    def known(self, url: str, date: int = 0, *, id: str = "", **fields: Any) -> Any:
        info = self.info(url, **fields)
        return self.pb.URLItem(ID=id, known=self.pb.KnownURLItem(info=info, refetchable_from_date=date))

    def put(self, *items: Any) -> list[str]:
        """Returns the statuses of the acknowledgements, in the order of the items."""
        return [self.pb.AckMessage.Status.Name(ack.status) for ack in self.acks(items)]

    def acks(self, items: Iterable[Any]) -> list[Any]:
        return list(self.stub.PutURLs(iter(items), timeout=SECONDS))

    def put_batch(self, infos: Sequence[Any], id: str = "batch") -> list[str]:
        (ack,) = self.stub.PutDiscovered(iter([self.pb.DiscoveredBatch(ID=id, items=infos)]), timeout=SECONDS)
        assert id == ack.ID
        return [self.pb.AckMessage.Status.Name(status) for status in ack.statuses]

    def get(self, crawl: str | None = None, **fields: Any) -> list[Any]:
        """Returns what GetURLs gives; without a crawl from any."""
        chosen = {"anyCrawlID": self.pb.AnyCrawlID()} if crawl is None else {"crawlID": crawl}
        return list(self.stub.GetURLs(self.pb.GetParams(**chosen, **fields), timeout=SECONDS))

    def urls(self, crawl: str | None = None, **fields: Any) -> list[str]:
        return [info.url for info in self.get(crawl, **fields)]

    def call(self, method: str, request: str, **fields: Any) -> Any:
        return getattr(self.stub, method)(getattr(self.pb, request)(**fields), timeout=SECONDS)

    def stats(self, key: str = "", crawl: str = "") -> Any:
        return self.call("GetStats", "QueueWithinCrawlParams", key=key, crawlID=crawl)

    def status(self, url: str, key: str = "", crawl: str = "") -> Any:
        return self.call("GetURLStatus", "URLStatusRequest", url=url, key=key, crawlID=crawl)

    def list_queues(self, **fields: Any) -> Any:
        return self.call("ListQueues", "Pagination", **fields)

    def listed(self, **fields: Any) -> list[Any]:
        return list(self.call("ListURLs", "ListUrlParams", **fields))

    def set_delay(self, seconds: int, key: str = "", crawl: str = "") -> None:
        self.call("SetDelay", "QueueDelayParams", key=key, delay_requestable=seconds, crawlID=crawl)


class ServerThread:
    """A server with an engine of its own, on the event loop of a thread."""

    def __init__(
        self,
        engine_url: str,
        certificates: Certificates | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.engine: Engine
        self.server: FrontierServer
        self.wait(self._start(engine_url, certificates))

    def wait(self, work: Any) -> Any:
        """Returns the result of a coroutine that runs on the server's loop."""
        waiting: Future[Any] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return waiting.result(SECONDS)

    async def _start(self, engine_url: str, certificates: Certificates | None) -> None:
        self.engine = Engine(engine_url)
        await self.engine.check()
        self.queues = ClientQueues(self.engine, Keys("any", 4), "server")
        self.server = FrontierServer(self.queues, "127.0.0.1:0", certificates)
        await self.server.start()

    async def _end(self) -> None:
        await self.server.stop()
        await self.engine.close()

    def stop(self) -> None:
        self.wait(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SECONDS)
        self.loop.close()


def serving(engine_url: str, **options: Any) -> Iterator[ServerThread]:
    server = ServerThread(engine_url, **options)
    yield server
    server.stop()
