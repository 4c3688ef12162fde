"""The add-on keeps the parts of a crawl beside a spider's own, and refuses a crawl without its safeguards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.addons import AddonManager
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from tests.cases import cases
from tests.crawl.conftest import Project
from tests.crawls import CrawlResult
from tests.web import LocalWeb
from webcrawl.crawler.crawl_settings import completed
from webcrawl.crawler.download.downloader import Downloader
from webcrawl.crawler.safeguards import SAFEGUARDS
from webcrawl.crawler.session import Session
from webcrawl.errors import ConfigurationError

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
ADDONS = {"webcrawl.addon.WebcrawlAddon": 100}
OWN = """
from webcrawl.spiders.base import BroadSpider


class Mine:
    crawler = None

    @classmethod
    def from_crawler(cls, crawler):
        mine = cls()
        mine.crawler = crawler
        return mine

    def count(self):
        self.crawler.stats.inc_value(f"mine/{type(self).__name__}")


class MyDownloaderMiddleware(Mine):
    def process_request(self, request):
        self.count()


class MySpiderMiddleware(Mine):
    async def process_spider_output(self, response, result):
        self.count()
        async for one in result:
            yield one


class MyPipeline(Mine):
    def process_item(self, item):
        self.count()
        return item


class MyExtension(Mine):
    @classmethod
    def from_crawler(cls, crawler):
        mine = super().from_crawler(crawler)
        mine.count()
        return mine


class Own(BroadSpider):
    name = "own"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"spiders.own.MyDownloaderMiddleware": 543},
        "SPIDER_MIDDLEWARES": {"spiders.own.MySpiderMiddleware": 543},
        "ITEM_PIPELINES": {"spiders.own.MyPipeline": 543},
        "EXTENSIONS": {"spiders.own.MyExtension": 543},
    }

    def closed(self, reason):
        print(*sorted(name for name in self.crawler.stats.get_stats() if name.startswith("mine/")))
