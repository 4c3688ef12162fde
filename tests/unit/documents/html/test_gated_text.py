"""Parts of articles whose names say that they are for subscribers: they have the text, or an offer to buy it."""

from __future__ import annotations

from tests.cases import cases
from tests.unit.documents.html.test_main_part_rules import MENU, PROSE, STORY, found, words

OFFER = "<h3>Read on</h3><p>You have read all articles that are free this month. Subscribe for one crown a week.</p>"
NEWSLETTER = (
    "<form><p>Have the news of the harbour in your mailbox every day at six.</p><input name=mail></form>"
)
MARKED = (
    "<article>{}</article>",
    "<main>{}</main>",
    "<div itemprop=articleBody>{}</div>",
    "<div class=article-body>{}</div>",
)
GATES = [
    "<div class=paywall>{}</div>",
    "<section id=paywall-content class=premium>{}</section>",
    "<div class='article__subscription js-metered'>{}</div>",
    "<div class=subscriber-only><div class=gatedContent>{}</div></div>",
    "<div class=part id=TOC_TITLE_1>{}</div>",
    "<div class=paywalled-text data-nosnippet>{}</div>",
]


@cases("gate", GATES)
@cases("marked", MARKED)
def test_a_gated_part_of_an_article_is_its_text(marked: str, gate: str) -> None:
    for story in (
        gate.format(STORY),
        f"<p>{PROSE}</p>{gate.format(STORY)}",
        f"{STORY}{gate.format(f'<p>{PROSE}</p>')}",
    ):
        assert found(f"<ul>{MENU}</ul>{marked.format(story)}") == words(story)


@cases("gate", GATES)
def test_a_gate_around_an_article_has_its_text(gate: str) -> None:
    assert found(f"<ul>{MENU}</ul><p>{PROSE}</p>{gate.format(f'<article>{STORY}</article>')}") == words(STORY)


def test_gated_paragraphs_are_text() -> None:
    story = STORY.replace("<p>", "<p class=paywall>") + "<p class=paywall>“Not now.”</p>" + STORY
    assert found(f"<ul>{MENU}</ul><article>{story}</article>") == words(story)


def test_a_form_in_a_gated_part_does_not_make_it_an_offer() -> None:
    story = f"<div class=paywall>{STORY}{{}}{STORY}</div>"
    assert found(f"<article>{story.format(NEWSLETTER)}</article>") == words(story.format(""))


@cases(
    "offer",
    [
        f"<div class=paywall>{OFFER}<button>Subscribe</button></div>",
        f"<div class=paywall>{OFFER}<p><a href=/buy>Subscribe now</a></p><p><a href=/login>Log in</a></p></div>",
        f"<div class=paywall-overlay>{OFFER}</div>",
        f"<div class=subscription-promo>{OFFER}</div>",
        f"<div class=subscription>{NEWSLETTER}</div>",
        "<p class=paywall><a href=/buy>Subscribe to read the whole story of the ferry</a></p>",
        f"<div class=toc><p>Contents</p><ul>{MENU}</ul></div>",
        f"<div class=promo>{OFFER}</div>",
        f"<div class=popup>{OFFER}</div>",
    ],
)
@cases("marked", MARKED)
def test_an_offer_in_an_article_is_left_out(marked: str, offer: str) -> None:
    for story in (f"{STORY}{offer}", STORY.replace("</p><p>", f"</p>{offer}<p>", 1)):
        assert found(f"<ul>{MENU}</ul>{marked.format(story)}") == words(STORY)


def test_a_gated_part_beside_an_article_is_left_out() -> None:
    assert found(f"<article>{STORY}</article><div class=paywall><p>{PROSE}</p></div>") == words(STORY)
