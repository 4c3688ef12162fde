"""`scrapy dashboard`: serves pages that show the crawls of an engine, with actions for operators."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from webcrawl.config.libraries import optional
from webcrawl.crawler.command import flag
from webcrawl.web.command import ServerCommand, server_options

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.web.access import Access
    from webcrawl.web.server import Server
    from webcrawl.web.starter import CrawlStarter

_PORT = 8780


class Command(ServerCommand):
    """Reads the engine while pages are open, also without running crawls."""

    summary = "Serve crawls, hosts, URLs and jobs to a browser"
    description = "Serve pages that show the crawls, hosts, URLs and jobs, with actions for operators"
    name = "dashboard"
    purpose = "shows all crawls"
    options = server_options(name, _PORT, "look and act", flag("--read-only", "nobody may act"))

    def check(self, opts: argparse.Namespace) -> None:
        check_libraries()

    def server(
        self, opened: OpenedCrawl, opts: argparse.Namespace, access: Access, starter: CrawlStarter
    ) -> Server:
        from webcrawl.web.app import create_app
        from webcrawl.web.server import Server

        return Server(create_app(opened, self.settings, access, starter), opts.certificate, opts.key)


def check_libraries() -> None:
    """Imports the libraries of the dashboard; raises LibraryMissing."""
    optional("a web server", "starlette", "dashboard", "starlette.applications")
    optional("a web server", "jinja2", "dashboard", "jinja2")
    optional("a web server", "uvicorn", "dashboard", "uvicorn")
