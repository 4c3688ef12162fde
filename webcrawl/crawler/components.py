"""The roles of a crawl's components, and the parts of its pages that they read.

A component declares both once. Parts of HTML pages, as a class attribute of a pipeline or a spider:

    class HeadingsPipeline:
        reads = Reads.TREE

A role, by subclassing it; SessionComponent registers it:

    class PolitenessMiddleware(SessionComponent, Pacer):
        ...

Other components call `session.components.get(Pacer)` to get the component with this role.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import Flag
from functools import wraps
from typing import Any, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.deprecate import argument_is_required
from scrapy.utils.misc import load_object

from webcrawl.documents.exchange import Exchange
from webcrawl.errors import ConfigurationError

R = TypeVar("R")


class Reads(Flag):
    """The parts of an HTML page that a component reads, beside its links."""

    NOTHING = 0
    TREE = 1
    """The parsed page, `document.html`. The worker then parses pages itself, not in another process."""
    FACTS = 2
    """Title, description, text and so on, in `page.reading.outline`."""
    SIMHASH = 4
    """The SimHash of the text, in `page.reading.outline`."""


class Pacer(ABC):
    """Makes each request wait for its host's turn; without this role, the scheduler takes the turns."""

    @abstractmethod
    async def take_another_turn(self, request: Request) -> None:
        """Waits again, because the request will be sent a second time."""

    def sent_at(self, request: Request) -> float | None:
        """Returns the monotonic time at which a request without a response was sent; for the progress display."""
        return None


class ResourceRules(ABC):
    """Decides which resources a rendered page may load; without this role, all resources are allowed."""

    @abstractmethod
    async def allows(self, url: str) -> bool:
        """Whether a URL may be loaded; raises Postponed, EngineUnavailable or StoreUnavailable if the crawl ends."""

    def is_asking(self, host: str) -> bool:
        """Whether the rules of a host are being fetched; for the progress display."""
        return False


class RobotsArchiver(ABC):
    """Archives the fetches of robots.txt; without this role, none is archived."""

    @abstractmethod
    async def archive_robotstxt(self, exchange: Exchange, facts: Mapping[str, str]) -> None:
        """Returns when an exchange and `facts` about it are stored; raises StoreUnavailable if the crawl ends."""


class FailureJudge(ABC):
    """Decides whether a failed request is fetched again; without this role, every request counts as done."""

    @abstractmethod
    def judge(self, request: Request, error: Exception) -> Request | None:
        """Returns the request if it is fetched again; None if the error goes on to the errback."""

    @abstractmethod
    def replaced(self, request: Request) -> None:
        """Notes that a middleware returned another request instead of this, which is neither fetched nor failed."""


_ROLES = (Pacer, ResourceRules, RobotsArchiver, FailureJudge)


class Components:
    """The roles that components of one crawl have registered for, and the parts of pages that they read."""

    def __init__(self) -> None:
        self.read_tree = self.read_facts = self.read_simhash = False
        """Whether any component reads this part of a page."""
        self.read_link_texts = False
        """Whether the levels of links depend on their texts."""
        self.keep_trees = False
        """Whether a pipeline reads the tree or facts made of it, so that the tree is kept until the page has passed."""
        self._by_role: dict[type, object] = {}

    def register(self, component: object) -> None:
        """Gives a component the roles that it subclasses; raises ConfigurationError if a role is taken."""
        for role in _ROLES:
            if isinstance(component, role):
                if role in self._by_role:
                    first, second = type(self._by_role[role]).__name__, type(component).__name__
                    raise ConfigurationError(
                        f"{first} and {second} are both a {role.__name__}: disable one of them in "
                        "DOWNLOADER_MIDDLEWARES"
                    )
                self._by_role[role] = component

    def get(self, role: type[R]) -> R | None:
        """Returns the component that registered for a role, or None."""
        component = self._by_role.get(role)
        assert component is None or isinstance(component, role)
        return component

    def collect_reads(self, spider: Any, pipelines: Iterable[Any]) -> None:
        """Combines the declarations of spider and pipelines; raises ConfigurationError for a wrong declaration.

        A spider that declares nothing, such as a spider of plain Scrapy, counts as a reader of trees, because it does
        not use the outline that another process makes of a page.
        """
        later = Reads.NOTHING
        for pipeline in pipelines:
            later |= declared_reads(pipeline, Reads.NOTHING)
        reads = later | declared_reads(spider, Reads.TREE)
        # plain booleans, because they are looked up for each page
        self.keep_trees = bool(later & (Reads.TREE | Reads.FACTS))
        self.read_tree, self.read_facts = Reads.TREE in reads, Reads.FACTS in reads
        self.read_simhash = Reads.SIMHASH in reads


def enabled_pipelines(crawler: Crawler) -> list[Any]:
    """Returns the item pipelines of a crawler whose engine exists."""
    paths = crawler.settings.get_component_priority_dict_with_base("ITEM_PIPELINES")
    classes = [load_object(path) for path, order in paths.items() if order is not None]
    return [crawler.get_item_pipeline(pipeline_class) for pipeline_class in classes]


def declared_reads(component: Any, default: Reads) -> Reads:
    """Returns the `reads` of a component, or `default`; raises ConfigurationError."""
    name = type(component).__name__
    if hasattr(component, "reads_trees"):
        raise ConfigurationError(f"{name}.reads_trees is no longer used: set reads = Reads.TREE instead")
    reads = getattr(component, "reads", default)
    if not isinstance(reads, Reads):
        raise ConfigurationError(
            f"{name}.reads is {reads!r}: use a value of webcrawl.crawler.components.Reads"
        )
    return reads


def fill_spider(method: Callable[..., Any], crawler: Crawler) -> Callable[..., Any]:
    """Returns the method, or a function that passes the spider to a method that requires it, as before Scrapy 2.14."""
    if not argument_is_required(method, "spider"):
        return method

    @wraps(method)
    def with_spider(*arguments: Any, **named: Any) -> Any:
        return method(*arguments, **named, spider=crawler.spider)

    return with_spider
