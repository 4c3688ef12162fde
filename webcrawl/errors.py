"""Every exception that the project raises on purpose.

CrawlError
├── ConfigurationError   a setting or an argument is wrong; the message names it
├── InvalidURL           not a URL that can be crawled (also a ValueError)
├── EngineError          the Valkey or Redis server behind the crawl
│   └── EngineUnavailable   it cannot be started or reached, or takes nothing just now
│       └── EngineFull      it has no memory left for anything new
├── StoreError           a page could not be stored, or stored data is damaged
│   └── StoreUnavailable    the store is away, locked or full, or takes no page at all: it may take this one later
├── UnreadableDocument   a document is not what its type says, or too much to read
├── AddressRefused       the address guard forbids to connect there
├── NameNotResolved      the DNS says that a name has no address
└── BadCoding            a payload is not in the content coding that its header names
"""

from __future__ import annotations


class CrawlError(Exception):
    """The root of the tree: catch it to catch whatever the project raises on purpose."""


class ConfigurationError(CrawlError):
    """A setting or a command-line argument is missing, wrong or contradicts another one."""


class InvalidURL(CrawlError, ValueError):
    """A string that is no absolute http or https URL, even after WHATWG repair."""


class EngineError(CrawlError):
    """The engine (Valkey or Redis) refused a command or answered what it should not."""


class EngineUnavailable(EngineError):
    """The engine can neither be started here nor reached, or takes nothing just now."""


class EngineFull(EngineUnavailable):
    """The engine has no memory left for anything new."""


class StoreError(CrawlError):
    """A store could not take a page, or holds something that cannot be read."""


class StoreUnavailable(StoreError):
    """A store is away, locked or full, or takes no page at all just now: the same may succeed later."""


class UnreadableDocument(CrawlError):
    """A document is broken, or takes more time or memory to read than it is worth; the message says which."""


class AddressRefused(CrawlError):
    """A connection to an address that no operator allowed: loopback, private, link-local, metadata service..."""


class NameNotResolved(CrawlError):
    """A host name without an address; `permanent` tells NXDOMAIN from a resolver that did not answer."""

    def __init__(self, name: str, reason: str, *, permanent: bool) -> None:
        super().__init__(f"cannot resolve {name}: {reason}")
        self.name = name
        self.permanent = permanent


class BadCoding(CrawlError):
    """A payload is not in the content coding that its header names, or in one that nobody knows."""
