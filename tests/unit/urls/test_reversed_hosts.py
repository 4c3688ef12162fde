"""Reversed host names."""

from __future__ import annotations

from tests.cases import cases
from webcrawl.urls.canonical import normalize
from webcrawl.urls.reversed_hosts import plain_host, reversed_host


@cases(
    ("url", "host"),
    [
        ("https://www.example.org/a", "org.example.www"),
        ("http://example.org:80/", "org.example"),
        ("https://user:secret@Example.ORG:8443/", "org.example:8443"),
        ("http://example.org./", "org.example"),
        ("http://localhost:8000/", "localhost:8000"),
        ("http://192.0.2.1/", "192.0.2.1"),
        ("http://192.0.2.1:8080/", "192.0.2.1:8080"),
        ("http://[2001:DB8::1]/", "[2001:db8::1]"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080"),
        ("https://bücher.example/", "example.xn--bcher-kva"),
        ("https://1.2.example.org/", "org.example.2.1"),
        ("ftp://files.example.org/pub", "org.example.files"),
    ],
)
def test_names_are_reversed_and_addresses_are_not(url: str, host: str) -> None:
    assert reversed_host(normalize(url)) == host
    again = normalize(f"{url.partition(':')[0]}://{plain_host(host)}/")
    assert reversed_host(again) == host


def test_the_hosts_of_a_domain_are_neighbours() -> None:
    urls = [
        "https://b.example.org/",
        "https://example.com/",
        "https://a.example.org/",
        "https://example.org/",
    ]
    hosts = sorted(map(reversed_host, urls))
    assert hosts == ["com.example", "org.example", "org.example.a", "org.example.b"]
    assert [plain_host(host) for host in hosts] == [
        "example.com",
        "example.org",
        "a.example.org",
        "b.example.org",
    ]