"""


def test_a_spiders_own_components_join_ours(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    project.add_spider("own", OWN)
    web = local_web(SITE)
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private")
    web.put(SITE, "/", "<a href=/private>x</a>" + "".join(f"<a href=/{n}>x</a>" for n in range(30)))
    for n in range(30):
        web.put(SITE, f"/{n}", f"<title>{n}</title>")
    result = run_crawl(
        "own",
        [web.url(SITE)],
        project=project.folder,
        CRAWL_MAX_PAGES=5,
        timeout=60,
    )
    expected = ["MyDownloaderMiddleware", "MyExtension", "MyPipeline", "MySpiderMiddleware"]
    assert [f"mine/{name}" for name in expected] == re.findall(r"mine/\w+", result.stdout)
    fetched = [row for row in result.rows() if row["status"] == 200]
    assert len(fetched) == result.summary["pages"] == 5, "the limit holds, and each page has a row"
    assert any((result.data_dir / "warc").glob("*.warc.gz"))
    assert "/private" not in web.paths(SITE)
    assert web.max_concurrency(SITE) == 1


# --- safeguards ---

REMOVALS = {
    "robots": {"DOWNLOADER_MIDDLEWARES": {"webcrawl.middlewares.robots.RobotsMiddleware": None}},
    "politeness": {"DOWNLOADER_MIDDLEWARES": {"middlewares.politeness.PolitenessMiddleware": None}},
    "address_guard": {"DOWNLOADER_MIDDLEWARES": {"webcrawl.middlewares.dns.DnsMiddleware": None}},
    "acknowledgement": {"SCHEDULER": "scrapy.core.scheduler.Scheduler"},
}
SOURCES = {
    "spider": "the spider's custom_settings",
    "project": "the project's settings",
    "cmdline": "the command line",
}


def begin(changes: Mapping[str, Any], source: str = "project", **more: object) -> Settings:
    """Returns the settings of a starting crawl, after `source` has made `changes`."""
    settings = Settings({"ADDONS": ADDONS})
    given = {**changes, **more}
    if source == "spider":
        kind = type("Changed", (Spider,), {"name": "changed", "custom_settings": given})
    else:
        kind = type("Plain", (Spider,), {"name": "plain"})
        # as -s passes them
        texts = {
            name: json.dumps(value) if isinstance(value, dict) else value for name, value in given.items()
        }
        settings.setdict(texts if source == "cmdline" else given, priority=source)
    crawler = Crawler(kind, settings)
    crawler.crawling = True
    crawler.addons.load_settings(crawler.settings)
    return crawler.settings


@cases("name", SAFEGUARDS)
@cases("source", SOURCES)
def test_a_crawl_without_a_safeguard_is_refused(name: str, source: str) -> None:
    (setting,) = REMOVALS[name]
    sentence = (
        rf"^{setting}, set by {SOURCES[source]}, leaves out {re.escape(SAFEGUARDS[name].path)}, without which .*: "
        rf"put it back, or set CRAWL_WITHOUT = \['{name}'\] if you mean it$"
    )
    with pytest.raises(ConfigurationError, match=sentence):
        begin(REMOVALS[name], source)
    begin(REMOVALS[name], source, CRAWL_WITHOUT=[name])


@cases("name", SAFEGUARDS)
def test_waiving_one_safeguard_waives_no_other(name: str) -> None:
    others = [other for other in SAFEGUARDS if other != name]
    with pytest.raises(ConfigurationError, match=re.escape(SAFEGUARDS[name].path)):
        begin(REMOVALS[name], CRAWL_WITHOUT=others)


def test_robotstxt_obey_is_enough_to_do_without_robots_txt() -> None:
    for custom in (REMOVALS["robots"], {}):
        assert begin(custom, ROBOTSTXT_OBEY=False)["CRAWL_WITHOUT"] == []
    begin({"ROBOTSTXT_OBEY": False})


def test_a_handler_without_the_address_guard_is_refused() -> None:
    path = "scrapy.core.downloader.handlers.datauri.DataURIDownloadHandler"
    with pytest.raises(ConfigurationError, match=f"^DOWNLOAD_HANDLERS.* names {path} for https"):
        begin({"DOWNLOAD_HANDLERS": {"https": path}})
    settings = begin({"DOWNLOAD_HANDLERS": {"https": None, "gopher": path}})
    handlers = settings["DOWNLOAD_HANDLERS"]
    assert (handlers["https"], handlers["gopher"]) == (None, path)
    assert handlers["http"].startswith("webcrawl."), "ours stay beside the user's"


def test_an_unknown_safeguard_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"CRAWL_WITHOUT names 'guard': it may have 'robots', "):
        begin({}, CRAWL_WITHOUT=["guard"])


REMOVING = f"""
class Removing:
    def update_settings(self, settings):
        settings.set("DOWNLOADER_MIDDLEWARES", {REMOVALS["robots"]["DOWNLOADER_MIDDLEWARES"]}, "spider")
