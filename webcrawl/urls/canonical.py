"""Three forms of a URL: normalized for fetching, canonical for comparing, and a fingerprint for the seen set.

    as found     HTTP://User@Bücher.example:80/a/../b?z=1&utm_source=x&a=#top
    normalize    http://xn--bcher-kva.example/b?z=1&utm_source=x&a=             the URL to fetch
    canonical    http://xn--bcher-kva.example/b?a=&z=1                          only for comparison
    fingerprint  signed 64-bit xxh3 of the canonical form                       stored in the seen set

Only `normalize` and `resolve` accept any string. Every other function expects their result: a WHATWG
serialization (https://url.spec.whatwg.org) of a supported scheme, without fragment and user info.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote_plus

from ada_url import join_url, normalize_url
from publicsuffixlist import PublicSuffixList
from xxhash import xxh3_64_intdigest

from webcrawl.errors import ConfigurationError, InvalidURL

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}
"""The supported schemes and their default ports; `add_scheme` adds to them."""

_prefixes: tuple[str, ...] = tuple(f"{scheme}://" for scheme in DEFAULT_PORTS)

TRACKING_PARAMETERS: tuple[str, ...] = (
    # Campaign and click identifiers.
    *("utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "twclid"),
    *("ttclid", "igshid", "mc_cid", "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi", "mkt_tok", "oly_anon_id"),
    *("oly_enc_id", "vero_id", "wickedid", "rb_clickid"),
    # Session identifiers of common servers and shops.
    *("PHPSESSID", "jsessionid", "ASPSESSIONID*", "CFID", "CFTOKEN", "osCsid", "zenid"),
)
"""Parameters that do not change a page, ignored in fingerprints by default: names, or prefixes that end in "*"."""

# Matches URLs that w3lib's rules leave unchanged, so that most URLs cost one match: a path of characters that are never
# quoted and escapes that are never decoded; a query of plain "name=value" fields, which only have to be sorted.
# ";" is excluded because it starts path parameters, which have rules of their own.
_KEPT = r"[A-Za-z0-9._~!$&'()*+,:=@|\[\]/-]*"
_ESCAPE = r"%(?:[0189A-F][0-9A-F]|2[0235F]|3[BCEF]|5[CE]|60|7[BDF])"
_FIELD = r"[A-Za-z0-9._~+-]*=[A-Za-z0-9._~+-]*"
_PLAIN = re.compile(rf"(?P<path>/{_KEPT}(?:{_ESCAPE}{_KEPT})*)(?:\?(?P<query>(?:{_FIELD}(?:&{_FIELD})*)?))?")
# Matches addresses that joining and WHATWG's parser leave unchanged. Possessive quantifiers try nothing twice.
_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*+"
_REST = rf"(?P<rest>(?:{_SEGMENT}/)*+(?:{_SEGMENT})?+(?:\?[A-Za-z0-9._~=&+-]*+)?+)"
_PLAIN_ADDRESS = re.compile(rf"(?:(?P<root>/)|(?P<up>(?:\.\./)++)|(?=[A-Za-z0-9_-])){_REST}")
# Excludes Punycode names, which may be invalid, and IP addresses, which do not end in letters.
_PLAIN_URL = re.compile(rf"https?://(?!\S*xn--)(?:[a-z0-9-]++\.)++[a-z]++/{_REST}")
# The most joined links that are kept for a folder, and the longest address that is kept; see `_joined_in`.
_MAX_JOINED = 512
_MAX_JOINED_LENGTH = 200
# The schemes whose queries are in the encoding of the page; those of other schemes are in UTF-8.
_SPECIAL = ("http://", "https://", "ftp://")
_OTHER_SCHEME = re.compile(r"[\x00-\x20]*+(?!(?:https?|ftp):)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)
# Bytes of a query that are escaped. Of those that the URL parser leaves or escapes itself, Scrapy escapes some.
_ESCAPED = re.compile(rb"[^\t\n\r \"!$%&'()*+,./0-9:;<=>?@A-Z_a-z~-]")
_BEFORE_QUERY = re.compile(rb"[^?#]*")
_NOT_WEB = re.compile(rb"[\x00-\x20]*+(?!(?:https?|ftp):)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)
# "example.org." is the same name in DNS as "example.org", and gets the same `Host` header. A name without another dot
# keeps it, because resolvers may search for "intranet" in other domains too.
_DOT_OF_ROOT = re.compile(r"\A([a-z][a-z0-9+.-]*://[^/:\[]*\.[^/:.\[]+)\.(?=[:/])")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def add_scheme(scheme: str, default_port: int) -> None:
    """Adds a supported scheme in this process."""
    global _prefixes
    DEFAULT_PORTS[scheme] = default_port
    _prefixes = tuple(f"{scheme}://" for scheme in DEFAULT_PORTS)


def resolve(url: str, base: str | None = None) -> str | None:
    """Normalizes like `normalize`, but returns None for a valid URL of an unsupported scheme (mailto:, data:...)."""
    try:
        href = normalize_url(url) if base is None else join_url(base, url)
    except ValueError:
        raise InvalidURL(f"not a URL: {url!r}" + (f" (on {base!r})" if base is not None else "")) from None
    if not href.startswith(_prefixes):
        return None
    if "#" in href:
        href = href[: href.index("#")]
    if "@" in href:
        authority, path = split(href)
        scheme, _, rest = authority.partition("://")
        href = f"{scheme}://{rest.rpartition('@')[2]}{path}"
    if "./" in href or ".:" in href:
        href = _DOT_OF_ROOT.sub(r"\1", href)
    return href


class Base:
    """The base URL of a page: `resolve(address)` is a fast `resolve(address, url)`.

    Most addresses are plain: no part must be decoded, encoded or removed, so they are joined as strings, in a fifth of
    the time. The menus of pages in one folder have the same addresses, so joined URLs are kept for a while.

    `encode` encodes the query of an address of a page that is not in UTF-8, as in the URL standard.
    """

    def __init__(self, url: str, encode: Callable[[str], bytes] | None = None) -> None:
        self.url = url
        self._encode = encode if url.startswith(_SPECIAL) else None
        self._root = url[: url.find("/", url.find(":") + 4) + 1]
        self._folders = [url[: url.partition("?")[0].rfind("/") + 1]]
        self._joined = _joined_in(self._root, self._folders[0])

    def resolve(self, address: str) -> str | None:
        link = self._joined.get(address)
        if link is not None:
            return link
        link = self._join_plain(address)
        if link is None:
            return resolve(self.encoded(address), self.url)
        if len(address) <= _MAX_JOINED_LENGTH:
            if len(self._joined) >= _MAX_JOINED:
                self._joined.clear()
            self._joined[address] = link
        return link

    def moved(self, url: str) -> Base:
        """Returns the base at another URL, for the addresses of the same page."""
        return Base(url, self._encode)

    def encoded(self, address: str) -> str:
        """Returns an address whose query is ASCII, encoded as in the page. A path is always encoded in UTF-8."""
        if self._encode is None or address.isascii():
            return address
        before, mark, fragment = address.partition("#")
        path, question, query = before.partition("?")
        if query.isascii() or _OTHER_SCHEME.match(path):
            return address
        escaped = _ESCAPED.sub(lambda match: b"%%%02X" % ord(match[0]), self._encode(query))
        return f"{path}{question}{escaped.decode('ascii')}{mark}{fragment}"

    def _join_plain(self, address: str) -> str | None:
        """Returns the link to a plain address, or None. The link depends on the folder of the base, not on its file."""
        if ":" in address:
            within = address.startswith(self._root) and _PLAIN_ADDRESS.fullmatch(address, len(self._root) - 1)
            if within or _PLAIN_URL.fullmatch(address):
                return address
        elif match := _PLAIN_ADDRESS.fullmatch(address):
            root, up, rest = match.groups()
            if root:
                return self._root + rest
            return (self._folder(len(up) // len("../")) if up else self._folders[0]) + rest
        return None

    def _folder(self, up: int) -> str:
        """Returns the folder `up` levels above the folder of the base, or the root."""
        folders = self._folders
        while len(folders) <= up and folders[-1] != self._root:
            folders.append(folders[-1][: folders[-1].rindex("/", 0, -1) + 1])
        return folders[min(up, len(folders) - 1)]


@lru_cache(maxsize=128)
def _joined_in(root: str, folder: str) -> dict[str, str]:
    """Returns a dictionary for the joined plain addresses of the pages in one folder, empty at first."""
    return {}


# cached, because several components normalize the URL of the same page
@lru_cache(maxsize=1024)
def normalize(url: str, base: str | None = None) -> str:
    """Returns the URL to fetch: `url` parsed as in a browser, relative to `base`, without fragment and user info.

    Raises InvalidURL, which names `url`, for strings that no browser could open and for unsupported schemes.
    """
    href = resolve(url, base)
    if href is None:
        raise InvalidURL(f"not a URL of {', '.join(DEFAULT_PORTS)}: {url!r}")
    return href


def as_requested(url: str) -> str:
    """Returns a normalised URL as Scrapy requests it, with escapes for more characters (`|`, `\\`, `{`)."""
    from w3lib.url import (
        safe_url_string,  # it imports urllib.request, which processes that read HTML do not need
    )

    return safe_url_string(url)


def with_slashes(location: bytes) -> bytes:
    """Returns the value of a `Location` header with slashes for the backslashes before its query, as in browsers."""
    if b"\\" not in location or _NOT_WEB.match(location):
        return location
    return _BEFORE_QUERY.sub(lambda match: match[0].replace(b"\\", b"/"), location, count=1)


def resolve_location(location: bytes, url: str) -> str | None:
    """Like `resolve`, for the value of a `Location` header in a response from `url`.

    Bytes beyond ASCII are escaped as they are, as browsers and Scrapy do. A backslash is a slash, as in links.
    """
    from w3lib.url import safe_url_string

    try:
        return resolve(safe_url_string(with_slashes(location)), url)
    except ValueError as error:
        raise InvalidURL(f"not a URL: {location!r} (on {url!r})") from error


def without_fragment(url: str) -> str:
    """Returns a URL without its fragment; accepts any string."""
    return url.partition("#")[0]


def split(url: str) -> tuple[str, str]:
    """Splits a normalized URL into (host key, path and query), such as ("https://example.org", "/a?b")."""
    start = url.find("/", url.find(":") + 4)  # after "://" and at least one character of a host
    if start < 0:
        raise InvalidURL(f"not a normalized URL: {url!r}")
    return url[:start], url[start:]


def authority(url_or_host_key: str) -> str:
    """Returns host name, and port unless it is the scheme's default: "example.org", "[::1]:8080"."""
    return url_or_host_key.partition("://")[2].partition("/")[0]


