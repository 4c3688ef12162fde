"""The pool of proxies: stickiness, rotation, back-off, and what PROXIES may contain."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.cases import cases
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.proxies import ProxyPool, Rotation, read_proxies

URLS = [f"http://user:secret@proxy{number}.test:3128" for number in range(4)]
HOSTS = [f"http://host{number}.test None" for number in range(400)]


def pool(rotation: Rotation = "host") -> ProxyPool:
    return ProxyPool(read_proxies(URLS), rotation)


def chosen(pool: ProxyPool, session: str, attempt: int = 0, now: float = 0.0) -> str:
    """The name of the proxy for a request."""
    proxy = pool.choose(session, attempt, now)
    assert proxy is not None
    return proxy.name


def test_a_host_keeps_its_proxy_and_all_workers_choose_alike() -> None:
    one, other = pool(), pool()
    first = {host: chosen(one, host) for host in HOSTS}
    assert (
        first == {host: chosen(other, host) for host in HOSTS} == {host: chosen(one, host) for host in HOSTS}
    )
    assert min(Counter(first.values()).values()) > 60
    assert {chosen(one, f"http://host.test {jar}") for jar in range(50)} == set(first.values())


def test_a_failing_proxy_moves_its_own_hosts_only_and_gets_them_back() -> None:
    proxies = pool()
    first = {host: chosen(proxies, host) for host in HOSTS}
    bad = proxies.choose(HOSTS[0], 0, 0.0)
    assert bad is not None
    proxies.fail(bad, "refused", 0.0)
    for host, name in first.items():
        assert (chosen(proxies, host, now=9.9) != name) == (name == bad.name)
    assert {host: chosen(proxies, host, now=10.0) for host in HOSTS} == first


def test_each_attempt_takes_another_proxy() -> None:
    proxies = pool()
    assert len({chosen(proxies, HOSTS[0], attempt) for attempt in range(4)}) == 4
    assert chosen(proxies, HOSTS[0], 4) == chosen(proxies, HOSTS[0])


def test_requests_rotate_over_the_usable_proxies() -> None:
    proxies = pool("request")
    assert Counter(chosen(proxies, HOSTS[0]) for _ in range(40)) == Counter(
        {f"http://proxy{number}.test:3128": 10 for number in range(4)}
    )


def test_pauses_double_up_to_ten_minutes_and_end_with_a_success(caplog: pytest.LogCaptureFixture) -> None:
    proxies = ProxyPool(read_proxies(URLS[:1]))
    now, pauses = 0.0, []
    bad = proxies.choose("", 0, now)
    assert bad is not None
    for _ in range(8):
        for _ in range(3):  # requests that fail at the same time count once
            proxies.fail(bad, "refused", now)
        assert proxies.choose("", 0, now) is None
        pauses.append(proxies.free_at - now)
        now = proxies.free_at
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]
    proxies.succeed(bad)
    proxies.fail(bad, "refused", now)
    assert proxies.free_at == now + 10
    assert "The proxy http://proxy0.test:3128 fails and is left out for 10 seconds: refused" in caplog.text
    assert "secret" not in caplog.text + repr(bad)


def test_five_failed_requests_in_a_row_count_as_a_failure_of_the_proxy() -> None:
    proxies = ProxyPool(read_proxies(URLS[:1]))
    proxy = proxies.choose("", 0, 0.0)
    assert proxy is not None
    for number in range(9):
        proxies.doubt(proxy, "timeout", 0.0)
        if number == 3:
            proxies.succeed(proxy)
    assert proxies.choose("", 0, 0.0) is None


def test_proxies_are_read_from_a_list_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text("# mine\n\nproxy.test:1\nhttps://user:p%40ss@[::1]:2/ # second\nproxy.test:1\n")
    names = [proxy.name for proxy in read_proxies([f"@{file}", "http://third.test"])]
    assert names == ["http://proxy.test:1", "https://[::1]:2", "http://third.test"]


@cases(
    ("entry", "message"),
    [
        (
            "ftp://me:secret@proxy.test:1",
            "entry 2: ftp:// is not supported, only http, https, socks4, socks4a, socks5, socks5h",
        ),
        ("http://me:secret@:80", "entry 2: not the URL of a proxy"),
        ("http://me:secret@proxy.test:port", "entry 2: not the URL of a proxy"),
        ("proxy.test:80:me:secret", "entry 2: not the URL of a proxy"),
        ("http://proxy.test/secret", "entry 2: not the URL of a proxy"),
        ("@/missing/file", "@/missing/file"),
    ],
)
def test_a_wrong_entry_is_named_without_its_password(entry: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("[", r"\[")) as raised:
        read_proxies(["http://proxy.test:1", entry])
    assert "secret" not in str(raised.value) and "PROXIES" in str(raised.value)


def test_an_empty_file_and_a_wrong_line_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text("# nothing\n")
    with pytest.raises(ConfigurationError, match="names no proxy"):
        read_proxies([f"@{file}"])
    file.write_text("one.test:1\nnonsense nonsense\n")
    with pytest.raises(ConfigurationError, match="proxies.txt, line 2: not the URL"):
        read_proxies([f"@{file}"])
