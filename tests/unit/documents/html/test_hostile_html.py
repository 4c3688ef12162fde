"""HTML that would cost the parser gigabytes or hours, parsed in a process with limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cases import cases
from tests.forks import forks_of
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.markup import MAX_ATTRIBUTES
from webcrawl.documents.markup_bounds import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_PER_NAME,
    MAX_TAGS,
    TRUSTED_TAGS,
    flattened,
    may_exceed,
)

MEGABYTES = 280
# up to a million elements are reopened
MEGABYTES_WITH_STYLES = 450
SECONDS = 30
HOSTILE = {
    "styles opened anew": "'<p>' + ''.join(f'<b id={i}>' for i in range(400)) + '</p>' + '<p>x' * 20_000",
    "a few styles": "'<p>' + ''.join(f'<i id={i}>' for i in range(10)) + '</p>' + '<p>x' * 2_000_000",
    "a style a paragraph": "''.join(f'<p><b id={i}>x</p>' for i in range(400_000))",
    "styles ended in comments": "'<p>' + ''.join(f'<b id={i}><!--</b>-->' for i in range(4_000)) + '<p>x' * 20_000",
    "styles ended in cells": "'<td>' + ''.join(f'<b id={i}><object></b>' for i in range(4_000)) + '<p>x' * 20_000",
    "styles cut by >": "'<p>' + ''.join(f'<b x=\">{i}\">' for i in range(4_000)) + '<p>x' * 20_000",
    "styles cut by quotes": "'<p>' + ''.join(f'<b x=\\'\"\\' y=\">{i}\">' for i in range(4_000)) + '<p>x' * 9_000",
    "long styles": "'<p>' + ''.join(f'<b {\" \" * 600}{i}>' for i in range(4_000)) + '<p>x' * 20_000",
    "styles alike": "'<p>' + '<b x=1><!--</b>-->' * 4_000 + '<p>x' * 400_000",
    "few tags": "'<p>' + ''.join(f'<b id={i}>' for i in range(4_000)) + '</p>' + '<p>x' * 4_000",
    "paragraphs": "'<p>x' * 2_000_000",
    "anchors": "'<a>' * 2_700_000",
    "bold": "'<b>' * 2_700_000",
    "end tags": "'<p>' + '</p>' * 2_000_000",
    "comments": "'<!>' * 2_000_000",
    "options": "'<select>' + '<option>x' * 800_000",
    "groups of options": "'<optgroup>x' * 600_000",
    "ruby": "'<rt>x' * 1_000_000",
    "roots": "''.join(f'<html a{i}=1><body a{i}=1>' for i in range(300_000))",
    "attributes": "'<a ' + ' '.join(f'a{i}' for i in range(900_000)) + ' href=/x>t'",
    "attributes in parts": "'<html' + ''.join(f' a{i}' + '<html' * (i % 9_000 == 0) for i in range(900_000))",
    "links": "'<base href=a>' * 600_000",
    "unclosed tags": "'<b ' * 2_000_000",
}
SLOW = ("a style a paragraph", "anchors", "comments", "end tags", "groups of options", "ruby")
"""Those that cost much and are like others: paragraphs, bold, options."""
IMPORTS = """
import resource
from webcrawl.documents.document import Document
from webcrawl.documents.html.links import collect
from webcrawl.documents.html.facts import describe
"""
PARSER = """
resource.setrlimit(resource.RLIMIT_CPU, (%d, %d))
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
document = Document((%s).encode(), "text/html", "utf-8", "http://h/")
facts = describe(document)
facts.text, collect(document.elements).joined("http://h/")
# not ru_maxrss, which begins with what the process had that started this one
status = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("Vm"))
print(int(status["VmHWM"].split()[0]) // 1024, facts.details.get("simplified"))
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str], str]]:
    with forks_of(IMPORTS) as run:
        yield run


@pytest.mark.parametrize(
    "markup", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in HOSTILE]
)
def test_hostile_page_takes_bounded_memory_and_time(markup: str, run: Callable[[str], str]) -> None:
    megabytes, simplified = run(PARSER % (SECONDS, SECONDS, HOSTILE[markup])).split()
    assert int(megabytes) < (MEGABYTES_WITH_STYLES if "style" in markup else MEGABYTES)
    assert simplified == "True"


def read(markup: str) -> Document:
    return Document(markup.encode(), "text/html", "utf-8", "http://h/")