def hostname(url_or_host_key: str) -> str:
    """Returns the host name or address without port; an IPv6 address without brackets."""
    name = authority(url_or_host_key)
    return name[1 : name.index("]")] if name.startswith("[") else name.partition(":")[0]


def port(url_or_host_key: str) -> int:
    """Returns the TCP port, by default the scheme's port."""
    explicit = authority(url_or_host_key).rpartition("]")[2].partition(":")[2]
    return int(explicit) if explicit else DEFAULT_PORTS[url_or_host_key.partition(":")[0]]


def is_address(hostname: str) -> bool:
    """Whether a normalized host name is an IP address. In WHATWG's form, no name ends in a numeric label."""
    return ":" in hostname or hostname.rpartition(".")[2].isdigit()


@lru_cache(maxsize=1)
def _public_suffixes() -> PublicSuffixList:
    # Parsing the list takes 35 ms, so it is done only when needed.
    return PublicSuffixList()


@lru_cache(maxsize=1 << 14)
def registered_domain(hostname: str) -> str:
    """Returns the registered domain of a host name: "example.co.uk" for "www.example.co.uk".

    Uses the public suffix list (https://publicsuffix.org) with its private section, so each user.github.io is a
    domain of its own. An unlisted top-level domain is a suffix. An address, a single label and a public suffix are
    their own domain. The list comes with the installed package and is never downloaded.
    """
    if is_address(hostname):
        return hostname
    name = hostname.removesuffix(".")
    return _public_suffixes().privatesuffix(name) or name


