"""Short articles beside teasers of other articles."""

from __future__ import annotations

from tests.cases import cases
from tests.unit.documents.html.test_main_part_rules import PROSE, STORY, found, words

HEADLINE = "<h1>Ferry gone</h1>"
SUMMARY = "The council speaks about the bridge that nobody wanted, and about its price."
CARDS = [
    "<div class=card><h3><a href=/{0}>The bridge again {0}</a></h3><p>{1}</p></div>",
    "<div><a href=/{0}><img src=x></a><div><a href=/{0}>The bridge again {0}</a></div><p>{1}</p></div>",
    "<article><h2><a href=/{0}>The bridge again {0}</a></h2><p>{1}</p></article>",
    "<section><h4>The bridge again {0}</h4><p>{1}</p><a href=/{0}>Read more</a></section>",
    "<a href=/{0}><h3>The bridge again {0}</h3></a><p>{1}</p>",
    "<h3><a href=/{0}>The bridge again {0}</a></h3><p>{1}</p>",
]
PAGES = [
    "<div><article>{article}</article><div>{teasers}</div></div>",
    "<main><article>{article}</article><section>{teasers}</section></main>",
    "<main><div>{article}</div><div>{teasers}</div></main>",
    "<div class=entry-content>{article}</div><div>{teasers}</div>",
    "<div>{article}</div><div>{teasers}</div>",
    "<article>{article}<div>{teasers}</div></article>",
    "<div><div>{teasers}</div><article>{article}</article></div>",
]


def teasers(card: str, count: int) -> str:
    return "".join(card.format(number, SUMMARY) for number in range(count))


@cases("count", [2, 6, 20])
@cases("card", CARDS)
@cases("page", PAGES)
def test_teasers_beside_a_short_article_are_left_out(page: str, card: str, count: int) -> None:
    text = found(page.format(article=HEADLINE + STORY, teasers=teasers(card, count)))
    assert text.removeprefix("Ferry gone ") == words(STORY)


def test_teasers_may_have_long_summaries() -> None:
    card = CARDS[0].replace("The bridge again", "The bridge over the northern sound again")
    cards = "".join(card.format(number, " ".join([SUMMARY] * 5)) for number in range(3))
    text = found(PAGES[4].format(article=HEADLINE + STORY * 5, teasers=cards))
    assert text.removeprefix("Ferry gone ") == words(STORY * 5)


@cases("card", CARDS[:4])
def test_teasers_right_beside_a_short_article_are_left_out(card: str) -> None:
    text = found(f"<div><article>{HEADLINE}{STORY}</article>{teasers(card, 5)}</div>")
    assert text.removeprefix("Ferry gone ") == words(STORY)


def test_teasers_in_a_list_are_left_out() -> None:
    items = teasers("<li><h3><a href=/{0}>The bridge again {0}</a></h3><p>{1}</p></li>", 6)
    text = found(f"<main><article>{HEADLINE}{STORY}</article><ul>{items}</ul></main>")
    assert text.removeprefix("Ferry gone ") == words(STORY)


def test_a_feed_after_a_longer_article_is_left_out_however_it_is_indented() -> None:
    margin = "\n" + " " * 150
    item = f"{margin}<li>{margin}<h3><a href=/{{0}}>The bridge again {{0}}</a></h3><p>{{1}}</p>"
    feed = "".join(item.format(number, " ".join([SUMMARY] * 4)) for number in range(23))
    text = found(f"<main><article>{HEADLINE}{STORY * 6}</article><ul>{feed}</ul></main>")
    assert text.removeprefix("Ferry gone ") == words(STORY * 6)


@cases(
    "part",
    [
        "<section><h2>Sails {0}</h2><p>{1}</p></section>",
        "<section><h2><a href=#s{0}>Sails and ropes {0}</a></h2><p>{1}</p></section>",
        "<div class=post><p>{1} More about it is in <a href=/{0}>the report of the council</a>, page {0}.</p></div>",
        "<div><h3>The inspector {0}</h3><p>{1}</p><a href=/{0}>Learn more about the inspector {0}</a></div>",
        "<div class=answer><div>Ada</div><p>{1}</p></div>",
        "<section><h3>Sails {0}</h3><p>{1}</p><dl><dt>See also:<dd><a href=/{0}>Ropes</a></dl></section>",
        "<div><h3>Sails {0}</h3><pre>{1}</pre><a href=/{0}>The code of the ropes {0}</a></div>",
        "<div><h3>What the sails have of <a href=/{0}>Ropes {0}</a></h3><p>{1}</p></div>",
    ],
)
def test_alike_parts_of_a_text_are_no_teasers(part: str) -> None:
    story = f"{HEADLINE}{STORY}{teasers(part, 6)}"
    assert found(f"<main>{story}</main>") == words(story)


def test_a_page_of_teasers_has_them_as_its_main_part() -> None:
    story = f"<h1>News</h1><p>{PROSE}</p>{teasers(CARDS[0], 8)}"
    assert words(teasers(CARDS[0], 8)) in found(f"<main>{story}</main>")
