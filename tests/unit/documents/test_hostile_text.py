"""Inputs that could make patterns backtrack are matched in linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.forks import forks_of

HOSTILE = {
    "comments before a text": "sniffed(b'<!---->' * 200)",
    "a banner of comments": "sniffed(b'<!-- ,.- -->\\n' * 100)",
    "processing instructions": "sniffed(b'<?x?>' * 280)",
    "document types": "sniffed(b'<!DOCTYPE[]>' * 110)",
    "all of these": "sniffed(b'<?x?><!----><!DOCTYPE a[ ] ]>' * 50)",
    "a length of an image": "image._LENGTH.match('1' + ' ' * 2_000_000 + 'x')",
    "names of classes": "names._MAIN_NAME.search('_' * 200_000)",
    "dates in a notice": "notices._DATE.search('1' + ' ' * 200_000)",
    "wrapping of JSON-LD": "linked_data._WRAPPING.sub('', '-->' + ' ' * 2_000_000 + '// ' * 500_000 + 'x')",
    "dates": "dates.read_date('1' + ' ' * 2_000_000 + 'x')",
    "a refresh": "links.refresh_address('1' * 500_000 + ' ' * 500_000 + ';' + ' ' * 500_000 + 'url' + ' ' * 500_000)",
    "directives": "list(robots._DIRECTIVE.finditer(' ' * 500_000 + 'a' * 500_000 + ' ' * 500_000 + 'x: , ' * 100_000))",
    "links in a header": "list(links.header_links(['<>;a=\"\\\\' * 100_000]))",
    "spaces in a style sheet": "rewriting.rewritten_style('url(' + ' ' * 500_000, Base('http://h/'), print)",
    "addresses in a style sheet": "rewriting.rewritten_style('url(a\\\\' * 200_000, Base('http://h/'), print)",
    "declarations of charsets": "charset_of('text/html', b'<meta charset' + b' a=' * 9_000, 'text/html')",
    "names in a declaration": "charset_of('text/html', b'<meta charset ' + b'a' * 16_000 + b'>', 'text/html')",
    "pragmas": "charset_of('text/html', b'<meta content=charset' * 900, 'text/html')",
    "a type with parameters": "charset_of('text/html; ' + '; a=\"\\\\' * 100_000, b'', 'text/html')",
    "commas in a srcset": "rewriting.source_set(',' * 2_000_000, Base('http://h/'), print)",
}
READERS = """
from webcrawl.urls.canonical import Base
from webcrawl.documents.html import links
from webcrawl.documents.html import links
from webcrawl.results import rewriting
from webcrawl.documents.mime.charset import charset_of
from webcrawl.hosts import robots_directives as robots
from webcrawl.documents.mime import dates
from webcrawl.documents.mime import image
from webcrawl.documents.html import linked_data
from webcrawl.documents.html import names
from webcrawl.documents.html import notices
from webcrawl.documents.mime.sniff import mime_type_of
def sniffed(start):
    assert mime_type_of("text/html", start + b"text", "http://h/") == "text/html"
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str], str]]:
    with forks_of(READERS) as run:
        yield run


@pytest.mark.parametrize("text", HOSTILE)
def test_patterns_match_hostile_text_in_linear_time(text: str, run: Callable[[str], str]) -> None:
    # each takes less than two seconds; unbounded patterns would take minutes to years
    limit = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (60, 60))\n"
    assert run(limit + HOSTILE[text]) == ""
