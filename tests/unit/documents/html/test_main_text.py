"""The main text of pages: found by markup or by text density, without boilerplate."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given, strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.main_text import main_text
from webcrawl.documents.html.text import visible_text
from webcrawl.documents.simhash import simhash64
from webcrawl.documents.simhash_blocks import distance

WORDS = re.findall(
    r"\w+", "the of and to in is it you that he was for on are with as his they be at one have this from"
)


def prose(count: int, seed: int = 1) -> str:
    """Paragraphs of 30 words, with a heading before every fifth."""
    chance = random.Random(seed)
    words = [chance.choice(WORDS) + str(chance.randint(1, 400)) for _ in range(count)]
    paragraphs = [f"<p>{' '.join(words[start : start + 30])}</p>" for start in range(0, count, 30)]
    return "".join(
        f"<h2>Part {number}</h2>" * (number % 5 == 4) + one for number, one in enumerate(paragraphs)
    )


def plain(markup: str) -> str:
    return " ".join(visible_text(LexborHTMLParser(markup)).split())


def main(markup: str) -> str | None:
    tree = LexborHTMLParser(markup)
    text = main_text(tree)
    return None if text is None else " ".join(text.split())


MENU = "".join(f"<li><a href=/{number}>Section {number} of all</a></li>" for number in range(40))
TEASERS = "".join(f"<div><a href=/{number}>{prose(12, number)}</a></div>" for number in range(10))
COMMENTS = "".join(f"<article><p>{prose(40, 100 + number)}</p></article>" for number in range(5))
LEGAL = "All rights reserved. Imprint. Privacy. Cookies."
TEMPLATES = {
    "article": "<header><h1>Site</h1></header><nav><ul>{menu}</ul></nav><article>{text}</article>"
    "<aside>{teasers}</aside><footer>{legal}</footer>",
    "main": "<div id=top>{menu}</div><main><nav>{menu}</nav>{text}<aside class=promo>{legal}</aside></main>{teasers}",
    "role": "<ul>{menu}</ul><div role=main class=body>{text}<div class=sidebar>{teasers}</div></div>",
    "itemprop": "<main><ul>{menu}</ul><div itemprop='name articleBody'>{text}</div>{teasers}</main>{legal}",
    "article in main": "<main><article>{text}<section id=comments>{comments}</section></article>{teasers}</main>",
    "divs": "<div class=navheader>{menu}</div><div><div class=x>{text}</div></div><div class=foot>{legal}</div>",
    "table": "<table><tr><td><ul>{menu}</ul><td>{text}<td>{teasers}<tr><td colspan=3>{legal}</table>",
    "comments": "<ul>{menu}</ul><div id=post>{text}</div><div class='comments-area comments'>{comments}</div>",
}


@cases("template", TEMPLATES.values(), ids=TEMPLATES)
def test_main_text_is_found_in_every_template(template: str) -> None:
    text = prose(300)
    page = template.format(text=text, menu=MENU, teasers=TEASERS, legal=LEGAL, comments=COMMENTS)
    assert main(page) == plain(text)


@cases("template", TEMPLATES.values(), ids=TEMPLATES)
def test_short_articles_in_one_template_have_distant_hashes(template: str) -> None:
    def simhash(seed: int) -> int:
        parts = {"menu": MENU, "teasers": TEASERS, "legal": LEGAL, "comments": COMMENTS}
        value = simhash64(main(template.format(text=prose(60, seed), **parts)) or "")
        assert value is not None
        return value

    assert distance(simhash(1), simhash(2)) > 8


@cases(
    ("markup", "text"),
    [
        (f"<main></main><p>{prose(60)}</p>", prose(60)),
        (f"<article>{prose(40)}</article><article>{prose(60, 2)}</article>", prose(40) + prose(60, 2)),
        (f"<main>{prose(90)}<article>{prose(24, 2)}</article></main>", prose(90) + prose(24, 2)),
        (f"<div class='nav-open has-sidebar page-wrap'>{prose(60)}</div>", prose(60)),
        (f"<form id=aspnet>{prose(60)}</form>", prose(60)),
        (f"<main>{prose(60)}<select><option>x</select><button>y</button></main>", prose(60)),
    ],
)
def test_main_text_of_unusual_pages_is_complete(markup: str, text: str) -> None:
    found = main(markup)
    assert found is not None and set(plain(text).split()) <= set(found.split())


@cases(
    "markup",
    [
        "",
        "<p>short",
        MENU,
        f"<nav>{prose(200)}</nav>",
        "<article></article>",
        "<article>Hi</article><article>Ho</article>",
    ],
)
def test_page_without_main_text_has_none(markup: str) -> None:
    assert main(markup) is None


@cases("text", ["Hi", "See <a href=/a>here</a>, there, or anywhere.", prose(16)])
@cases("tag", ["main", "article"])
def test_a_marked_part_counts_although_it_is_short(tag: str, text: str) -> None:
    plain = " ".join(LexborHTMLParser(text).text().split())
    assert main(f"<ul>{MENU}</ul><{tag}><p>{text}</p></{tag}>") == plain


@cases(
    "around",
    [
        "<aside>{}</aside>",
        "<header>{}</header>",
        "<footer>{}</footer>",
        "<nav>{}</nav>",
        "<dialog>{}</dialog>",
        "<noscript>{}</noscript>",
        "<div hidden><div>{}</div></div>",
        "<div class=sidebar>{}</div>",
        "<section id=promo>{}</section>",
        "<div role=complementary>{}</div>",
    ],
)
@cases("content", ["<div id=content>{}</div>", "<main>{}</main>"])
def test_article_in_boilerplate_does_not_replace_the_main_text(around: str, content: str) -> None:
    parts = [content.format(prose(90)), around.format(f"<article>{prose(60, 2)}</article>")]
    for page in (parts, parts[::-1]):
        found = main(f"<body>{''.join(page)}")
        assert found is not None and set(plain(prose(90)).split()) <= set(found.split())


@cases(
    "markup",
    [
        f"<main>{prose(60)}</main><article>{prose(90, 2)}</article>",
        f"<main hidden>{prose(90, 2)}</main><main>{prose(60)}</main>",
        f"<article hidden>{prose(90, 2)}</article><article>{prose(60)}</article>",
        f"<main>{prose(60)}<div hidden>{prose(90, 2)}</div></main>",
        f"<div class=sidebar-left><main>{prose(60)}</main></div>",
        f"<main><article>{prose(60)}</article></main><article>{prose(60, 2)}</article>",
        f"<main><article>{prose(60)}</article><div class=comments>{COMMENTS}</div></main>",
        f"<article role=main>{prose(60)}</article><article>{prose(60, 2)}</article>",
    ],
)
def test_main_text_is_visible_and_inside_the_main_element(markup: str) -> None:
    assert main(markup) == plain(prose(60))


@cases(
    "names",
    [
        "class='sidebar-layout with-sidebar'",
        "class='modal-page popup-article'",
        "class='share-enabled related'",
        "id=menu-content",
        "role=dialog",
    ],
)
def test_the_part_with_the_headline_and_most_prose_is_the_text_whatever_its_name(names: str) -> None:
    """Names may say how a page is laid out or opened. Beside teasers, the text is not six times all others."""
    text, other = prose(120), prose(60, 2)
    cards = "".join(f"<div><h3><a href=/{n}>Card {n}</a></h3>{prose(12, n)}</div>" for n in range(6))
    page = (
        f"<ul>{MENU}</ul><div {names}><h1>Headline</h1><div>{text}</div></div><div class=more>{cards}</div>"
    )
    assert main(page) == plain(text)
    hidden = main(page.replace("<div ", "<div hidden ", 1))
    assert hidden is None or plain(text) not in hidden
    found = main(f"<div {names}>{text}</div><div><h1>Headline</h1>{other}</div>") or ""
    assert plain(other) in found and plain(text) not in found
    consent = f"<div {names}><h1>Your privacy</h1>{text}</div>"
    assert main(f"<div class=entry-content>{other}</div>{consent}") == plain(other)
    found = main(f"<div><h1>Headline</h1>{other}</div>{consent}") or ""
    assert plain(other) in found and plain(text) not in found


def test_menus_are_excluded_when_the_main_part_is_short() -> None:
    assert main(f"<div class=toc>{prose(90)}</div><main><h1>Appendices</h1></main>") == "Appendices"


def test_main_text_without_spaces_is_found() -> None:
    text = (
        "吾輩は猫である名前はまだ無いどこで生れたかとんと見当がつかぬ何でも薄暗いじめじめした所で泣いていた"
        * 2
    )
    assert main(f"<ul>{MENU}</ul><div><p>{text}</p></div>") == text


@pytest.mark.parametrize(
    "tag", ["<div>", "<div class=sidebar>", "<article>", "<main>", "<a href=x><div>", "<section>"]
)
def test_deeply_nested_page_is_quick(tag: str) -> None:
    begun = time.process_time()
    main(f"{prose(60)}{tag * 500}{prose(60, 2)}")
    main((tag + "<p>a</p>") * 5_000)
    assert time.process_time() - begun < 3


HOSTILE = {
    "a class of many words": f"<div class='{'_a' * 500_000}'>{prose(60)}</div>",
    "bodies of articles": f"<p itemprop=articleBody>{prose(20)}</p>" * 5_000,
    "articles in articles": "<article><p>a</p>" * 5_000,
    "no spaces": "<div><p>" + "吾輩は" * 500_000,
    "links that never end": "<a href=x>b" * 20_000,
    "headings in headings": "<h1><div>x" * 4_000,
    "white space in sections": f"{'<div>' * 400}a{' ' * 4_000_000}<p>{prose(60)}",
    "headings without text": f"<div>{prose(60)}{'<h2>x</h2>' * 20_000}",
    "lists of links": "<h2>x</h2><ul><li><a href=x>y</a></ul>" * 10_000,
    "parts beside the text": f"<h2>x</h2><div class=related><p>{prose(20)}</div>" * 3_000,
    "parts within parts": f"<div class=related><p>{prose(20)}" * 3_000,
    "named as main parts": f"<div class=entry-content><p>{prose(20)}" * 3_000,
}


@pytest.mark.parametrize("markup", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pages_take_bounded_time(markup: str) -> None:
    document = Document(markup.encode(), "text/html", "utf-8", "http://a.test/")
    assert document.html is not None
    begun = time.process_time()
    describe(document)
    assert time.process_time() - begun < 2


NAMES = re.findall(
    r"\w+",
    "p div b a article main nav aside script template section ul li h1 h2 td table time form header figcaption button",
)
CLASSES = re.findall(r"\S+", "sidebar comments related meta author entry-content has-sidebar post x")
PIECES = st.one_of(
    st.builds("<{} class={}>".format, st.sampled_from(NAMES), st.sampled_from(CLASSES)),
    st.sampled_from(NAMES).map("<{}>".format),
    st.sampled_from(NAMES).map("</{}>".format),
    st.just("<a href=/x>"),
    st.text("ab \n\x00\x01\x02\x1e\xad猫", max_size=40),
    st.just(prose(30)),
)


@given(st.lists(PIECES, max_size=40))
def test_main_text_consists_of_parts_of_the_visible_text(pieces: list[str]) -> None:
    tree = LexborHTMLParser("".join(pieces))
    found = main_text(tree)
    everything = " ".join(visible_text(tree).split())
    if found is not None:
        assert "\0" not in found
        for line in found.split("\n"):
            assert " ".join(line.split()) in everything
