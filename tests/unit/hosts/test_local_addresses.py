"""The local address of a connection: one for each host and family, by a hash, and checked at the start."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.local_addresses import LocalAddresses, read_local_addresses

FOUR = [f"127.0.0.{number}" for number in range(2, 8)]
HOSTS = [f"host{number}.example" for number in range(600)]


def chosen(addresses: list[str], host: str, remote: str = "203.0.113.1") -> str:
    local = LocalAddresses(addresses).of(host, remote)
    assert local is not None and local[1] == 0
    return local[0]


def test_hosts_are_spread_and_each_sees_one_address() -> None:
    counts = Counter(chosen(FOUR, host) for host in HOSTS)
    assert set(counts) == set(FOUR) and min(counts.values()) > len(HOSTS) / len(FOUR) / 2
    for host in HOSTS[:50]:
        assert chosen(FOUR, host) == chosen(FOUR[::-1], host.upper() + "."), "whatever order and spelling"


@given(st.sets(st.sampled_from(FOUR), min_size=1), st.sampled_from(HOSTS), st.sampled_from(FOUR))
def test_another_address_moves_only_hosts_to_itself(addresses: set[str], host: str, more: str) -> None:
    before = chosen(sorted(addresses), host)
    assert chosen(sorted(addresses | {more}), host) in (before, more)


def test_families_are_kept_apart() -> None:
    both = LocalAddresses(["127.0.0.2", "::1"])
    assert both.of("a.example", "2001:db8::1") == ("::1", 0)
    assert both.of("a.example", "203.0.113.1") == ("127.0.0.2", 0)
    assert both.together(["2001:db8::1", "203.0.113.1", "2001:db8::2"]) == ["2001:db8::1", "2001:db8::2"]
    only = LocalAddresses(["127.0.0.2"])
    assert only.together(["2001:db8::1", "203.0.113.1"]) == ["203.0.113.1"]
    for refused in (lambda: only.of("a.example", "2001:db8::1"), lambda: only.together(["2001:db8::1"])):
        with pytest.raises(OSError, match="no address of BIND_ADDRESSES can reach 2001:db8::1"):
            refused()


def test_without_addresses_the_system_chooses() -> None:
    free = read_local_addresses([])
    assert free.of("a.example", "203.0.113.1") is None
    assert free.together(["2001:db8::1", "203.0.113.1"]) == ["2001:db8::1", "203.0.113.1"]


def test_a_file_names_addresses(tmp_path: Path) -> None:
    listed = tmp_path / "addresses.txt"
    listed.write_text("# mine\n127.0.0.2  # first\n\n127.0.0.3\n127.0.0.2\n")
    addresses = read_local_addresses([f"@{listed}"])
    assert {addresses.of(host, "203.0.113.1") for host in HOSTS} == {("127.0.0.2", 0), ("127.0.0.3", 0)}
    listed.write_text("# none\n")
    with pytest.raises(ConfigurationError, match="the file names no address"):
        read_local_addresses([f"@{listed}"])


@cases(
    ("word", "why"),
    [
        ("example.org", "entry 2: 'example.org' is not an IP address of this machine"),
        ("0.0.0.0", "entry 2: '0.0.0.0' is not an IP address of this machine"),
        ("224.0.0.1", "entry 2: '224.0.0.1' is not an IP address of this machine"),
        (
            "203.0.113.9",
            r"entry 2: requests cannot be sent from 203.0.113.9 \(Cannot assign requested address\)",
        ),
    ],
)
def test_what_cannot_be_bound_is_refused(word: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"BIND_ADDRESSES, {why}"):
        read_local_addresses(["127.0.0.2", word])