def is_public_suffix(domain: str) -> bool:
    """Whether anybody may register names directly under a domain, such as "co.uk"; False for addresses."""
    return not is_address(domain) and bool(_public_suffixes().is_public(domain))


def _name_pattern(parameter: str) -> str:
    """Returns the expression for the name of an ignored parameter, as spelled in a canonical query."""
    name, star, rest = parameter.partition("*")
    if not parameter or rest:
        raise ConfigurationError(
            f"ignored parameter {parameter!r}: must be a name, or a prefix that ends in '*'"
        )
    return re.escape(quote_plus(name)) + (r"[^=&;/?]*" if star else "")


@dataclass(frozen=True)
class Canonicalizer:
    """Gives different spellings of one URL the same form, by w3lib's `canonicalize_url` and a list of parameters.

    Queries are sorted and keep blank values, and escapes get one spelling. Parameters in `ignored_parameters` (names
    in any case, or prefixes such as "utm_*") are removed from queries and from path parameters (";jsessionid=1").
    Unlike in w3lib, a "%" that starts no escape becomes "%25"; otherwise the form would not be a fixed point.
    """

    ignored_parameters: Collection[str] = TRACKING_PARAMETERS
    _names: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _in_path: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.ignored_parameters, str):
            raise ConfigurationError(
                f"ignored parameters must be a list of names, not {self.ignored_parameters!r}"
            )
        # "(?!)" never matches, for an empty list
        names = "|".join(_name_pattern(name) for name in self.ignored_parameters) or "(?!)"
        object.__setattr__(self, "ignored_parameters", tuple(self.ignored_parameters))
        object.__setattr__(self, "_names", re.compile(rf"(?:{names})(?:=|$)", re.IGNORECASE))
        object.__setattr__(
            self, "_in_path", re.compile(rf";(?:{names})(?:=[^/;?]*)?(?=[/;?]|$)", re.IGNORECASE)
        )

    def canonical(self, url: str) -> str:
        """Returns the canonical form of a normalized URL. The form is a normalized URL, and its own canonical form."""
        host, rest = split(url)
        plain = _PLAIN.fullmatch(rest)
        if plain is None:
            path, _, query = self._by_w3lib(rest).partition("?")
            fields = query.split("&") if query else []
        else:
            path, query = plain["path"], plain["query"]
            if not query:
                return host + path
            fields = query.split("&")
            if len(fields) > 1:
                fields.sort(key=lambda field: field.partition("="))
        fields = [field for field in fields if not self._names.match(field)]
        return f"{host}{path}?{'&'.join(fields)}" if fields else host + path

    def _by_w3lib(self, rest: str) -> str:
        """Returns path and query by w3lib. The host is left out, because w3lib treats it differently from WHATWG."""
        from w3lib.url import canonicalize_url

        while True:
            rest = canonicalize_url("http://h" + _STRAY_PERCENT.sub("%25", rest))[len("http://h") :]
            path, mark, query = rest.partition("?")
            shorter = self._in_path.sub("", path)
            if shorter == path:
                return rest
            rest = shorter + mark + query  # The rest may now end in ";" or "..", so repeat.

    def fingerprint(self, url: str) -> int:
        """Returns the signed 64-bit xxh3 of the canonical form, which the engine's sets store in 8 bytes."""
        return _signed(xxh3_64_intdigest(self.canonical(url).encode()))

    def request_fingerprint(self, method: str, url: str, body: bytes = b"", *, verbatim: bool = False) -> int:
        """Returns the fingerprint of a request; for GET without body, that of its URL. `verbatim`: keeps the URL."""
        canonical = url if verbatim else self.canonical(url)
        if not body and method.upper() == "GET":
            return _signed(xxh3_64_intdigest(canonical.encode()))
        head = f"{method.upper()}\n{canonical}\n"
        return _signed(xxh3_64_intdigest(head.encode() + body))


def _signed(unsigned: int) -> int:
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
