"""Reverses the labels of host names, so that the hosts of a domain are adjacent when sorted."""

from __future__ import annotations

from functools import lru_cache

from webcrawl.urls.canonical import authority, is_address


def reversed_host(url: str) -> str:
    """Returns the reversed host of a normalised URL: "org.example.www" for "https://www.example.org/a".

    A port that is not the scheme's default is appended: "org.example:8080". Addresses keep their order: "192.0.2.1",
    "[2001:db8::1]:8080".
    """
    return _reversed(authority(url))


@lru_cache(1 << 14)
def _reversed(authority: str) -> str:
    if authority.startswith("["):
        return authority
    name, colon, port = authority.partition(":")
    name = name.removesuffix(".")
    return (name if is_address(name) else ".".join(reversed(name.split(".")))) + colon + port


def plain_host(reversed_host: str) -> str:
    """Reverses `reversed_host`: "example.org:8080" for "org.example:8080"."""
    name, colon, port = reversed_host.partition(":")
    labels = name.split(".")
    # no host name consists of four numbers
    if name.startswith("[") or (len(labels) == 4 and all(map(str.isdigit, labels))):
        return reversed_host
    return ".".join(reversed(labels)) + colon + port
