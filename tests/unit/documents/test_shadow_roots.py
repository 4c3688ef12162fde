"""Declarative shadow roots are read as browsers show them."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.links import collect
from webcrawl.documents.html.text import visible_text
from webcrawl.documents.shadow_roots import MAX_NESTED_ROOTS, MAX_SHADOW_ROOTS

URL = "http://a.example/"
ROOT = "<template shadowrootmode=open>"


def document_of(markup: str) -> Document:
    return Document(markup.encode(), "text/html", "utf-8", URL)


@cases(
    ("markup", "shown"),
    [
        pytest.param(f"<x-a>{ROOT}in</template></x-a>", "in", id="content"),
        pytest.param(f"<x-a>{ROOT}a <slot></slot> c</template><b>b</b></x-a>", "a b c", id="slot"),
        pytest.param(f"<x-a>light {ROOT}<slot></slot></template>too</x-a>", "light too", id="text"),
        pytest.param(f"<x-a>{ROOT}<slot>fall<b>back</b></slot></template></x-a>", "fallback", id="fallback"),
        pytest.param(f"<x-a>{ROOT}<slot>fallback</slot></template><b>b</b></x-a>", "b", id="no fallback"),
        pytest.param(f"<x-a>{ROOT}in</template><b>light</b> and text</x-a>", "in", id="no slot"),
        pytest.param(
            f"<x-a><b slot=z>1</b><i>2</i><b slot=none>3</b>{ROOT}<slot></slot><slot name=z></slot></template></x-a>",
            "21",
            id="named slots",
        ),
        pytest.param(
            f"<x-a><b slot=z>1</b><b slot=z>2</b>{ROOT}<slot name=z>3</slot>|<slot name=z>4</slot></template></x-a>",
            "12|4",
            id="first slot of a name",
        ),
        pytest.param(
            f"<x-a>{ROOT}<x-b>{ROOT}[<slot></slot>]</template>(<slot></slot>)</x-b></template>1</x-a>",
            "[(1)]",
            id="slot in an inner host",
        ),
        pytest.param(
            f"<x-a>{ROOT}<x-b>{ROOT}[<slot name=y></slot>]</template><slot name=z slot=y></slot></x-b></template>"
            "<b slot=z>1</b></x-a>",
            "[1]",
            id="slot that passes on its children",
        ),
        pytest.param(
            f"<x-a>{ROOT}<slot name=y>1<slot name=z>2</slot></slot></template><b slot=y>3</b><b slot=z>4</b></x-a>",
            "3",
            id="slot in the fallback of a filled slot",
        ),
        pytest.param(
            f"<x-a>{ROOT}<slot></slot></template><x-b>{ROOT}<b><slot></slot></b></template>1</x-b></x-a>",
            "1",
            id="host in a slot",
        ),
        pytest.param(f"<x-a>{ROOT}1</template>{ROOT}2</template></x-a>", "1", id="first root of a host"),
        pytest.param(
            f"<x-a>{ROOT}<p><slot></slot></template>{ROOT}2</template>3</x-a>",
            "3",
            id="second root in a slot",
        ),
        pytest.param("<p><template ShadowRootMode=CLOSED>in</template>", "in", id="closed root"),
        pytest.param(f"<body>{ROOT}1<slot></slot></template>2", "12", id="root of the body"),
        pytest.param("<x-a><template shadowrootmode=other>no</template>1</x-a>", "1", id="other mode"),
        pytest.param("<x-a><template>no</template>1</x-a>", "1", id="ordinary template"),
        pytest.param(f"<ul>{ROOT}no</template><li>1</ul>", "1", id="element that cannot be a host"),
        pytest.param(f"<font-face>{ROOT}no</template>1</font-face>", "1", id="reserved name"),
        pytest.param(f"<template><x-a>{ROOT}no</template></x-a></template>1", "1", id="in a template"),
        pytest.param(f"<x-a>{ROOT}1<template>no</template></template></x-a>", "1", id="template in a root"),
    ],
)
def test_text_of_shadow_roots(markup: str, shown: str) -> None:
    assert visible_text(document_of(markup).html) == shown


def test_links_that_are_not_shown_count() -> None:
    markup = f"""<x-a>{ROOT}<a href=1>1</a><slot><a href=2>2</a></slot></template><a href=3>3</a>
    <a href=4 slot=none>4</a></x-a><template><a href=5>5</a></template>"""
    links = collect(document_of(markup).elements).joined(URL).links
    assert sorted(links) == [f"{URL}{number}" for number in (1, 2, 3, 4)]


def test_pages_without_shadow_roots_have_the_tree_of_the_parser() -> None:
    markup = "<!-- shadowrootmode --><x-a><slot>1</slot><template>2</template></x-a>"
    assert document_of(markup).html.html == LexborHTMLParser(markup).html


def test_source_tree_has_the_templates_and_is_new_each_time() -> None:
    markup = f"<x-a>{ROOT}<slot></slot></template>1</x-a>"
    document = document_of(markup)
    assert document.source_tree().html == LexborHTMLParser(markup).html
    document.source_tree().css_first("x-a").decompose()
    assert visible_text(document.html) == "1"


def test_number_of_roots_is_bounded() -> None:
    document = document_of(f"<p>{ROOT}<a href=x>x</a></template></p>" * (MAX_SHADOW_ROOTS + 1))
    assert len(document.html.css("a")) == MAX_SHADOW_ROOTS
    assert len(document.html.css("template")) == 1


def test_nesting_of_roots_is_bounded() -> None:
    document = document_of(f"<p>x</p><x-a>{ROOT}" * (MAX_NESTED_ROOTS + 10))
    assert len(visible_text(document.html).split()) == MAX_NESTED_ROOTS + 1


@cases(
    ("markup", "length"),
    [
        pytest.param(f"<div>{ROOT}<slot></slot></template>x" * 40_000, 40_000, id="hosts in slots"),
        pytest.param(f"<div>x{ROOT}" * 20_000, 1, id="roots in roots"),
        pytest.param(
            "<div>" * 500 + f"<p>{ROOT}<slot></slot></template>x</p>" * 30_000, 30_000, id="deep hosts"
        ),
        pytest.param(
            f"<div>{ROOT}{'<div>' * 100}<slot></slot>{'</div>' * 100}</template>x" * 500, 500, id="deep slots"
        ),
        pytest.param(
            f"<div>{ROOT}{'<slot name=a></slot>' * 90_000}</template>{'<i slot=a>x</i>' * 80_000}",
            80_000,
            id="many slots",
        ),
        pytest.param(f"<div>{ROOT}{'<slot>x' * 400}", 400, id="slots in slots"),
        pytest.param(f"<div>{f'{ROOT}x</template>' * 80_000}</div>", 1, id="roots of a host"),
    ],
)
def test_hostile_markup_is_read_in_linear_time(markup: str, length: int) -> None:
    """Each takes less than a second."""
    assert visible_text(document_of(markup).html).count("x") == length
