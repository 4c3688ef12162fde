"""The settings of the processes of a reparse: those of the crawl, without components that fetch or archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from webcrawl.config import parts, read
from webcrawl.crawler.safeguards import SAFEGUARDS
from webcrawl.errors import ConfigurationError

PLAN = "REPARSE_PLAN"
"""The setting of a process that has the path of the plan."""

_PIPELINES: Mapping[str, str | None] = {
    "webcrawl.pipelines.checksum.ChecksumPipeline": "webcrawl.reparse.components.CopiesPipeline",
    "webcrawl.pipelines.near_duplicates.NearDuplicatesPipeline": "webcrawl.reparse.components.SimhashesPipeline",
    "webcrawl.pipelines.metadata.MetadataPipeline": "webcrawl.reparse.components.RowsPipeline",
    # components that ask hosts or the engine, learn for the frontier, or archive
    "webcrawl.pipelines.soft_404.Soft404Pipeline": None,
    "webcrawl.pipelines.pattern_records.PatternRecordsPipeline": None,
    "webcrawl.pipelines.dust.DustPipeline": None,
    "webcrawl.pipelines.warc.WarcPipeline": None,
    "webcrawl.pipelines.listeners.ListenersPipeline": None,
}
_SPIDER_MIDDLEWARES = {
    "webcrawl.middlewares.outlinks.OutlinksMiddleware": "webcrawl.reparse.components.LinksMiddleware",
}
_DOWNLOADER_MIDDLEWARES = {
    "webcrawl.middlewares.redirect.RedirectMiddleware": "webcrawl.reparse.components.RedirectsMiddleware",
}
_READING = frozenset(
    f"webcrawl.middlewares.{name}"
    for name in (
        "decoding.DecodingMiddleware",
        "html_process.HtmlProcessMiddleware",
        "large_html.LargeHtmlMiddleware",
    )
)
"""The middlewares for responses, beside which a project's middlewares stay."""
_WITHOUT_FETCHES = ("webcrawl.crawler.report.logs.LogFile",)
"""The project's extensions that a reparse has too; the others report fetches, or look after them."""
_EXTENSIONS = [
    path for path in parts.EXTENSIONS if path.startswith("webcrawl.") and path not in _WITHOUT_FETCHES
]
_VALUES: Mapping[str, object] = {
    "SCHEDULER": "webcrawl.reparse.scheduler.ArchiveScheduler",
    "DOWNLOADER": "webcrawl.reparse.downloader.ArchiveDownloader",
    # no request is sent, so no safeguard is needed
    "CRAWL_WITHOUT": ",".join(SAFEGUARDS),
    "RENDER": "",
    "PROXIES": "",
}


def reparse_settings(settings: BaseSettings) -> dict[str, object]:
    """Returns the settings of a crawl to change, as values of `-s`; raises ConfigurationError.

    `settings` must be complete, with the settings of the spider and the add-ons.
    """
    if read(settings, "FRAMES_STITCHED"):
        raise ConfigurationError(
            "FRAMES_STITCHED joins the frames of a page, which scrapy reparse cannot: with -s FRAMES_STITCHED=False it "
            "reads each of them as a page of its own"
        )
    others: dict[str, str | None] = {
        path: None for path in settings["DOWNLOADER_MIDDLEWARES_BASE"] if path not in _READING
    }
    return {
        **_VALUES,
        "ITEM_PIPELINES": _replaced(settings, "ITEM_PIPELINES", _PIPELINES),
        "SPIDER_MIDDLEWARES": _replaced(settings, "SPIDER_MIDDLEWARES", _SPIDER_MIDDLEWARES),
        "DOWNLOADER_MIDDLEWARES": _replaced(
            settings, "DOWNLOADER_MIDDLEWARES", others | _DOWNLOADER_MIDDLEWARES
        ),
        "EXTENSIONS": _replaced(settings, "EXTENSIONS", dict.fromkeys(_EXTENSIONS)),
    }


def pipeline_named(settings: BaseSettings, name: str) -> type[Any]:
    """Returns the enabled item pipeline with this import path or class name; raises ConfigurationError."""
    pipelines: list[type[Any]] = list(
        map(load_object, settings.get_component_priority_dict_with_base("ITEM_PIPELINES"))
    )
    for pipeline in pipelines:
        if name in (pipeline.__name__, global_object_name(pipeline)):
            return pipeline
    names = ", ".join(sorted(pipeline.__name__ for pipeline in pipelines))
    raise ConfigurationError(f"--pipeline {name!r} is not an item pipeline of this crawl: {names}")


def _replaced(
    settings: BaseSettings, name: str, replacements: Mapping[str, str | None]
) -> dict[str, int | None]:
    """Returns a table of components with replacements, or None, at the priorities of the replaced components.

    A class derived from a replaced component is replaced too.
    """
    table: dict[str, int | None] = {
        _path(component): priority for component, priority in settings[name].items()
    }
    for component, priority in settings.get_component_priority_dict_with_base(name).items():
        loaded = load_object(component)
        bases = loaded.__mro__ if isinstance(loaded, type) else (loaded,)
        path = next(
            (base_path for base_path in map(global_object_name, bases) if base_path in replacements), None
        )
        if path is None:
            continue
        table[_path(component)] = None
        if (other := replacements[path]) is not None:
            table[other] = priority
    return table


def _path(component: object) -> str:
    return component if isinstance(component, str) else global_object_name(component)