def test_too_many_formatting_elements_become_spans() -> None:
    page = (
        "<p>" + "".join(f"<b id={number}>" for number in range(400)) + "</p>" + "<p><a href=/x>y</a>" * 5_000
    )
    document = read(page)
    assert len(document.html.css("a[href]")) == 5_000
    assert len(document.html.css("span[id]")) == 400
    assert not document.html.css("b")
    assert document.html.body is not None
    assert document.html.body.text() == "y" * 5_000
    assert describe(document).details["simplified"] is True


def test_simplified_page_has_no_formatting_element_in_any_spelling() -> None:
    some = (
        "<B id=1>a</B> <code\n>b</code> <sTrOnG/>c</strong > <small>d</small> <base> <ul></ul> <bdo>e</bdo>"
    )
    document = read(some + "".join(f"<i class='x{number}'></i>" for number in range(1_000)) + "<p>x" * 2_000)
    assert document.simplified
    assert {node.tag for node in document.html.css("body *")} == {"span", "base", "ul", "bdo", "p"}
    assert document.html.body is not None
    assert document.html.body.text().startswith("a b c d   e")


def test_options_beyond_the_limit_become_text() -> None:
    most = MAX_PER_NAME["option"]
    document = read("<select>" + "<option>x" * (most + 5_000) + "</select><a href=/x>y</a>")
    assert document.simplified
    assert len(document.html.css("option")) == most
    assert document.html.css("a[href]")


def test_attributes_beyond_the_limit_are_dropped() -> None:
    many = " ".join(f"a{number}='>\"{number}'" for number in range(5_000))
    document = read(f"<a href=/x {many}>y</a><p>z")
    (link,) = document.html.css("a")
    assert link.attributes["href"] == "/x"
    assert len(link.attributes) == MAX_ATTRIBUTES
    assert document.html.body is not None
    assert document.html.body.text() == "yz"
    assert document.simplified


@cases(
    "page",
    [
        "<p><a href=/x>y</a> <b>z</b>" * 20_000,
        "<select>" + "<option>x</option>" * MAX_PER_NAME["option"] + "</select>" + "<i>x</i>" * 5_000,
        "<ruby>a<rt>b</ruby>" * 5_000,
        "<img src='data:image/png;base64," + "A/b+" * 50_000 + "'>",
        "<script>" + "a < b; c = 'd' ; " * 10_000 + "</script>",
        "<b>" * 16 + "<p>x" * TRUSTED_TAGS,
        "<p><svg><a><title>x</title><path d='a'></path></a></svg>y" * 5_000,
        "<svg/><math/>" + "<table>" + "<tr><td><a href=x>x</a>" * 5_000,
        "<svg>" + "<p>x<ul>" + "<li>x" * 5_000 + "</ul><table>" + "<tr><td>x" * 5_000,
        "".join(f"<p><code class='kind {number % 40}'>x</code>" for number in range(3_000)),
    ],
)
def test_ordinary_pages_are_not_simplified(page: str) -> None:
    assert not read(page).simplified


def test_tags_beyond_their_limit_become_text() -> None:
    markup = "<p>a</p>" + "</b>" * (MAX_TAGS + 5_000) + "<a href=/x>y</a>"
    document = read(markup)
    assert document.simplified
    assert not document.html.css("a")
    assert document.html.body is not None
    assert document.html.body.text().split() == ["a", "y"]
    assert MAX_TAGS <= flattened(markup, MAX_DEPTH).count("<") <= MAX_TAGS + 1


def test_styles_of_a_page_with_too_many_elements_become_spans() -> None:
    styles = "".join(f"<b id={number}>" for number in range(400))
    document = read(f"<p>{styles}</p>" + "<p>x" * (MAX_ELEMENTS + 5_000))
    assert len(document.html.css("span[id]")) == 400
    assert MAX_ELEMENTS - 500 < len(document.html.css("p")) <= MAX_ELEMENTS


@cases(
    "around",
    [
        "<svg>",
        "<math>",
        "<SVG x='/>'>",
        "<svg x=a/>",
        '<svg a"=" />">',
        "<p><svg><g></g><svg></svg>",
        "<svg><desc><b></b></desc>",
    ],
)
@cases("name", ["a", "td", "tr", "base", "style"])
def test_shallow_elements_nest_in_drawings(around: str, name: str) -> None:
    document = read(around + f"<{name}>" * 10_000 + "x")
    assert document.simplified
    assert 0 < len(document.html.css(name)) <= MAX_DEPTH


def test_depth_limit_is_inclusive() -> None:
    within = "<div>" * MAX_DEPTH + "</x>" * 10_000
    assert not may_exceed(within.encode(), MAX_DEPTH)
    assert flattened(within, MAX_DEPTH) == within
    more = "<div>" + within
    assert may_exceed(more.encode(), MAX_DEPTH)
    assert flattened(more, MAX_DEPTH) != more
