"""Each guarantee of URLFrontier's documentation, as a client sees it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.urlfrontier.client import Client

A, B, C = "https://a.test/1", "https://a.test/2", "https://a.test/3"
FAR = 4_000_000_000
"""A date far in the future, in seconds since 1970."""


def refusal(error: pytest.ExceptionInfo[grpc.RpcError]) -> tuple[grpc.StatusCode, str]:
    return error.value.code(), error.value.details()


# PutURLs


def test_a_discovered_url_is_stored_only_if_it_is_unknown(client: Client) -> None:
    assert client.put(client.discovered(A), client.discovered(A)) == ["OK", "SKIPPED"]
    assert client.put(client.discovered(A), client.discovered(B)) == ["SKIPPED", "OK"]
    assert client.put(client.known(A)) == ["OK"]
    assert client.put(client.discovered(A)) == ["SKIPPED"], "a completed URL is known too"
    assert client.urls() == [B]


def test_each_item_is_acknowledged_by_its_id_or_its_url(client: Client) -> None:
    items = [client.discovered(A, id="first"), client.discovered(B), client.pb.URLItem(ID="nothing")]
    assert [(ack.ID, ack.status) for ack in client.acks(items)] == [("first", 0), (B, 0), ("nothing", 1)]


def test_a_known_url_is_always_updated(client: Client) -> None:
    client.put(client.discovered(A, metadata={"depth": ["0"]}))
    assert client.put(client.known(A, FAR, metadata={"status": ["200", "OK"]})) == ["OK"]
    status = client.status(A)
    assert status.known.refetchable_from_date == FAR
    assert {name: list(texts.values) for name, texts in status.known.info.metadata.items()} == {
        "status": ["200", "OK"]
    }
    assert client.put(client.known(B)) == ["OK"], "even one that the frontier did not know"
    assert client.status(B).known.refetchable_from_date == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"url": ""},
        {"url": "", "key": "a.test"},
        {"url": "no host at all"},
        {"url": "https://a.test/" + "x" * 9000},
        {"url": A, "key": "k" * 256},
        {"url": A, "metadata": {"m": ["x" * 70_000]}},
        {"url": A, "crawl": "with space"},
    ],
)
def test_what_cannot_be_stored_is_skipped_and_the_rest_is_stored(
    client: Client, fields: dict[str, object]
) -> None:
    assert client.put(client.discovered(**fields), client.discovered(B)) == ["SKIPPED", "OK"]
    assert client.put_batch([client.info(**fields), client.info(C)]) == ["SKIPPED", "OK"]


def test_a_batch_has_a_status_for_each_url_in_order(client: Client) -> None:
    assert client.put_batch([client.info(A), client.info(B), client.info(A)]) == ["OK", "OK", "SKIPPED"]
    assert client.put_batch([], id="probe") == [], "clients send an empty batch to ask for support"


def test_many_batches_come_back_in_order(client: Client) -> None:
    batches = [
        client.pb.DiscoveredBatch(
            ID=str(b), items=[client.info(f"https://h{u % 7}.test/{b}/{u}") for u in range(150)]
        )
        for b in range(20)
    ]
    acks = list(client.stub.PutDiscovered(iter(batches), timeout=30))
    assert [(ack.ID, len(ack.statuses)) for ack in acks] == [(str(b), 150) for b in range(20)]
    assert client.stats().size == 3000


# keys and crawls


def test_the_queue_of_a_url_without_a_key_is_its_host_name(client: Client) -> None:
    urls = ["http://A.test:8080/1", "https://user:pass@a.test/2", "ftp://[::1]:21/x", "https://bücher.test/"]
    client.put(*map(client.discovered, urls))
    assert sorted(client.list_queues().values) == ["[::1]", "a.test", "xn--bcher-kva.test"]


@pytest.mark.parametrize(
    "key", ["example.com", "192.0.2.1", "any text: ünïcode / \n", "a:1", "::1", "x" * 255]
)
def test_a_key_can_be_any_text(client: Client, key: str) -> None:
    assert client.put(client.discovered(A, key=key), client.discovered("whatever", key=key)) == ["OK", "OK"]
    assert list(client.list_queues().values) == [key]
    given = client.get(key=key)
    assert sorted((info.url, info.key) for info in given) == [(A, key), ("whatever", key)]
    assert client.put(client.known(A, key=key)) == ["OK"]
    assert (client.stats(key).size, client.stats(key).inProcess) == (1, 1)


def test_a_url_in_two_queues_is_two_urls(client: Client) -> None:
    assert client.put(client.discovered(A, key="x"), client.discovered(A, key="y")) == ["OK", "OK"]
    client.put(client.known(A, key="x"))
    assert client.urls(key="y") == [A]


def test_crawls_do_not_affect_each_other(client: Client) -> None:
    for crawl in ("one", "two"):
        assert client.put(client.discovered(A, crawl=crawl), client.discovered(B, crawl=crawl)) == [
            "OK",
            "OK",
        ]
    assert client.urls("one", max_urls_per_queue=1) == [A]
    assert client.urls("two", max_urls_per_queue=1) == [A], "at the same time, from a queue of the same name"
    client.put(client.known(A, crawl="one"))
    assert client.call("DeleteQueue", "QueueWithinCrawlParams", key="a.test", crawlID="one").value == 2
    assert [client.stats(crawl=crawl).size for crawl in ("one", "two")] == [0, 2]
    assert sorted(client.call("ListCrawls", "Local").values) == ["one", "two"]


def test_an_empty_crawl_id_means_default(client: Client) -> None:
    client.put(client.discovered(A))
    assert client.stats().crawlID == "DEFAULT"
    assert client.put(client.discovered(A, crawl="DEFAULT")) == ["SKIPPED"]
    (info,) = client.get("")
    assert info.crawlID == "DEFAULT"


def test_any_crawl_gives_urls_if_none_is_named(client: Client) -> None:
    client.put(
        *(client.discovered(f"https://{crawl}.test/", crawl=crawl) for crawl in ("one", "two", "three"))
    )
    assert sorted(client.urls()) == ["https://one.test/", "https://three.test/", "https://two.test/"]
    client.put(client.discovered("https://four.test/", crawl="four"))
    assert [info.url for info in client.call("GetURLs", "GetParams")] == ["https://four.test/"]


def test_a_deleted_crawl_returns_the_number_of_its_urls_and_can_begin_anew(client: Client) -> None:
    client.put(*map(client.discovered, (A, B, "https://b.test/")), client.known(C))
    client.urls(max_urls_per_queue=1)
    assert client.call("DeleteCrawl", "DeleteCrawlMessage", value="").value == 4
    assert list(client.call("ListCrawls", "Local").values) == []
    assert client.call("DeleteCrawl", "DeleteCrawlMessage", value="never").value == 0
    assert client.put(client.discovered(A)) == ["OK"]
    assert client.urls() == [A], "nothing of the deleted crawl holds the queue"


# GetURLs


def test_urls_come_with_what_was_stored(client: Client) -> None:
    client.put(client.discovered(A, metadata={"depth": ["1"], "from": ["x", "y"]}, crawl="c"))
    (info,) = client.get()
    assert (info.url, info.key, info.crawlID) == (A, "a.test", "c")
    assert {name: list(texts.values) for name, texts in info.metadata.items()} == {
        "depth": ["1"],
        "from": ["x", "y"],
    }


def test_the_numbers_of_queues_and_of_their_urls_are_bounds(client: Client) -> None:
    client.put(*(client.discovered(f"https://h{h}.test/{u}") for h in range(12) for u in range(4)))
    given = client.get(max_queues=5, max_urls_per_queue=2)
    assert len(given) == 10 and len({info.key for info in given}) == 5
    rest = client.get(max_urls_per_queue=3)
    assert len(rest) == 21, "the other seven queues: the first five were asked a moment ago"
    assert not {info.key for info in given} & {info.key for info in rest}, "each client has other queues"


def test_without_bounds_all_due_urls_come(client: Client) -> None:
    urls = {f"https://h{n % 30}.test/{n}" for n in range(900)}
    client.put(*map(client.discovered, urls))
    assert set(client.urls()) == urls


def test_one_queue_can_be_named(client: Client) -> None:
    client.put(client.discovered(A), client.discovered("https://b.test/"))
    assert client.urls(key="b.test") == ["https://b.test/"]
    assert client.urls(key="unknown") == []


def test_a_url_in_transit_is_given_again_when_its_time_is_over(client: Client) -> None:
    client.set_delay(0)
    client.put(client.discovered(A))
    assert client.urls(delay_requestable=1) == [A]
    assert client.urls(delay_requestable=1) == []
    time.sleep(1.05)
    assert client.urls(delay_requestable=60) == [A]
    time.sleep(1.05)
    assert client.urls() == [], "its time is that of the last call"


def test_a_report_ends_the_transit_and_makes_room(client: Client) -> None:
    client.set_delay(0)
    client.put(*map(client.discovered, (A, B, C)))
    assert client.urls(max_urls_per_queue=2) == [A, B]
    assert client.urls(max_urls_per_queue=2) == [], "the queue has as many in transit"
    client.put(client.known(A))
    assert client.stats().inProcess == 1
    assert client.urls(max_urls_per_queue=2) == [C]


def test_a_known_url_comes_back_at_its_date_and_not_before(client: Client) -> None:
    client.set_delay(0)
    now = int(time.time())
    client.put(client.known(A, now + 2), client.known(B, FAR), client.known(C, now - 100))
    assert client.urls() == [C]
    client.put(client.known(C))
    time.sleep(max(0.0, now + 2.1 - time.time()))
    assert client.urls() == [A]


def test_a_date_of_zero_means_never_again(client: Client) -> None:
    client.set_delay(0)
    client.put(client.discovered(A))
    assert client.urls(delay_requestable=1) == [A]
    client.put(client.known(A, 0))
    time.sleep(1.05)
    assert client.urls() == []
    assert client.stats().counts["completed"] == 1


def test_older_dates_come_first(client: Client) -> None:
    now = int(time.time())
    client.put(client.known(A, now - 1), client.known(B, now - 3), client.known(C, now - 2))
    assert client.urls() == [B, C, A]


def test_clients_that_ask_at_the_same_time_get_different_urls(client: Client) -> None:
    client.set_delay(0)
    urls = {f"https://h{n % 40}.test/{n}" for n in range(400)}
    client.put(*map(client.discovered, urls))
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: client.urls(max_queues=10, delay_requestable=300), range(16)))
    given = [url for part in parts for url in part]
    assert len(given) == len(set(given))
    assert set(given) | set(client.urls()) == urls


def test_queues_take_turns(client: Client) -> None:
    client.set_delay(0)
    client.put(
        *(client.discovered(f"https://h{h}.test/{u}", key=f"h{h}") for h in range(4) for u in range(3))
    )
    keys = []
    for _ in range(12):
        (info,) = client.get(max_queues=1, max_urls_per_queue=1)
        keys.append(info.key)
        client.put(client.known(info.url, key=info.key))
    assert sorted(keys) == sorted(3 * ["h0", "h1", "h2", "h3"])
    assert len(set(keys[:8])) == 4, "no queue waits until another one is empty"


# delays and blocks


def test_a_queue_rests_for_its_delay(client: Client) -> None:
    client.put(*map(client.discovered, (A, B, C)))
    client.set_delay(2, key="a.test")
    began = time.monotonic()
    assert client.urls(max_urls_per_queue=1) == [A]
    client.put(client.known(A))
    while not (urls := client.urls(max_urls_per_queue=1)):
        assert time.monotonic() - began < 20
        time.sleep(0.05)
    assert urls == [B] and time.monotonic() - began >= 2
    client.put(client.known(B))
    client.set_delay(0, key="a.test")
    assert client.urls() == [C], "a shorter delay holds at once"


def test_a_queue_rests_for_a_second_unless_a_client_says_otherwise(client: Client) -> None:
    client.put(*map(client.discovered, (A, B, C)))
    assert client.urls(max_urls_per_queue=1) == [A]
    client.put(client.known(A))
    assert client.urls(key="a.test") == []
    client.set_delay(3600)
    time.sleep(1.05)
    assert client.urls() == []
    client.set_delay(0)
    assert client.urls() == [B, C]


def test_a_blocked_queue_gives_nothing_until_the_date(client: Client) -> None:
    client.put(client.discovered(A), client.discovered("https://b.test/"))
    client.call("BlockQueueUntil", "BlockQueueParams", key="a.test", time=FAR)
    assert client.urls() == ["https://b.test/"]
    assert client.urls(key="a.test") == []
    client.call("BlockQueueUntil", "BlockQueueParams", key="a.test", time=0)
    assert client.urls(max_urls_per_queue=1) == [A]


def test_a_block_ends_by_itself(client: Client) -> None:
    client.put(client.discovered(A))
    until = int(time.time()) + 2
    client.call("BlockQueueUntil", "BlockQueueParams", key="a.test", time=until)
    assert client.urls() == []
    time.sleep(max(0.0, until + 0.1 - time.time()))
    assert client.urls() == [A]


def test_an_inactive_frontier_gives_nothing_and_takes_urls(client: Client) -> None:
    assert client.call("GetActive", "Local").state
    client.call("SetActive", "Active", state=False)
    assert not client.call("GetActive", "Local").state
    assert client.put(client.discovered(A)) == ["OK"]
    assert client.urls() == []
    client.call("SetActive", "Active", state=True)
    assert client.urls() == [A]


def test_a_crawl_limit_bounds_what_is_fetched(client: Client) -> None:
    client.set_delay(0)
    client.put(*map(client.discovered, (A, B, C)))
    client.call("SetCrawlLimit", "CrawlLimitParams", key="a.test", limit=2)
    assert client.urls(max_urls_per_queue=1) == [A]
    client.put(client.known(A))
    assert client.urls() == [B], "one is completed"
    client.put(client.known(B))
    assert client.urls() == []
    client.call("SetCrawlLimit", "CrawlLimitParams", key="a.test", limit=0)
    assert client.urls() == [C]
    with pytest.raises(grpc.RpcError) as error:
        client.call("SetCrawlLimit", "CrawlLimitParams", key="nobody.test", limit=2)
    assert refusal(error) == (
        grpc.StatusCode.NOT_FOUND,
        "key 'nobody.test': crawl 'DEFAULT' has no such queue",
    )


# what the frontier has


def test_queues_are_listed_in_pages(client: Client) -> None:
    keys = {f"h{n}.test" for n in range(25)}
    client.put(*(client.discovered(f"https://{key}/") for key in keys))
    client.put(client.discovered("https://other.test/", crawl="other"))
    pages = [client.list_queues(start=start, size=10) for start in (0, 10, 20, 30)]
    assert [(page.start, page.size, page.total) for page in pages] == [
        (0, 10, 25),
        (10, 10, 25),
        (20, 5, 25),
        (30, 0, 25),
    ]
    listed = [key for page in pages for key in page.values]
    assert len(listed) == 25 and set(listed) == keys
    assert pages[0].crawlID == "DEFAULT"


def test_queues_without_due_urls_are_listed_only_on_demand(client: Client) -> None:
    client.put(
        client.discovered(A), client.known("https://done.test/"), client.known("https://later.test/", FAR)
    )
    client.put(client.discovered("https://blocked.test/"))
    client.call("BlockQueueUntil", "BlockQueueParams", key="blocked.test", time=FAR)
    assert list(client.list_queues().values) == ["a.test"]
    everything = {"a.test", "blocked.test", "done.test", "later.test"}
    assert set(client.list_queues(include_inactive=True).values) == everything
    client.urls()
    assert list(client.list_queues().values) == ["a.test"], "a URL in transit is active"


def test_the_default_page_of_queues_has_a_hundred(client: Client) -> None:
    client.put_batch([client.info(f"https://h{n}.test/") for n in range(120)])
    page = client.list_queues()
    assert (page.size, page.total) == (100, 120)


def test_stats_count_the_urls_of_a_queue_or_a_crawl(client: Client) -> None:
    client.put(*map(client.discovered, (A, B, C, "https://b.test/")), client.known("https://b.test/old"))
    client.urls(key="a.test", max_urls_per_queue=1)
    crawl, queue = client.stats(), client.stats("a.test")
    assert (crawl.size, crawl.inProcess, crawl.numberOfQueues) == (4, 1, 2)
    assert dict(crawl.counts) == {"completed": 1, "active_queues": 2, "due": 3}
    assert (queue.size, queue.inProcess, queue.numberOfQueues) == (3, 1, 1)
    nothing = client.stats("unknown.test")
    assert (nothing.size, nothing.numberOfQueues) == (0, 0)


def test_the_status_of_a_url_does_not_depend_on_its_schedule(client: Client) -> None:
    began = int(time.time())
    client.put(client.discovered(A, metadata={"m": ["1"]}))
    for _ in ("waiting", "in transit"):
        status = client.status(A)
        assert status.known.refetchable_from_date >= began and status.creation_date >= began
        assert list(status.known.info.metadata["m"].values) == ["1"]
        client.urls()
    client.put(client.known(A))
    assert client.status(A, key="a.test").known.refetchable_from_date == 0
    with pytest.raises(grpc.RpcError) as error:
        client.status(B)
    assert refusal(error) == (grpc.StatusCode.NOT_FOUND, f"url {B}: unknown in queue 'a.test'")


def test_updates_keep_the_date_of_creation(client: Client) -> None:
    client.put(client.discovered(A))
    created = client.status(A).creation_date
    time.sleep(1.05)
    client.put(client.known(A, FAR))
    assert client.status(A).creation_date == created
    client.put(client.known(A))
    assert client.status(A).creation_date == created


def test_urls_are_listed_in_pages_and_by_text(client: Client) -> None:
    client.put(*(client.discovered(f"https://h{n % 3}.test/Page/{n}") for n in range(130)))
    client.put(client.known("https://h0.test/page/done"))
    assert len(client.listed()) == 100
    pages = [client.listed(start=start, size=50) for start in (0, 50, 100, 150)]
    assert [len(page) for page in pages] == [50, 50, 31, 0]
    assert len({item.known.info.url for page in pages for item in page}) == 131
    assert len(client.listed(key="h1.test", size=1000)) == 43
    assert len(client.listed(filter="Page", size=1000)) == 130
    assert len(client.listed(filter="PAGE", ignoreCase=True, size=1000)) == 131
    assert client.listed(filter="PAGE") == []
    assert client.listed(crawlID="other") == []


def test_urls_are_counted(client: Client) -> None:
    client.put(client.discovered(A), client.known(B), client.discovered("https://b.test/A"))
    client.urls(key="a.test")
    for expected, fields in (
        (3, {}),
        (2, {"key": "a.test"}),
        (1, {"filter": "test/A"}),
        (0, {"filter": "TEST"}),
        (3, {"filter": "TEST", "ignoreCase": True}),
        (0, {"crawlID": "other"}),
    ):
        assert client.call("CountURLs", "CountUrlParams", **fields).value == expected, fields


def test_a_deleted_queue_returns_the_number_of_its_urls(client: Client) -> None:
    client.put(*map(client.discovered, (A, B, "https://b.test/")), client.known(C))
    client.urls(key="a.test", max_urls_per_queue=1)
    assert client.call("DeleteQueue", "QueueWithinCrawlParams", key="a.test").value == 3
    assert client.call("DeleteQueue", "QueueWithinCrawlParams", key="a.test").value == 0
    assert list(client.list_queues(include_inactive=True).values) == ["b.test"]
    assert client.put(client.discovered(A)) == ["OK"], "the URL is new again"
    assert client.urls(key="a.test") == [A]


def test_old_urls_are_purged(client: Client) -> None:
    client.put(*map(client.discovered, (A, B, "https://b.test/")), client.known(C))
    client.urls(key="a.test", max_urls_per_queue=1)
    assert client.call("PurgeURLs", "PurgeUrlParams", days=1).value == 0
    assert client.call("PurgeURLs", "PurgeUrlParams", days=0, key="b.test").value == 1
    assert client.call("PurgeURLs", "PurgeUrlParams", days=0).value == 3
    assert list(client.list_queues(include_inactive=True).values) == []
    stats = client.stats()
    assert (stats.size, stats.inProcess) == (0, 0)


def test_the_totals_of_a_crawl_never_decrease(client: Client) -> None:
    client.put(
        client.discovered(A), client.discovered(A), client.discovered(B), client.known(B), client.known(B)
    )
    client.put(client.known(C, FAR))
    totals = client.call("GetCrawlStats", "GetCrawlStatsParams")
    assert (totals.totalURL.value, totals.completedURL.value) == (3, 1)
    client.call("DeleteQueue", "QueueWithinCrawlParams", key="a.test")
    totals = client.call("GetCrawlStats", "GetCrawlStatsParams")
    assert (totals.totalURL.value, totals.completedURL.value) == (3, 1)


# bad requests


@pytest.mark.parametrize(
    ("method", "request_type", "fields", "words"),
    [
        ("GetStats", "QueueWithinCrawlParams", {"crawlID": "a b"}, "crawlID 'a b'"),
        ("GetStats", "QueueWithinCrawlParams", {"key": "k" * 300}, "key: 300 characters"),
        ("DeleteQueue", "QueueWithinCrawlParams", {}, "key: name a queue"),
        ("DeleteCrawl", "DeleteCrawlMessage", {"value": "x" * 65}, "crawlID"),
        ("BlockQueueUntil", "BlockQueueParams", {"key": "a", "time": 2**50}, "time"),
        ("BlockQueueUntil", "BlockQueueParams", {"time": 5}, "key: name a queue"),
        ("SetCrawlLimit", "CrawlLimitParams", {"limit": 5}, "key: name a queue"),
        ("SetLogLevel", "LogLevelParams", {"level": 9}, "level 9"),
        ("GetURLStatus", "URLStatusRequest", {}, "url: name a URL"),
        ("GetURLStatus", "URLStatusRequest", {"url": "nowhere"}, "it has no host name"),
        ("ListQueues", "Pagination", {"crawlID": "ä"}, "crawlID 'ä'"),
        ("CountURLs", "CountUrlParams", {"crawlID": "/"}, "crawlID '/'"),
        ("PurgeURLs", "PurgeUrlParams", {"crawlID": "/"}, "crawlID '/'"),
    ],
)
def test_a_wrong_field_is_named(
    client: Client, method: str, request_type: str, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(grpc.RpcError) as error:
        client.call(method, request_type, **fields)
    code, details = refusal(error)
    assert code is grpc.StatusCode.INVALID_ARGUMENT and words in details


@pytest.mark.parametrize("method", ["GetURLs", "ListURLs"])
def test_a_wrong_field_of_a_stream_is_named(client: Client, method: str) -> None:
    request = {"GetURLs": "GetParams", "ListURLs": "ListUrlParams"}[method]
    with pytest.raises(grpc.RpcError) as error:
        list(client.call(method, request, crawlID="a/b"))
    code, details = refusal(error)
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "crawlID 'a/b'" in details


def test_a_message_that_is_too_long_is_refused(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as error:
        client.put(client.discovered("https://a.test/" + "x" * (17 << 20)))
    assert refusal(error)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert client.put(client.discovered(A)) == ["OK"], "the server goes on"


def test_bytes_that_are_no_message_are_refused(client: Client) -> None:
    call = client.channel.unary_unary("/urlfrontier.URLFrontier/GetStats")
    with pytest.raises(grpc.RpcError) as error:
        call(b"\xff\xff\xff", timeout=30)
    assert refusal(error)[0] is grpc.StatusCode.INVALID_ARGUMENT
    put = client.channel.stream_stream("/urlfrontier.URLFrontier/PutURLs")
    with pytest.raises(grpc.RpcError) as error:
        list(put(iter([b"\xff\xff\xff"]), timeout=30))
    assert refusal(error)[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert client.stats().size == 0
