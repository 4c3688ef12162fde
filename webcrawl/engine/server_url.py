"""The servers that REDIS_URL names.

redis-py's URLs name one server. Here a URL may name several nodes of a cluster, or several sentinels and the name of a
primary that they watch. The form is the same as in other clients, such as Lettuce, docket and Redis-Sentinel-Url:

    redis[s]://[user:password@]host[:port][,host[:port]...][/database][?option=value...]
    redis[s]+sentinel://[user:password@]host[:port][,host[:port]...]/primary[/database][?option=value...]
    sentinel://...                                                  the same as redis+sentinel
    unix://[user:password@]/path[?option=value...]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote

from redis.asyncio.connection import SSLConnection, parse_url

from webcrawl.config.passwords import without_password
from webcrawl.errors import ConfigurationError

_SCHEMES = {
    # scheme -> scheme that redis-py knows
    "redis": "redis",
    "rediss": "rediss",
    "redis+sentinel": "redis",
    "rediss+sentinel": "rediss",
    "sentinel": "redis",
}
_PORT, _SENTINEL_PORT = 6379, 26379
_MOST_PORT = 65535
_URL = re.compile(r"([^:/?#]+)://(?:([^/?#]*)@)?([^@/?#]*)(?:/([^?#]*))?(\?[^#]*)?", re.DOTALL)
_ADDRESS = re.compile(r"(\[[^\]]*\]|[^\[\]:]*)(?::(.*))?", re.DOTALL)
_UNESCAPED = "write /, ? and # in user and password as %2F, %3F and %23"


@dataclass(frozen=True, slots=True)
class ServerURL:
    """The addresses in a URL, and its arguments for redis-py's connections."""

    addresses: tuple[tuple[str, int], ...]
    """Host and port of each server or sentinel; empty for a unix socket."""
    options: Mapping[str, Any]
    """User, password, database, `path` and others; not the address."""
    tls: bool = False
    primary: str | None = None
    """The name of the primary that the sentinels watch; None if the addresses are those of servers."""
    sentinel_options: Mapping[str, Any] | None = None
    """User and password of the sentinels, if they have any."""

    @property
    def is_single(self) -> bool:
        return self.primary is None and len(self.addresses) <= 1

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses REDIS_URL; raises ConfigurationError, which names the part that is wrong."""
        try:
            return cls._parse(url)
        except ValueError as error:
            authority, *rest = re.split("[/?#]", url.partition("://")[2], maxsplit=1)
            # the usual message would quote a part of the password as a port or a database
            is_cut = "@" in "".join(rest) and "@" not in authority
            problem = _UNESCAPED if is_cut else error
            raise ConfigurationError(f"REDIS_URL {without_password(url)!r}: {problem}") from None

    @classmethod
    def _parse(cls, url: str) -> Self:
        scheme = url.partition("://")[0].lower()
        if scheme == "unix":
            options: dict[str, Any] = dict(parse_url(url))
            options.pop("connection_class")
            return cls((), options)
        match = _URL.fullmatch(url)
        if scheme not in _SCHEMES or match is None:
            given = f", not {scheme!r}" if "@" not in scheme else ""
            raise ValueError(f"the scheme must be one of unix, {', '.join(_SCHEMES)}{given}")
        _, user, hosts, path, query = match.groups()
        if user and re.search("@.*,|,.*@", user):
            raise ValueError(
                "name user and password once, before the first host; write an @ in a password as %40"
            )
        to_sentinels = "sentinel" in scheme
        addresses = tuple(
            _address(host, _SENTINEL_PORT if to_sentinels else _PORT) for host in hosts.split(",")
        )
        names = [unquote(name) for name in (path or "").removesuffix("/").split("/")]
        primary = names.pop(0) if to_sentinels else None
        if to_sentinels and not primary:
            raise ValueError("name the primary that the sentinels watch after the hosts, such as /mymaster")
        if len(names) > 1 or not re.fullmatch(r"[0-9]*", "".join(names)):
            raise ValueError(f"the database {'/'.join(names)!r} is not a number")
        # redis-py reads user, password and options
        login = f"{user}@" if user else ""
        options = dict(parse_url(f"{_SCHEMES[scheme]}://{login}host/{''.join(names)}{query or ''}"))
        tls = options.pop("connection_class", None) is SSLConnection
        del options["host"]
        own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
        sentinel_options = {name: value for name, value in own.items() if value} if to_sentinels else None
        return cls(addresses, options, tls, primary, sentinel_options)


def _address(text: str, port: int) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a host and a port; separate several by commas")
    host, number = match.groups()
    if not host.strip("[]"):
        raise ValueError(f"a host is missing before {text!r}" if text else "a host is empty")
    if number is not None and not (number.isdecimal() and 0 < int(number) <= _MOST_PORT):
        raise ValueError(f"the port {number!r} of {host} is not a number from 1 to {_MOST_PORT}")
    return unquote(host.strip("[]")), int(number or port)
