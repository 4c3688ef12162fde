"""Names and elements that say that a text is none, on pages where it is."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.html.main_text import main_text

TEXT = [
    "The ferry left the harbour at dawn, and nobody on the island had seen it go.",
    "A short one stood between them, as they do.",
    "By noon the fog had lifted, and two fishermen found it by the western pier, its ropes cut.",
    "The mayor asked for calm, and promised that the islanders would have their ferry back by the evening.",
]
PARAGRAPHS = "".join(f"<p>{text}</p>" for text in TEXT)
OTHER = "<div>The shop opens at nine in the morning, and it closes when the last boat has come in.</div>"
MENU = "".join(f"<li><a href=/{number}>Page {number}</a>" for number in range(9))


def text_of(body: str) -> str:
    return " ".join((main_text(LexborHTMLParser(f"<ul>{MENU}</ul>{body}")) or "").split())


def named(names: str, tag: str = "p") -> str:
    return "".join(f"<{tag} class='{names}'>{text}</{tag}>" for text in TEXT)


@cases("names", ["author-note", "ad", "share", "date", "meta", "credit", "widget", "promo", "related"])
def test_paragraphs_of_the_text_may_have_the_name_of_a_note(names: str) -> None:
    assert " ".join(TEXT) in text_of(f"<h1>Ferry found</h1><div>{named(names)}</div>{OTHER}")


@cases("names", ["ad", "author-note"])
def test_paragraphs_with_such_a_name_beside_more_text_are_left_out(names: str) -> None:
    story = "<div class=entry-content>" + PARAGRAPHS * 3 + "</div>"
    assert "Advert" not in text_of(
        f"{story}" + f"<p class={names}>Advert: buy a boat, or two of them, at the western pier.</p>" * 4
    )


def test_elements_that_are_no_paragraphs_need_several_times_the_text() -> None:
    cards = "".join(f"<div class=ad>{text}</div>" for text in TEXT)
    assert text_of(f"<div>{PARAGRAPHS}</div>{cards}") == " ".join(TEXT)
    assert text_of(f"<h1>Ferry found</h1><div>{named('ad', 'div') * 3}</div>").count(TEXT[0]) == 3


@cases("end", ["", "</a>"])
def test_anchor_without_address_is_no_link(end: str) -> None:
    assert text_of(f"<h1>Ferry found</h1><div><a name=top>{PARAGRAPHS}{end}</div>") == " ".join(TEXT)
    short = "".join(f"<p><a name=part>{text}</a></p>" for text in TEXT)
    assert text_of(f"<h1>Ferry found</h1><div>{short}</div>") == " ".join(TEXT)


def test_text_of_links_is_no_prose() -> None:
    links = "".join(f"<p><a href=/{number}><b>{text}</b></a></p>" for number, text in enumerate(TEXT))
    assert text_of(f"<article>{PARAGRAPHS}</article><div>{links}</div>") == " ".join(TEXT)


def test_captions_of_a_gallery_are_its_text() -> None:
    slides = "".join(f"<figure><img src=/x><figcaption><p>{text}</p></figcaption></figure>" for text in TEXT)
    page = f"<h1>Ferry found</h1><article><p>{TEXT[3]}</p>{slides}</article>"
    assert text_of(page) == f"{TEXT[3]} {' '.join(TEXT)}"


def test_captions_in_a_longer_text_are_left_out() -> None:
    slides = "".join(f"<figure><img src=/x><figcaption>{text}</figcaption></figure>" for text in TEXT)
    assert text_of(f"<article>{PARAGRAPHS * 2}{slides}</article>") == " ".join(TEXT * 2)


@cases("name", ["dialog", "menu", "button", "aside", "nav", "footer", "object", "audio", "video"])
def test_element_with_headline_and_text_may_lack_its_end(name: str) -> None:
    page = f"<p>{TEXT[1]}</p><div><{name}><div><h1>Ferry found</h1>{PARAGRAPHS * 3}</div></div>"
    assert " ".join(TEXT * 3) in text_of(page)


@cases("name", ["dialog", "aside", "nav", "footer"])
def test_notice_without_a_headline_is_no_text(name: str) -> None:
    assert text_of(f"<div>{PARAGRAPHS}</div><{name}>{PARAGRAPHS * 8}</{name}>") == " ".join(TEXT)


def test_comments_around_the_article_are_none() -> None:
    article = f"<div class=entry-content><h1>Ferry found</h1>{PARAGRAPHS}</div>"
    assert TEXT[0] in text_of(f"<div class=comments>{article}<p>{TEXT[1]}</p></div><div>{OTHER}</div>")


@cases("hidden", ["style='display: none'", "hidden", "class='rest more-text' style=display:none"])
def test_text_that_a_click_shows_is_text(hidden: str) -> None:
    rest = f"<div {hidden}>{PARAGRAPHS * 2}</div>"
    story = text_of(f"<article><div>{PARAGRAPHS}{rest}<button>Read on</button></div></article>")
    assert story == " ".join(TEXT if hidden == "hidden" else TEXT * 3)
    answers = f"<div><h3><button>Where?</button></h3>{rest}</div>" * 3
    text = text_of(f"<main><h1>Questions</h1>{answers}</main>")
    assert text.count(TEXT[0]) == 6
    assert text.count("Where?") == 3


@cases(
    "hidden",
    [
        f"<div class=modal style=display:none>{PARAGRAPHS}</div>",
        f"<div id=comments hidden>{PARAGRAPHS}</div>",
        f"<div style=display:none>{PARAGRAPHS}<input name=mail></div>",
        f"<div style=display:none>{PARAGRAPHS}<ul>{MENU * 4}</ul></div>",
    ],
)
def test_hidden_parts_of_other_kinds_are_left_out(hidden: str) -> None:
    assert text_of(f"<article><div>{PARAGRAPHS}{hidden}</div></article>") == " ".join(TEXT)


ITEM = (
    "<h3><a href='{host}/{number}'>Boat number {number} of the list</a></h3><p>"
    + TEXT[0]
    + " "
    + TEXT[2]
    + "</p>"
)


def items(around: str, host: str = "") -> str:
    return "".join(around.format(ITEM.format(number=number, host=host.format(number))) for number in range(9))


@cases(
    "page",
    [
        f"<div><p>{{lead}}</p>{items('{}')}<p>{{lead}}</p></div>",
        f"<div><p>{{lead}}</p>{items('<div class=item>{}</div>')}</div>",
        f"<div><p>{{lead}}</p><div>{items('<div>{}</div>')}</div><p>{{lead}}</p></div>",
        f"<article><p>{{lead}}</p>{items('<section>{}</section>')}</article>",
        f"<article><p>{{lead}}</p><ol>{items('<li>{}</li>')}</ol></article>",
        f"<div><p>{{lead}}</p><ul>{items('<li>{}</li>', 'https://boats{}.example')}</ul></div>",
    ],
)
def test_list_with_linked_titles_is_an_article(page: str) -> None:
    page = page.format(lead=" ".join(TEXT))
    assert text_of(f"<h1>Nine boats</h1>{page}<div>{OTHER}</div>").count(TEXT[0]) >= 10


def test_short_body_of_an_article_may_be_its_lead() -> None:
    page = f"<div><h1>Ferry found</h1><div itemprop=articleBody><p>{TEXT[3]}</p></div><div>{PARAGRAPHS * 3}</div></div>"
    assert " ".join(TEXT * 3) in text_of(page)
    short = f"<h1>Ferry found</h1><div itemprop=articleBody>{PARAGRAPHS}</div><div>{PARAGRAPHS}</div>"
    assert text_of(short) == " ".join(TEXT)