"""
UNCHECKED = {
    "no add-on": (
        {},
        r"ADDONS, set by the spider's custom_settings, leaves out webcrawl\.addon\.WebcrawlAddon, .*",
    ),
    "another add-on": (
        {**ADDONS, "spiders.own.Removing": 500},
        r"DOWNLOADER_MIDDLEWARES, set by .*, leaves out webcrawl.* if you mean it",
    ),
}


def test_a_crawler_has_a_spider_class_without_a_name(tmp_path: Path) -> None:
    """As tests of components make it; a spider may also set its name in its constructor."""
    crawler = get_crawler(Spider, {"ADDONS": ADDONS, "DATA_DIR": str(tmp_path)})
    assert Session.of(crawler).config.crawl_id == "Spider"


@pytest.mark.parametrize(("addons", "refusal"), UNCHECKED.values(), ids=UNCHECKED)
def test_a_spider_that_replaces_the_addons_is_refused_in_one_line(
    project: Project, run_crawl: RunCrawl, addons: dict[str, int], refusal: str
) -> None:
    # without the add-on, with none of our classes that could refuse it
    bare = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "DOWNLOADER": "scrapy.core.downloader.Downloader"}
    custom = {"ADDONS": addons} if addons else {"ADDONS": {}, **REMOVALS["robots"], **bare}
    project.add_spider(
        "own",
        f"import scrapy\n{REMOVING}\nclass Own(scrapy.Spider):\n    name = 'own'\n    custom_settings = {custom}",
    )
    result = run_crawl("own", ["http://127.0.0.1:1/"], project=project.folder, timeout=60, status=2)
    assert re.fullmatch(rf"scrapy crawl: {refusal}\n", result.stderr), result.stderr
    assert not (result.data_dir / "engine").exists()


class Removing:
    """An add-on that comes after ours."""

    def update_settings(self, settings: Settings) -> None:
        settings.set("DOWNLOADER_MIDDLEWARES", REMOVALS["robots"]["DOWNLOADER_MIDDLEWARES"], "spider")


@pytest.mark.parametrize("addons", [{}, {**ADDONS, Removing: 500}], ids=UNCHECKED)
def test_a_program_that_crawls_with_such_a_spider_is_refused(addons: dict[Any, int]) -> None:
    settings = Settings({"ADDONS": ADDONS})
    AddonManager.load_pre_crawler_settings(settings)
    kind = type("Changed", (Spider,), {"name": "changed", "custom_settings": {"ADDONS": addons}})
    crawler = Crawler(kind, settings)
    crawler.crawling = True
    crawler.addons.load_settings(crawler.settings)
    assert crawler.settings["DOWNLOADER"] == "webcrawl.crawler.download.downloader.Downloader"
    with pytest.raises(ConfigurationError, match="leaves out webcrawl"):
        Downloader(crawler)


def test_the_command_prints_the_refusal_in_one_line(
    project: Project, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    text = OWN.replace(
        '{"spiders.own.MyDownloaderMiddleware": 543}', str(REMOVALS["robots"]["DOWNLOADER_MIDDLEWARES"])
    )
    project.add_spider("own", text)
    result = run_crawl("own", ["http://127.0.0.1:1/"], project=project.folder, timeout=60, status=2)
    assert re.fullmatch(r"scrapy crawl: DOWNLOADER_MIDDLEWARES, .* if you mean it\n", result.stderr)
    assert not (result.data_dir / "engine").exists()


# --- precedence ---


def test_settings_of_the_project_take_precedence_over_the_addon() -> None:
    settings = begin({"DOWNLOAD_DELAY": 3, "LOG_LEVEL": "DEBUG"}, URL_FILTERS={"my.Filter": 50})
    assert (settings["DOWNLOAD_DELAY"], settings["LOG_LEVEL"]) == (3, "DEBUG")
    assert settings["CRAWL_MAX_PAGES"] == 0
    assert settings["URL_FILTERS"]["my.Filter"] == 50
    assert settings["URL_FILTERS"]["webcrawl.urls.filters.SchemeFilter"] == 100


def test_our_components_stay_when_a_spider_replaces_the_addons() -> None:
    kind = type("Changed", (Spider,), {"name": "changed", "custom_settings": {"ADDONS": {}}})
    settings = completed(Settings({"ADDONS": ADDONS}), kind)
    assert settings["SCHEDULER"] == "webcrawl.scheduler.FrontierScheduler"
    middlewares = settings.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES")
    assert {safeguard.path for safeguard in SAFEGUARDS.values()} - {settings["SCHEDULER"]} <= {*middlewares}


def test_a_spider_of_the_project_replaces_ours_of_the_same_name() -> None:
    settings = completed(Settings({"ADDONS": ADDONS, "SPIDER_MODULES": ["shop.spiders"]}))
    assert settings["SPIDER_MODULES"] == ["webcrawl.spiders", "shop.spiders"]


def test_our_handlers_precede_those_that_scrapy_adds_without_a_reactor() -> None:
    settings = begin({})
    for scheme in ("http", "https", "ftp"):
        settings["DOWNLOAD_HANDLERS_BASE"][scheme] = "as.Scrapy.does"
    assert settings.getwithbase("DOWNLOAD_HANDLERS")["http"].startswith("webcrawl.")


def test_a_short_name_turns_a_component_off() -> None:
    settings = begin({"ITEM_PIPELINES": {"pipelines.html.HtmlPipeline": None}})
    pipelines = settings.get_component_priority_dict_with_base("ITEM_PIPELINES")
    assert "webcrawl.pipelines.pdf.PdfPipeline" in pipelines
    assert not [path for path in pipelines if path.endswith("HtmlPipeline")]
