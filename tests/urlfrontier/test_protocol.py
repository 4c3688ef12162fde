"""The messages on the wire are those of the published interface, and urlfrontier.binpb is made from the .proto."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_tools import protoc
from hypothesis import given, strategies as st

from tests.urlfrontier.client import SOURCE
from webcrawl.urlfrontier import conversion, messages
from webcrawl.urlfrontier.conversion import DISCOVERED, MOST_DATE, StoredURL
from webcrawl.urlfrontier.incoming import batches

# as in the library urlfrontier-API 2.5; message -> field -> number
PUBLISHED = {
    "Stats": {"size": 1, "inProcess": 2, "counts": 3, "numberOfQueues": 4, "crawlID": 5},
    "Pagination": {"start": 1, "size": 2, "include_inactive": 3, "crawlID": 4, "local": 5},
    "DeleteCrawlMessage": {"value": 1, "local": 2},
    "Empty": {},
    "Local": {"local": 1},
    "Active": {"state": 1, "local": 2},
    "Boolean": {"state": 1},
    "Long": {"value": 1},
    "QueueList": {"values": 1, "total": 2, "start": 3, "size": 4, "crawlID": 5},
    "StringList": {"values": 1},
    "QueueWithinCrawlParams": {"key": 1, "crawlID": 2, "local": 3},
    "QueueDelayParams": {"key": 1, "delay_requestable": 2, "crawlID": 3, "local": 4},
    "BlockQueueParams": {"key": 1, "time": 2, "crawlID": 3, "local": 4},
    "GetParams": {
        "max_urls_per_queue": 1,
        "max_queues": 2,
        "key": 3,
        "delay_requestable": 4,
        "anyCrawlID": 5,
        "crawlID": 6,
    },
    "AnyCrawlID": {},
    "URLItem": {"discovered": 1, "known": 2, "ID": 3, "creation_date": 4},
    "AckMessage": {"ID": 1, "status": 2},
    "URLInfo": {"url": 1, "key": 2, "metadata": 3, "crawlID": 4},
    "KnownURLItem": {"info": 1, "refetchable_from_date": 2},
    "DiscoveredURLItem": {"info": 1},
    "LogLevelParams": {"package": 1, "level": 2, "local": 3},
    "CrawlLimitParams": {"key": 1, "limit": 2, "crawlID": 3},
    "URLStatusRequest": {"url": 1, "key": 2, "crawlID": 3},
    "ListUrlParams": {
        "start": 1,
        "size": 2,
        "key": 3,
        "crawlID": 4,
        "local": 5,
        "filter": 6,
        "ignoreCase": 7,
    },
    "CountUrlParams": {"key": 1, "crawlID": 2, "filter": 3, "ignoreCase": 4, "local": 5},
    "PurgeUrlParams": {"key": 1, "crawlID": 2, "days": 3},
    "GetCrawlStatsParams": {"crawlID": 1},
    "GetCrawlStatsResponse": {"totalURL": 1, "completedURL": 2},
}


def described() -> descriptor_pb2.FileDescriptorProto:
    return files(SOURCE / "urlfrontier.binpb")["urlfrontier.proto"]


def files(descriptors: Path) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    read = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    return {file.name: file for file in read.file}


def test_the_descriptors_are_made_from_the_proto(tmp_path: Path) -> None:
    written = tmp_path / "written.binpb"
    sources = [path.name for path in SOURCE.glob("*.proto")]
    assert protoc.main(["", f"-I{SOURCE}", f"--descriptor_set_out={written}", *sources]) == 0
    assert files(written) == files(SOURCE / "urlfrontier.binpb"), "run make proto"


Fields = dict[str, dict[str, tuple[int, int, int, str]]]


def shape(file: descriptor_pb2.FileDescriptorProto) -> tuple[Fields, dict[str, list[tuple[str, bool, bool]]]]:
    """Returns the fields of the messages, and the methods of the services, without the name of the package."""
    messages = {
        message.name: {
            field.name: (
                field.number,
                field.type,
                field.label,
                field.type_name.removeprefix(f".{file.package}"),
            )
            for field in message.field
        }
        for message in file.message_type
    }
    services = {
        service.name: [
            (method.name, method.client_streaming, method.server_streaming) for method in service.method
        ]
        for service in file.service
    }
    return messages, services


def test_health_and_reflection_are_the_published_services() -> None:
    read = files(SOURCE / "urlfrontier.binpb")
    for name, published in (("health", health_pb2), ("reflection", reflection_pb2)):
        theirs = descriptor_pb2.FileDescriptorProto.FromString(published.DESCRIPTOR.serialized_pb)
        assert shape(read[f"{name}.proto"]) == shape(theirs)


def test_names_and_numbers_are_the_published_ones() -> None:
    ours = {
        message.name: {field.name: field.number for field in message.field}
        for message in described().message_type
    }
    assert ours | PUBLISHED == ours
    assert described().package == "urlfrontier"
    assert (messages.OK, messages.SKIPPED, messages.FAIL) == (0, 1, 2)


def test_methods_have_the_published_streams() -> None:
    (service,) = described().service
    streams = {
        method.name: (method.client_streaming, method.server_streaming)
        for method in service.method
        if method.client_streaming or method.server_streaming
    }
    assert streams == {
        "GetURLs": (False, True),
        "PutURLs": (True, True),
        "PutDiscovered": (True, True),
        "ListURLs": (False, True),
    }
    names = [messages.function_name(method.name) for method in service.method]
    assert {"get_urls", "get_url_status", "list_urls", "count_urls", "block_queue_until"} < set(names)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    TEXTS,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3), max_size=3),
    st.integers(0, MOST_DATE),
    st.integers(0, MOST_DATE),
)
def test_what_is_stored_comes_back(
    url: str, key: str, metadata: dict[str, list[str]], created: int, date: int
) -> None:
    lists = {name: messages.StringList(values=values) for name, values in metadata.items()}
    info = messages.URLInfo(url=url, key=key, crawlID="c", metadata=lists)
    expected = messages.URLInfo.FromString(info.SerializeToString())
    row = conversion.row(info, date)
    if row is None:
        assert not url
        return
    stored = StoredURL(row.crawl, row.queue, row.url, created.to_bytes(5) + date.to_bytes(5) + row.data)
    assert stored.info() == expected
    item = stored.item()
    assert (item.creation_date, item.known.refetchable_from_date, item.known.info) == (
        created,
        date,
        expected,
    )


@given(st.text())
def test_any_text_is_a_url_or_is_refused(text: str) -> None:
    name = conversion.host_name(text)
    assert name is None or (name and "/" not in name and name == name.lower())


def test_a_date_beyond_all_dates_is_the_latest() -> None:
    row = conversion.row(messages.URLInfo(url="https://a.test/"), 2**63)
    assert row is not None and row.date == MOST_DATE
    assert conversion.row(messages.URLInfo(url="https://a.test/"), DISCOVERED) is not None


@pytest.mark.parametrize(("weight", "most"), [(1, 1000), (100, 10), (5000, 1)])
def test_messages_that_come_together_are_stored_in_batches(weight: int, most: int) -> None:
    async def requests() -> AsyncIterator[list[int]]:
        yield list(range(2500))
        yield [2500]
        yield list(range(2501, 3000))

    async def read() -> list[int]:
        received: list[int] = []
        async for batch in batches(requests(), weight=lambda _: weight):
            assert 0 < len(batch) <= most
            received += batch
        return received

    assert asyncio.run(read()) == list(range(3000))
