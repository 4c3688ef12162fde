"""URLs: the one to fetch, the parts that the frontier keeps, and the fingerprint that says "seen".

    as found     HTTP://User@Bücher.example:80/a/../b?z=1&utm_source=x&a=#top
    normalize    http://xn--bcher-kva.example/b?z=1&utm_source=x&a=             the URL to fetch
    canonical    http://xn--bcher-kva.example/b?a=&z=1                          only to compare with
    fingerprint  signed 64-bit xxh3 of the canonical form                       what the seen set holds

Only `normalize` and `resolve` take strings as they come; every other function expects what these return: a
WHATWG serialisation (https://url.spec.whatwg.org) of http, https or ftp, without fragment and user info.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote_plus

from ada_url import join_url, normalize_url
from publicsuffixlist import PublicSuffixList
from w3lib.url import canonicalize_url
from xxhash import xxh3_64_intdigest

from webcrawl.errors import ConfigurationError, InvalidURL

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}
"""The schemes that can be crawled, each with the port of URLs that name none; see `add_scheme`."""

_prefixes: tuple[str, ...] = tuple(f"{scheme}://" for scheme in DEFAULT_PORTS)

TRACKING_PARAMETERS: tuple[str, ...] = (
    # Where a visitor came from: campaign and click identifiers.
    *("utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "twclid"),
    *("ttclid", "igshid", "mc_cid", "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi", "mkt_tok", "oly_anon_id"),
    *("oly_enc_id", "vero_id", "wickedid", "rb_clickid"),
    # Who the visitor is: session identifiers of common servers and shops.
    *("PHPSESSID", "jsessionid", "ASPSESSIONID*", "CFID", "CFTOKEN", "osCsid", "zenid"),
)
"""Parameters that change no page, ignored in fingerprints by default: names, or prefixes that end in "*"."""

# What w3lib's rules leave as it is, so that most URLs cost one match: a path of characters that are never
# quoted and of escapes that are never decoded; a query of plain "name=value" fields, which at most have to be
# sorted. A ";" is left out as it starts path parameters, which have rules of their own.
_KEPT = r"[A-Za-z0-9._~!$&'()*+,:=@|\[\]/-]*"
_ESCAPE = r"%(?:[0189A-F][0-9A-F]|2[0235F]|3[BCEF]|5[CE]|60|7[BDF])"
_FIELD = r"[A-Za-z0-9._~+-]*=[A-Za-z0-9._~+-]*"
_PLAIN = re.compile(rf"(?P<path>/{_KEPT}(?:{_ESCAPE}{_KEPT})*)(?:\?(?P<query>(?:{_FIELD}(?:&{_FIELD})*)?))?")
# What joining and WHATWG's parser leave as it is. Quantifiers are possessive: nothing is tried twice.
_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*+"
_REST = rf"(?P<rest>(?:{_SEGMENT}/)*+(?:{_SEGMENT})?+(?:\?[A-Za-z0-9._~=&+-]*+)?+)"
_PLAIN_ADDRESS = re.compile(rf"(?:(?P<root>/)|(?P<up>(?:\.\./)++)|(?=[A-Za-z0-9_-])){_REST}")
# No name in Punycode, which may be wrong, and no address: these do not end in letters.
_PLAIN_URL = re.compile(rf"https?://(?!\S*xn--)(?:[a-z0-9-]++\.)++[a-z]++/{_REST}")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def add_scheme(scheme: str, default_port: int) -> None:
    """Let URLs of this scheme be crawled too, in this process."""
    global _prefixes
    DEFAULT_PORTS[scheme] = default_port
    _prefixes = tuple(f"{scheme}://" for scheme in DEFAULT_PORTS)


def resolve(url: str, base: str | None = None) -> str | None:
    """Like `normalize`, but None for a good URL of another scheme (mailto:, javascript:, data:...)."""
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
    return href


class Base:
    """What the addresses on a page are joined to: `resolve(address)` is `resolve(address, url)`, made quickly.

    Most addresses are plain: nothing in them is decoded, encoded or left out, so that joining is putting two strings
    together. That takes a fifth of the time.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._root = url[: url.find("/", url.find(":") + 4) + 1]
        self._folders = [url[: url.partition("?")[0].rfind("/") + 1]]

    def resolve(self, address: str) -> str | None:
        if ":" in address:
            within = address.startswith(self._root) and _PLAIN_ADDRESS.fullmatch(address, len(self._root) - 1)
            if within or _PLAIN_URL.fullmatch(address):
                return address
        elif match := _PLAIN_ADDRESS.fullmatch(address):
            root, up, rest = match.groups()
            if root:
                return self._root + rest
            return (self._folder(len(up) // len("../")) if up else self._folders[0]) + rest
        return resolve(address, self.url)

    def _folder(self, up: int) -> str:
        """The folder of the base, or so many above it; nothing is above the root."""
        folders = self._folders
        while len(folders) <= up and folders[-1] != self._root:
            folders.append(folders[-1][: folders[-1].rindex("/", 0, -1) + 1])
        return folders[min(up, len(folders) - 1)]


# a page's URL is asked for by everyone who handles the page
@lru_cache(maxsize=1024)
def normalize(url: str, base: str | None = None) -> str:
    """The URL to fetch: `url` parsed as a browser does, relative to `base`, without fragment and user info.

    Raises InvalidURL, naming `url`, for what no browser could open and for schemes that nobody fetches.
    """
    href = resolve(url, base)
    if href is None:
        raise InvalidURL(f"not a URL of {', '.join(DEFAULT_PORTS)}: {url!r}")
    return href


def split(url: str) -> tuple[str, str]:
    """A normalised URL as (host key, path and query), such as ("https://example.org", "/a?b")."""
    start = url.find("/", url.find(":") + 4)  # after "://" and at least one character of a host
    if start < 0:
        raise InvalidURL(f"not a normalised URL: {url!r}")
    return url[:start], url[start:]


def authority(url_or_host_key: str) -> str:
    """Host name and, where it is not the scheme's default, port: "example.org", "[::1]:8080"."""
    return url_or_host_key.partition("://")[2].partition("/")[0]


def hostname(url_or_host_key: str) -> str:
    """The name or address alone; an IPv6 address comes without its brackets."""
    name = authority(url_or_host_key)
    return name[1 : name.index("]")] if name.startswith("[") else name.partition(":")[0]


def port(url_or_host_key: str) -> int:
    """The TCP port, the scheme's default one where none is written."""
    explicit = authority(url_or_host_key).rpartition("]")[2].partition(":")[2]
    return int(explicit) if explicit else DEFAULT_PORTS[url_or_host_key.partition(":")[0]]


def is_address(hostname: str) -> bool:
    """Whether a normalised host name is an address: WHATWG lets no name end in a numeric label."""
    return ":" in hostname or hostname.rpartition(".")[2].isdigit()


@lru_cache(maxsize=1)
def _public_suffixes() -> PublicSuffixList:
    # Parsing the list takes 35 ms: only who asks for a domain pays.
    return PublicSuffixList()


@lru_cache(maxsize=1 << 14)
def registered_domain(hostname: str) -> str:
    """The part of a host name that somebody registered: "example.co.uk" for "www.example.co.uk".

    By the public suffix list (https://publicsuffix.org) with its private section, so each user.github.io is a
    domain of its own; an unlisted top-level domain is a suffix. An address, a single label and a public
    suffix itself are their own domain. The list is the one in the installed package: nothing is fetched.
    """
    if is_address(hostname):
        return hostname
    name = hostname.removesuffix(".")
    return _public_suffixes().privatesuffix(name) or name


def _name_pattern(parameter: str) -> str:
    """The expression for an ignored parameter's name, spelt as it is in a canonical query."""
    name, star, rest = parameter.partition("*")
    if not parameter or rest:
        raise ConfigurationError(
            f"ignored parameter {parameter!r}: a name, or a prefix that ends in '*', is wanted"
        )
    return re.escape(quote_plus(name)) + (r"[^=&;/?]*" if star else "")


@dataclass(frozen=True)
class Canonicalizer:
    """What two spellings of one page share, by w3lib's `canonicalize_url` and a list of parameters.

    Queries are sorted and keep blank values, escapes get one spelling, and parameters in `ignored_parameters`
    (names in any case, or prefixes such as "utm_*") vanish from queries and from path parameters
    (";jsessionid=1"). Unlike w3lib, a "%" that starts no escape becomes "%25", without which the form would
    not be a fixed point.
    """

    ignored_parameters: Collection[str] = TRACKING_PARAMETERS
    _names: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _in_path: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.ignored_parameters, str):
            raise ConfigurationError(
                f"ignored parameters are a list of names, not {self.ignored_parameters!r}"
            )
        # "(?!)" never matches: with nothing to ignore, nothing is ignored.
        names = "|".join(_name_pattern(name) for name in self.ignored_parameters) or "(?!)"
        object.__setattr__(self, "ignored_parameters", tuple(self.ignored_parameters))
        object.__setattr__(self, "_names", re.compile(rf"(?:{names})(?:=|$)", re.IGNORECASE))
        object.__setattr__(
            self, "_in_path", re.compile(rf";(?:{names})(?:=[^/;?]*)?(?=[/;?]|$)", re.IGNORECASE)
        )

    def canonical(self, url: str) -> str:
        """The canonical form of a normalised URL, itself a normalised URL; a fixed point."""
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
        """Path and query by w3lib, whose view of the host (not quite WHATWG's) is kept out of it."""
        while True:
            rest = canonicalize_url("http://h" + _STRAY_PERCENT.sub("%25", rest))[len("http://h") :]
            path, mark, query = rest.partition("?")
            shorter = self._in_path.sub("", path)
            if shorter == path:
                return rest
            rest = shorter + mark + query  # What is left may end in ";" or "..": once more.

    def fingerprint(self, url: str) -> int:
        """The signed 64-bit xxh3 of the canonical form: an integer that the engine's sets keep in 8 bytes."""
        return _signed(xxh3_64_intdigest(self.canonical(url).encode()))

    def request_fingerprint(self, method: str, url: str, body: bytes = b"") -> int:
        """The fingerprint of a request; that of its URL for a GET without body."""
        if not body and method.upper() == "GET":
            return self.fingerprint(url)
        head = f"{method.upper()}\n{self.canonical(url)}\n"
        return _signed(xxh3_64_intdigest(head.encode() + body))


def _signed(unsigned: int) -> int:
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
