"""`scrapy graph` after a crawl with LINKS, by the commands of the tutorial, and what it says when it cannot work."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import networkx
import pyarrow.parquet as parquet
import pytest

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, NO_NAMES, scrapy
from tests.unit.links.rows import entry
from tests.web import LocalWeb
from webcrawl.links.store import LinkStore

SITE, OTHER = "127.0.1.1", "127.0.1.2"
HERE = Project(CHECKOUT)
TUTORIAL = CHECKOUT / "docs" / "guide" / "rank-pages.md"
MENU = "<a href=/>home</a><a href=/imprint>imprint</a>"
PAGES = {
    "/": f"{MENU}<a href=/a>a</a><a href=/b>b</a>",
    "/a": f"{MENU}<a href=/b>b</a><a href=/b>again</a><a href=/a>itself</a><a rel=nofollow href=/paid>paid</a>",
    "/b": f"{MENU}<a href=/gone>gone</a>",
    "/imprint": "no links",
}


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, LocalWeb, str]]:
    """The folder in which the commands of the tutorial ran, the web that was crawled, and what they printed."""
    folder, bin_folder = tmp_path_factory.mktemp("tutorial"), Path(sys.executable).parent
    commands = re.findall(r"^((?:scrapy|python) .+)$", TUTORIAL.read_text(), re.MULTILINE)
    assert [command.split()[:2] for command in commands[:2]] == [["scrapy", "crawl"], ["scrapy", "graph"]]
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    printed = ""
    with LocalWeb(SITE, OTHER) as web:
        away = f"<a href={web.url(OTHER)}>away</a>"
        for path, body in PAGES.items():
            web.put(SITE, path, body + (away if path == "/b" else ""))
        for command in commands:
            command = command.replace("http://127.0.0.1:8000/", web.url(SITE)).replace(
                " graph", f" {folder}/graph"
            )
            command = command.replace(f"scrapy {folder}/graph", "scrapy graph")
            if command.startswith("scrapy"):
                command += f" -s DATA_DIR={folder}/data -s DOWNLOAD_DELAY=0 -s DNS_SERVERS={NO_NAMES}"
                done = scrapy(*shlex.split(command)[1:])
            else:
                done = subprocess.run(
                    command,
                    shell=True,
                    cwd=CHECKOUT,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            printed += done.stdout
        yield folder, web, printed


def test_the_tutorial_ranks_the_pages_that_were_served(followed: tuple[Path, LocalWeb, str]) -> None:
    folder, web, printed = followed
    links = {path: set(re.findall(r"<a href=(/\w*)>", body)) - {path} for path, body in PAGES.items()}
    graph = networkx.DiGraph([(path, target) for path, targets in links.items() for target in targets])
    graph.add_edge("/b", web.url(OTHER))
    rows = parquet.read_table(folder / "graph" / "pages" / "vertices.parquet").to_pylist()
    found = {row["url"].removeprefix(web.host(SITE)): row for row in rows}
    assert set(found) == set(graph)
    ranks, central = networkx.pagerank(graph, tol=1e-12), networkx.harmonic_centrality(graph)
    for name, row in found.items():
        assert row["pagerank"] == pytest.approx(ranks[name], abs=1e-7)
        assert row["harmonic"] == pytest.approx(central[name])
    assert "Pages: 6, with 10 edges" in printed and f"Wrote {folder}/graph." in printed
    best = max(found.values(), key=lambda row: row["pagerank"])
    assert f"{round(best['pagerank'], 4)}" in printed
    assert re.search(rf"most often on these pages, .*\n +{best['pagerank']:.1%}  {best['url']}\n", printed)
    hosts = gzip.decompress((folder / "graph" / "hosts" / "edges.txt.gz").read_bytes())
    assert hosts == b"0\t1\n"
    assert (folder / "graph" / "pages" / "degrees.svg").exists()


def test_the_summary_and_wrong_uses(followed: tuple[Path, LocalWeb, str], tmp_path: Path) -> None:
    data = ("-s", f"DATA_DIR={followed[0]}/data")
    words = ("graph", "-o", f"{tmp_path}/hosts", "--hosts", "--nofollow", "--json", "--memory", "1", *data)
    summary = json.loads(HERE.scrapy(*words))
    assert summary == json.loads((tmp_path / "hosts" / "summary.json").read_text())
    assert (summary["links"], summary["hosts"]["vertices"]) == (14, 2)
    assert "hosts exists and is not an empty folder" in HERE.scrapy(*words, code=1)
    assert "crawl with LINKS = True" in HERE.scrapy(
        "graph", "-o", f"{tmp_path}/x", "-s", f"DATA_DIR={tmp_path}", code=1
    )
    assert "crawl 'other' has stored no links" in HERE.scrapy(
        "graph", "-o", f"{tmp_path}/x", "--crawl", "other", *data, code=1
    )
    for memory in ("0.1", "inf", "nan"):
        wrong = HERE.scrapy("graph", "-o", f"{tmp_path}/x", "--memory", memory, *data, code=2)
        assert "--memory must be from 0.5 to 1,000,000 GB" in wrong
    assert "give the folder to write" in HERE.scrapy("graph", *data, code=2)


def test_ctrl_c_ends_the_computation_and_leaves_nothing(tmp_path: Path) -> None:
    """A chain of pages, whose harmonic centrality takes a minute."""
    links = LinkStore(tmp_path / "data" / "links", "broad")
    url = "http://a.example/{}".format
    links.write([entry(url(number), url(number + 1)) for number in range(30_000)])
    links.close()
    command = [
        sys.executable,
        "-m",
        "scrapy",
        "graph",
        "-o",
        f"{tmp_path}/graph",
        "-s",
        f"DATA_DIR={tmp_path}/data",
    ]
    process = subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".graph-*/scratch/backward*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "Interrupted: nothing was written.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
