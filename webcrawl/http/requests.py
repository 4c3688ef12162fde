"""Requests as they are sent: the server that a URL names, and the bytes of the head."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from webcrawl.http.heads import Field

DEFAULT_PORTS = {"http": 80, "https": 443}
SOCKS_VERSIONS = {"socks4": 4, "socks4a": 4, "socks5": 5, "socks5h": 5}
"""Versions of SOCKS by the scheme of a proxy's URL; proxies of socks4a and socks5h resolve names themselves."""
PROXY_PORTS = {**DEFAULT_PORTS, **dict.fromkeys(SOCKS_VERSIONS, 1080)}
"""The default ports of proxies by the scheme of their URL."""
STRAY_SECONDS = 3.0
"""How long a packet stays in the system after its connection was given up: Linux asks three times, a second each, for
the link address of the next hop (ARP), and sends the packet as soon as it has the address."""
_WITHOUT_BODY = (b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT")


class Origin(NamedTuple):
    """The server of a URL, or a proxy.

    host   a name in lower case, or an address without brackets
    login  the user and the password in the URL
    """

    scheme: str
    host: str
    port: int
    login: tuple[bytes, bytes] | None = None

    @property
    def credentials(self) -> bytes | None:
        """The value of Authorization for the user and the password."""
        return b"Basic " + b64encode(b":".join(self.login)) if self.login else None

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @property
    def is_socks(self) -> bool:
        return self.scheme in SOCKS_VERSIONS

    @property
    def resolves_names(self) -> bool:
        """Whether a SOCKS proxy gets names instead of addresses."""
        return self.scheme in ("socks4a", "socks5h")

    @property
    def authority(self) -> str:
        """Host and port, as CONNECT names them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def header(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host.rstrip(".")
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class RequestTarget(NamedTuple):
    """What a URL asks for: path and query of a server, as they are written."""

    server: Origin
    path: str

    @property
    def absolute(self) -> str:
        """The URL as a proxy gets it."""
        return f"{self.server.scheme}://{self.server.header}{self.path}"


def target_of(url: str) -> RequestTarget:
    """Splits a URL, which need not be normalized; raises ValueError for one that is not of http or https."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    authority, slash, path = rest.partition("/")
    if "?" in authority:
        authority, _, query = rest.partition("?")
        return RequestTarget(origin_of(f"{scheme}://{authority}"), f"/?{query}")
    return RequestTarget(origin_of(f"{scheme}://{authority}"), f"/{path}" if slash else "/")


@lru_cache(maxsize=1024)
def origin_of(url: str) -> Origin:
    """Returns the server of a URL without path; raises ValueError."""
    origin = _origin(url, DEFAULT_PORTS)
    if origin is None:
        raise ValueError(f"not a URL of http or https: {url!r}")
    return origin


@lru_cache(maxsize=1024)
def proxy_at(url: str) -> Origin:
    """Returns the proxy of a URL; raises ValueError, without the URL, which may contain a password."""
    origin = _origin(url, PROXY_PORTS)
    if origin is None:
        raise ValueError(f"not the URL of a proxy of {', '.join(PROXY_PORTS)}")
    return origin


def _origin(url: str, ports: Mapping[str, int]) -> Origin | None:
    """Returns the server of a URL with a scheme of `ports`, its default ports; None for other URLs."""
    parts = urlsplit(url)
    if parts.scheme not in ports or not parts.hostname or not parts.netloc.isascii():
        return None
    user = parts.netloc.rpartition("@")[0]
    name, _, password = user.partition(":")
    login = (unquote_to_bytes(name), unquote_to_bytes(password)) if user else None
    return Origin(parts.scheme, parts.hostname, parts.port or ports[parts.scheme], login)


def expects_continue(fields: Iterable[Field]) -> bool:
    """Returns whether a server is asked to agree before it gets the body (RFC 9110, section 10.1.1)."""
    return any(name.lower() == b"expect" and value.lower() == b"100-continue" for name, value in fields)


def head_of(method: bytes, target: str, server: Origin, fields: Iterable[Field], size: int) -> bytes:
    """Returns the head of a request; `size`: bytes of its body. Raises ValueError for a value with a line break."""
    lines, names = [b"%b %b HTTP/1.1" % (method, target.encode())], set()
    for name, value in fields:
        lines.append(name + b": " + value)
        names.add(name.lower())
    if b"host" not in names:
        lines.insert(1, b"Host: " + server.header.encode())
    if server.credentials and b"authorization" not in names:
        lines.append(b"Authorization: " + server.credentials)
    if (size or method not in _WITHOUT_BODY) and not names & {b"content-length", b"transfer-encoding"}:
        lines.append(b"Content-Length: %d" % size)
    head = b"\r\n".join([*lines, b"", b""])
    if not head.count(b"\r") == head.count(b"\n") == len(lines) + 1 or b"\0" in head:
        raise ValueError("a header or the URL contains a line break or NUL")
    return head
