"""`scrapy mine`, and crawls with what it has learned."""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, until
from tests.metadata import row
from tests.wanted_web import SITES, fill, first_half
from tests.web import Hit, LocalWeb, Reply
from webcrawl.config import StoreConfig
from webcrawl.mining.workspace import TABLES
from webcrawl.policies.learned_value import BITS, ValueModel, bucket
from webcrawl.policies.mined import Mined, mark
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.weights_file import NAME, WeightsFile

RunCrawl = Callable[..., CrawlResult]
HERE = Project(CHECKOUT)
PAGES = 320
SITE = "127.0.1.1"


def share(result: CrawlResult, crawl: str) -> float:
    """The part of the value of a crawl that its first half had."""
    rows = [row for row in result.rows() if row["crawl"] == crawl and row["status"] == 200]
    assert len(rows) == PAGES + len(SITES)
    return first_half([row | {"value": json.loads(row["details"])["text_length"]} for row in rows])


@pytest.mark.slow
def test_the_first_half_has_most_of_the_value(local_web: Callable[..., LocalWeb], crawl: RunCrawl) -> None:
    """What an earlier crawl has shown makes wanted pages come first."""
    seeds = fill(local_web(*SITES), PAGES)
    plain = crawl(seeds, CRAWL_ID="plain", LINKS=True)
    assert 0.35 < share(plain, "plain") < 0.65
    data = ("-s", f"DATA_DIR={plain.data_dir}")
    told = HERE.scrapy("mine", *data)
    mined = plain.data_dir / "mined"
    assert {path.stem for path in mined.iterdir()} == {
        NAME,
        *TABLES,
    } and f"tables in {mined}: patterns" in told
    assert "Patterns of URLs by the mean value of their pages (text):\n" in told
    assert "Pages to visit again, because they lead to new URLs first (hubs):\n" in told
    wrong = HERE.scrapy("mine", "--crawl", "other", *data, code=1)
    assert "crawl 'other' has stored no page and no link" in wrong
    assert (mined / "hubs.parquet").stat().st_size > 1000, "the tables of the run before stay"
    assert f"learned text from {PAGES + len(SITES)} pages: explains " in told
    learned = crawl(seeds, CRAWL_ID="learned", MINED=True)
    assert share(learned, "learned") >= 0.85
    checked = HERE.scrapy("checkurl", f"{seeds[0]}users/7/", "--json", "-s", "MINED=True", *data)
    assert json.loads(checked)["terms"]["LearnedValue"]["weight"] < -0.5


def test_a_running_crawl_reads_weights_again(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl], tmp_path: Path
) -> None:
    """A crawl begins without weights, gets some, keeps them when the file is damaged, and gets others."""
    web, opened = local_web(SITE), [threading.Event() for _ in range(2)]
    home = web.put(SITE, "/", "<a href=/hub0>hub</a>")
    for number, gate in enumerate(opened):
        links = "".join(
            f"<a href=/{kind}{number}/{one}>x</a>" for one in range(9) for kind in ("left", "right")
        )
        web.put(SITE, f"/hub{number}", hub(gate, f"{links}<a href=/hub{number + 1}>hub</a>"))
        for one in range(9):
            for kind in ("left", "right"):
                web.put(SITE, f"/{kind}{number}/{one}", f"{kind} {number} {one}")
    folder = tmp_path / "data" / "mined"
    file = WeightsFile.of(StoreConfig("", "", tmp_path, mined=folder.as_uri()))
    running = start_crawl("broad", [home], MINED=True, LOG_LEVEL="INFO")
    until(lambda: "/hub0" in web.paths(SITE), running)
    file.write(preferring("left"))
    until(lambda: "mined at left, are in use" in running.stderr, running)
    opened[0].set()
    until(lambda: "/hub1" in web.paths(SITE), running)
    (folder / NAME).write_text("damaged")
    until(
        lambda: f"{NAME} is not used: it has no weights. The weights that were read" in running.stderr,
        running,
    )
    file.write(preferring("right"))
    until(lambda: "mined at right, are in use" in running.stderr, running)
    opened[1].set()
    assert running.wait().returncode == 0, running.stderr
    assert running.stderr.count("is not used") == 1
    order = [path for path in web.paths(SITE) if path[1:].startswith(("left", "right"))]
    assert len(order) == 36
    # not all of them: some links of a host are of a lower level, so that none waits for ever
    assert share_first(order, "left0", "right0") > 0.8 and share_first(order, "right1", "left1") > 0.8


def share_first(order: list[str], good: str, other: str) -> float:
    """The share of pairs of a path of `good` and one of `other` in which the former comes first."""
    where = {
        kind: [at for at, path in enumerate(order) if path[1:].startswith(kind)] for kind in (good, other)
    }
    pairs = [early < late for early in where[good] for late in where[other]]
    return sum(pairs) / len(pairs)


def hub(gate: threading.Event, body: str) -> Callable[[Hit], Reply]:
    """A page that is answered once the gate is open."""

    def answer(hit: Hit) -> Reply:
        gate.wait(60)
        return Reply(body)

    return answer


def preferring(kind: str) -> Mined:
    """Weights by which the hubs come first, then pages whose paths have this word, then others."""
    table = array("f", bytes(4 << BITS))
    for feature, weight in ((f"word {kind}", 0.75), ("word hub", 1.5)):
        place, sign = bucket(feature)
        table[place] = sign * weight
    return Mined(kind, ValueModel("text", -0.5, table))


def test_boilerplate_gets_less_credit(
    local_web: Callable[..., LocalWeb], crawl: RunCrawl, tmp_path: Path
) -> None:
    """Of two targets that all pages link to, one is known as boilerplate."""
    web = local_web(SITE)
    pages = [f"/page/{number}" for number in range(32)]
    for path in pages:
        web.put(SITE, path, f"{path} <a href=/menu>menu</a> <a href=/content>content</a>")
    for path in ("/menu", "/content"):
        web.put(SITE, path, f"the page {path}")
    seed = web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in pages))
    marks = {f"{web.host(SITE)}/page/#": frozenset([mark(web.url(SITE, "/menu"))])}
    folder = (tmp_path / "data" / "mined").as_uri()
    WeightsFile.of(StoreConfig("", "", tmp_path, mined=folder)).write(Mined("now", marks=marks))
    result = crawl([seed], MINED=True)
    importance = {row["url"]: row["importance"] for row in result.rows()}
    assert importance[web.url(SITE, "/menu")] < importance[web.url(SITE, "/content")] / 2


def test_what_cannot_be_mined_is_one_line(tmp_path: Path) -> None:
    data = ("-s", f"DATA_DIR={tmp_path}")
    with Metadata(f"sqlite:///{tmp_path}/metadata.db") as metadata:
        metadata.upsert([row("http://a.example/", status=200)])
    wrong = HERE.scrapy("mine", "--target", "1; DROP TABLE pages", *data, code=1)
    assert (
        "'1; DROP TABLE pages' is no column of table pages; these columns have: attempts, change_distance, "
        in wrong
    )
    condition = HERE.scrapy("mine", "--target", "langage = 'ja' AND text_length > 2000", *data, code=1)
    assert (
        "no condition on pages: 'langage' is none of attempts, " in condition and "Traceback" not in condition
    )
    few = HERE.scrapy("mine", "--target", "language = 'ja' AND text_length > 2000", *data, code=1)
    assert "1 pages have a value \"language = 'ja' AND text_length > 2000\"" in few
    assert not (tmp_path / "mined").exists()
