"""The language of documents: declared by the document or the server, or detected in its text."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.crawls import CrawlResult
from tests.documents import odt, pdf
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
GERMAN = (
    "Wer am Morgen die Fenster öffnet, hört zuerst die Vögel und dann die Straßenbahn. Danach beginnt der"
    " Tag, und niemand hat mehr Zeit, auf die kleinen Geräusche zu achten."
)
ENGLISH = (
    "Whoever opens the windows in the morning hears the birds first and then the tram. After that the day"
    " begins, and nobody has the time to listen to the small noises any more."
)
ITALIAN = (
    "Chi apre le finestre al mattino sente prima gli uccelli e poi il tram. Dopo comincia la giornata e"
    " nessuno ha più tempo per ascoltare i piccoli rumori."
)


def test_documents_of_every_type_have_a_language(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    html = {"Content-Type": "text/html; charset=utf-8"}
    documents = {
        "/declared": Reply(f"<html lang=en-GB><p>{GERMAN} 1", headers=html),
        "/told": Reply(f"<p>{GERMAN} 2", headers={**html, "Content-Language": "fr-CA"}),
        "/several": Reply(f"<p>{GERMAN} 3", headers={**html, "Content-Language": "de, fr"}),
        "/detected": Reply(f"<p>{GERMAN} 4", headers=html),
        "/short": Reply("<p>Guten Tag", headers=html),
        "/wrong": Reply(f"<html lang=en><p>{GERMAN * 5} 6", headers=html),
        "/mixed": Reply(f"<html lang=de><p>{GERMAN * 3}<p>{ENGLISH * 4} 7", headers=html),
        "/noindex": Reply(f"<meta name=robots content=noindex><p>{GERMAN} 5", headers=html),
        "/text": Reply(ITALIAN, headers={"Content-Type": "text/plain; charset=utf-8"}),
        "/pdf": Reply(pdf(ENGLISH, language=""), headers={"Content-Type": "application/pdf"}),
        "/odt": Reply(
            odt(ITALIAN, "E così via."), headers={"Content-Type": "application/vnd.oasis.opendocument.text"}
        ),
    }
    for path, reply in documents.items():
        web.put(SITE, path, reply)
    home = web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in documents))
    result = crawl([home])
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert {path: (rows[path]["language"], rows[path]["language_source"]) for path in documents} == {
        "/declared": ("en", "declared"),
        "/told": ("fr", "declared"),
        "/several": ("de", "detected"),
        "/detected": ("de", "detected"),
        "/short": (None, None),
        "/wrong": ("de", "detected"),
        "/mixed": ("de", "declared"),
        "/noindex": (None, None),
        "/text": ("it", "detected"),
        "/pdf": ("en", "detected"),
        "/odt": ("it", "detected"),
    }
    languages = {path: json.loads(rows[path]["details"] or "{}").get("languages") for path in documents}
    assert languages["/wrong"] == {
        "declared": "en",
        "detected": "de",
        "score": 0.99,
        "content_languages": ["de"],
    }
    assert languages["/mixed"]["declared"] == "de"
    assert languages["/mixed"]["content_languages"] == ["de", "en"]
    assert languages["/pdf"]["content_languages"] == ["en"]
    assert languages["/short"] is languages["/noindex"] is None
