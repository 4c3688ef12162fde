"""`scrapy reparse` of random pages: rows, links and texts are those of the crawl."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

import pytest

from tests.crawl.reparsing import differences, forget_reading, rows, summary
from tests.crawl.test_reparse import stored_links, stored_texts
from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

SITE, PAGES = "127.0.1.1", 120
WORDS = [
    "stork",
    "heron",
    "nest",
    "Fluß",
    "été",
    "東京",
    "год",
    "&amp;",
    "&lt;b&gt;",
    "\xad",
    "\u200b",
    "a1",
    "<wbr>x",
]
HEADS = (
    '<meta charset="{charset}">',
    '<meta name="robots" content="{robots}">',
    '<meta name="description" content="{words}">',
    '<meta property="article:published_time" content="{date}">',
    '<meta http-equiv="refresh" content="9; url={path}">',
    '<link rel="canonical" href="{path}"><link rel="next" href="{path}?page=2">',
    '<base href="/{name}/">',
    '<script type="application/ld+json">{{"@type": "NewsArticle", "author": "{words}", '
    '"datePublished": "{date}"}}</script>',
    "<title>{words}</title>",
)
BLOCKS = (
    "<p class=c{number}>{words} <a href='{path}' rel='{rel}'>{words}</a> {words}</p>",
    "<nav><ul><li><a href={path}>{words}<li><a href=/>home</a></ul></nav>",
    "<table><tr><th>{words}<td><a href='../{name}'>{words}</a></table>",
    "<article lang={language}><h1>{words}</h1><p>{words}, {words}, {words}.</p></article>",
    "<pre>{words}\n  {words}</pre><!-- {words} -->",
    "<iframe src={path} title='{words}'></iframe><area href={path} alt='{words}'>",
    "<svg><a href={path}>{words}</a></svg><template><a href={path}>hidden</a></template>",
    "<div hidden>{words}</div><h2>{words}<h3>{words}</h2></div></p>",
    "<a href='{path}'><img src=x.png alt='{words}'></a><a href='http://[broken'>{words}</a>",
    "<b><i><p>{words}</b></i> http://{name}.invalid/{words}",
)
TYPES = ("text/html", "text/html; charset={charset}", "application/xhtml+xml", "text/plain", "", "image/png")
HEADERS = (
    ("X-Robots-Tag", "{robots}"),
    ("Content-Language", "{language}"),
    ("Link", '<{path}>; rel="{rel}"'),
    ("ETag", '"{number}"'),
    ("Last-Modified", "Tue, 03 Feb 2026 04:05:06 GMT"),
)
KINDS = {
    "charset": ["utf-8", "latin-1", "cp1251", "shift_jis", "nonsense"],
    "robots": ["noindex", "nofollow", "noarchive", "all", "max-snippet: 9, nofollow"],
    "date": ["2026-02-03", "2026-02-03T04:05:06+01:00", "03.02.2026", "never"],
    "rel": ["nofollow", "next", "NoFollow ugc", "canonical", ""],
    "language": ["en", "de-AT", "xx", "ja"],
}


class RandomWeb:
    """Pages that link to each other; each is made of random parts."""

    def __init__(self, web: LocalWeb, seed: int) -> None:
        self._draw = random.Random(seed)
        links = "".join(f"<a href=/p{number}>{number}</a>" for number in range(PAGES))
        web.put(SITE, "/", links)
        for number in range(PAGES):
            web.put(SITE, f"/p{number}", self._reply())

    def _reply(self) -> Reply:
        if self._draw.random() < 0.05:
            return Reply("moved", 302, {"Location": self._filled("{path}")})
        markup = "<!doctype html><html>" * self._draw.randrange(2) + "".join(
            self._filled(part)
            for parts, most in ((HEADS, 5), (BLOCKS, 30))
            for part in self._draw.choices(parts, k=self._draw.randrange(most))
        )
        body = markup.encode(self._draw.choice(["utf-8", "utf-8", "utf-16", "cp1251"]), "replace")
        body = body[: self._draw.choice([len(body), len(body), len(body) // 2])]
        headers = {name: self._filled(value) for name, value in self._draw.sample(HEADERS, k=2)}
        headers["Content-Type"] = self._filled(self._draw.choice(TYPES))
        if self._draw.random() < 0.2:
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body)[: self._draw.choice([None, 60])]
        return Reply(body, self._draw.choice([200, 200, 200, 200, 404, 500]), headers)

    def _filled(self, text: str) -> str:
        number = self._draw.randrange(PAGES)
        chosen = {kind: self._draw.choice(values) for kind, values in KINDS.items()}
        words = " ".join(self._draw.choices(WORDS, k=self._draw.choice([1, 3, 30])))
        names = {"number": number, "name": f"p{number}", "path": f"/p{number}", "words": words}
        return text.format(**names, **chosen)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_pages_are_read_as_in_the_crawl(
    local_web: Callable[..., LocalWeb], crawl: Callable[..., CrawlResult], seed: int
) -> None:
    web = local_web(SITE)
    RandomWeb(web, seed)
    tables = {"LINKS": "True", "TEXT": "wet,parquet", "TEXT_LINKS": "True"}
    result = crawl([web.url(SITE)], FRONTIER_MAX_ATTEMPTS=1, timeout=90, **tables)
    before, links, texts = (of(result.data_dir) for of in (rows, stored_links, stored_texts))
    assert len(before) > PAGES * 0.8 and len(texts) > PAGES / 3, result.stderr
    forget_reading(result.data_dir)
    words = [word for name, value in tables.items() for word in ("-s", f"{name}={value}")]
    told = summary(result.data_dir, *words)
    assert (told["failed"], told["left"]) == (0, 0)
    assert differences(before, rows(result.data_dir)) == []
    assert stored_links(result.data_dir) == links and len(links) > 2 * PAGES
    assert stored_texts(result.data_dir) == texts
