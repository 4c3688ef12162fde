"""What is left out of the main text of pages, and what is not."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.html.main_text import main_text
from webcrawl.documents.html.text import visible_text

STORY = "".join(
    f"<p>{text}</p>"
    for text in (
        "The ferry left the island before sunrise, and the whole village stood on the pier to see it go.",
        "Nobody had told the harbour master, who was asleep and heard of it two hours later from his sister.",
        "In the afternoon the wind turned to the north, and the first boats came home with empty nets.",
        "By evening the story had three versions, all of which were told with great conviction at the inn.",
    )
)
MENU = "".join(f"<li><a href=/{number}>Part {number} of the site</a></li>" for number in range(20))
PROSE = "A sentence that is long enough to count as prose, because it has more than forty characters."


def found(body: str) -> str:
    text = main_text(LexborHTMLParser(body))
    assert text is not None
    return " ".join(text.split())


def words(markup: str) -> str:
    return " ".join(visible_text(LexborHTMLParser(markup)).split())


@cases(
    "extra",
    [
        "<ul>{links}</ul>",
        "<p class=date>4 May 2031</p>",
        "<p>Last changed on 4 May 2031</p>",
        "<div><span>2031-05-04</span></div>",
        "<div class=entry-meta>Filed under Ferries</div>",
        "<div class=author-box>Ada Quill writes about ships. " + PROSE + "</div>",
        "<div class=social-share>Tell your friends</div>",
        "<div id=comments>First! " + PROSE * 5 + "</div>",
        "<div class=related><p>" + PROSE + "</p></div>",
        "<div style='display: none'>" + PROSE + "</div>",
        "<form>Your name <p>" + PROSE + "</p></form>",
        "<figure><img src=x.png><figcaption>The pier at noon</figcaption></figure>",
        "<figure><figcaption>" + PROSE * 2 + PROSE[:40] + "</figcaption></figure>",
        "<div class=photo-gallery><h4>The harbour in pictures</h4><p>" + PROSE * 4 + "</p></div>",
        "<p class=byline>By Ada Quill. " + PROSE * 2 + "</p>",
        "<aside>" + PROSE + "</aside>",
        "<div class=video-js><div class='vjs-text-track-settings'>Text <p>"
        + PROSE
        + "</p> Background</div></div>",
        "<p><a href=/next>Read the next part of this long story about ferries and harbours</a></p>",
        "<h3>More about ferries</h3><ul>{links}</ul>",
    ],
)
def test_what_is_not_text_is_left_out(extra: str) -> None:
    extra = extra.format(links=MENU)
    for story in (f"{STORY}{extra}", f"{extra}{STORY}", STORY.replace("</p><p>", f"</p>{extra}<p>", 1)):
        assert found(f"<ul>{MENU}</ul><div>{story}</div>") == words(STORY)


@cases(
    "extra",
    [
        "<p>See <a href=/a>the list of ferries</a>, which the islanders keep with care.</p>",
        "<ul><li>One rope<li>Two nets<li>Three lamps</ul>",
        "<table><tr><td>Ferries<td>3<tr><td>Nets<td>12</table>",
        "<pre>tide = 12\nwind = north</pre>",
        "<ul><li>4 May 2031: the ferry came back</ul>",
        "<p>4 May 2031 was the day on which the ferry came back.</p>",
        "<p>Room 2031</p>",
        "<h2>The evening</h2><p>Then it rained.</p>",
        "<div class=date>" + PROSE * 2 + "</div>",
        "<figcaption>" + PROSE * 3 + "</figcaption>",
        "<blockquote>Bring it back!</blockquote>",
        "<div class=has-sidebar>They waited.</div>",
        "<div class=js-lightbox-gallery>They waited.</div>",
        "<div class=live-comment>They waited.</div>",
        "<h2>" + PROSE + "</h2>",
    ],
)
def test_parts_of_the_text_are_kept(extra: str) -> None:
    story = f"{STORY}{extra}{STORY}"
    assert found(f"<ul>{MENU}</ul><div>{story}</div>") == words(story)


def test_heading_without_text_is_left_out_at_the_end() -> None:
    page = f"<div class=entry-content>{STORY}<h3>See also</h3></div><div><a href=/x>{PROSE}</a></div>"
    assert found(page) == words(STORY)


@cases("name", ["sidebar", "widget", "login", "related", "comments"])
def test_part_with_the_text_is_kept_whatever_its_name(name: str) -> None:
    assert found(f"<p>Harbour news</p><div class={name}><div>{STORY}</div></div>") == words(STORY)


def test_comments_longer_than_the_text_are_left_out() -> None:
    page = f"<div>{STORY}</div><div class=comments>{f'<p>{PROSE}</p>' * 50}</div>"
    assert found(page) == words(STORY)


def test_text_that_is_not_displayed_is_left_out_however_long_it_is() -> None:
    page = f"<div>{STORY}</div><div style='display:none'>{f'<p>{PROSE}</p>' * 50}</div>"
    assert found(page) == words(STORY)
    assert found(f"<p>Harbour news</p><div style='display:none'>{STORY}</div>") == words(STORY)


@pytest.mark.parametrize("hidden", ["hidden", "style='display: none'"])
def test_article_that_a_script_shows_is_the_text_if_there_is_no_other(hidden: str) -> None:
    notice, body = f"<p>{PROSE}</p><p>{PROSE}</p>", f"<div class=entry-content>{STORY}</div>"
    for article in (f"<article {hidden}>{STORY}</article>", f"<div {hidden}>{body}</div>"):
        assert found(f"{notice}{article}") == words(STORY)
        assert found(f"<div class=entry-content>{notice}</div>{article}") == words(notice)


def test_hidden_main_is_not_that_of_the_page() -> None:
    assert (
        found(f"<main hidden>{STORY}</main><main><h1>Ferries</h1><p>{PROSE}</p></main>")
        == f"Ferries {PROSE}".strip()
    )


def test_part_around_the_body_of_a_short_article_is_kept_whatever_its_name() -> None:
    lead, more = f"<header><p>{PROSE}</p></header>", f"<div class=row><p>{PROSE}</p></div>"
    body = f"<div class=lightbox><div class=article__body>{STORY}</div></div>"
    assert words(STORY) in found(f"<main><article>{lead}{body}{more}</article></main>")


def test_short_paragraphs_are_text() -> None:
    talk = "".join(f"<p>What did they say in {year}?</p>" for year in range(2001, 2031))
    page = f"<ul>{MENU}</ul><div>{talk}</div><div><a href=/x>{PROSE}</a><p>{PROSE}</p></div>"
    assert found(page) == words(talk)


def test_named_part_with_the_headline_is_the_text_beside_columns_of_others() -> None:
    column = f"<div class=columns><h5><a href=/x>Nets</a></h5><p>{PROSE}</p></div>"
    page = f"<div><div class=hentry><h1>Ferries</h1>{STORY}</div>{column * 6}</div>"
    assert found(page) == words(f"<h1>Ferries</h1>{STORY}")


def test_wrongly_named_parts_of_the_same_kind_count_together() -> None:
    parts = f"<section class='part-ads'>{STORY}</section>" * 3
    assert found(f"<div>{parts}</div>") == words(STORY * 3)


def test_links_after_a_wrongly_named_part_do_not_take_its_heading_and_the_part_away() -> None:
    for heading in ("<h2>Ferries</h2>", "<div>Ferries</div>"):
        page = f"<main>{heading}<div class=promoted>{STORY}</div><ul>{MENU}</ul></main>"
        assert words(STORY) in found(page)


def test_main_part_of_links_and_a_wrongly_named_text_has_the_text() -> None:
    links = f"<p>Harbour news</p><p><a href=/x>{PROSE}</a></p>"
    page = f"<main><div>{links}</div><div class=lightbox><div>{STORY}</div></div></main>"
    assert found(page) == words(STORY)


def test_text_under_a_wrong_name_is_found_beside_an_article_of_its_headline() -> None:
    body = f"<div><div class=body-ad>{STORY * 2}</div></div>"
    text = found(f"<div><article><h1>Ferry gone</h1><p>{PROSE}</p></article>{body}</div>")
    assert text.endswith(words(STORY * 2))
    adverts = f"<div class=ad>{STORY}</div>"
    assert found(f"<div><article>{STORY}</article>{adverts}</div>") == words(STORY)


def test_part_inside_a_wrongly_named_one_is_still_left_out() -> None:
    page = f"<div class=sidebar><div>{STORY}</div><div class=related><p>{PROSE * 2}</p></div></div>"
    assert found(page) == words(STORY)


@pytest.mark.parametrize("heading", ["<h1>Ferry gone</h1>", "<h2>Ferry gone</h2>"])
def test_prose_between_headline_and_text_leads_to_it(heading: str) -> None:
    page = f"{heading}<div class=top><p>{PROSE}</p><p>3 min</p></div><div class=article-body>{STORY}</div>"
    assert found(page) == words(f"{PROSE} {STORY}")


def test_prose_leads_to_the_text_from_the_start_of_an_article_without_headline() -> None:
    lead = f"<header><div class=top><p>{PROSE}</p><p>3 min</p></div></header>"
    page = f"<main><article>{lead}<div class=article-body>{STORY * 4}</div></article></main>"
    assert found(page) == words(f"{PROSE} {STORY * 4}")


def test_prose_before_the_headline_does_not_lead_to_the_text() -> None:
    page = f"<div><p>{PROSE}</p></div><h1>Ferry gone</h1><div class=article-body>{STORY}</div>"
    assert found(page) == words(STORY)


@cases("name", ["entry-content", "post-body", "article", "hentry"])
def test_part_that_is_named_as_the_main_part_is_preferred(name: str) -> None:
    notice = f"<div><p>{PROSE}</p></div>"
    assert found(f"{notice}<div class={name}>{STORY}</div>{notice}") == words(STORY)


def test_main_part_of_links_is_complete() -> None:
    page = f"<div>All rights reserved</div><main><h1>Contents</h1><ul>{MENU}</ul><nav>Up</nav></main>"
    assert found(page) == words(f"<h1>Contents</h1><ul>{MENU}</ul>")


def test_short_lines_at_the_end_of_a_page_without_sections_are_left_out() -> None:
    assert found(f"{STORY}<p>Read 12 times</p><a href=/x>more</a>") == words(STORY)


def test_page_of_short_lines_is_complete() -> None:
    lines = "".join(f"<p>Line {number} of the poem</p>" for number in range(20))
    assert found(lines) == words(lines)


def test_soft_hyphens_are_removed() -> None:
    assert "harbour" in found(f"<div>{STORY.replace('harbour', 'har&shy;bour')}</div>")


def test_text_around_excluded_elements_is_not_joined() -> None:
    assert "left island" in found(f"<div><p>left<button>x</button>island</p>{STORY}</div>")


@cases(
    "links",
    [
        f"<ul>{MENU}</ul>",
        "<a href=/1>One</a>",
        "<p><a href=/1>One</a> <a href=/2>Two</a></p>",
        f"<div class=content><div>{MENU}</div></div>",
        "<h2><a href=/1>One</a></h2><table><tr><td><a href=/2>Two</a></table>",
    ],
)
def test_an_article_of_links_alone_is_the_main_part(links: str) -> None:
    page = (
        f"<nav><ul>{MENU}</ul></nav>{{}}<aside><article>Also read</article></aside><footer>Imprint</footer>"
    )
    assert found(page.format(f"<article>{links}</article>")) == words(links)
    several = f"<article>{links}</article>" + "<article><h2><a href=/3>Another list</a></h2></article>" * 10
    assert found(page.format(several)) == words(several)


def test_a_page_of_links_without_an_article_has_no_main_part() -> None:
    beside = "<div class=related-posts><article><a href=/1>Also read</a></article></div>"
    for body in (f"<ul>{MENU}</ul>", f"<h1>Links</h1>{MENU}{beside}", "<article></article>"):
        assert main_text(LexborHTMLParser(body)) is None


@pytest.mark.parametrize("name", ["sidebar", "promoted", "ad-portal"])
def test_a_main_element_with_a_menu_alone_is_not_the_text(name: str) -> None:
    menu = "<main><a href=/a>Home</a> <a href=/b>About</a></main>"
    text = STORY + f"<p>{PROSE}</p>" * 4
    assert found(f"{menu}<div class={name}>{text}</div>") == words(text)
    lines = "<main>" + "<p>A short line of text</p>" * 30 + "</main>"
    assert found(f"{lines}<div class={name}>{text}</div>") == words(lines)


@pytest.mark.parametrize("tag", ["nav", "aside", "footer"])
def test_a_menu_or_margin_without_an_end_may_hold_the_text(tag: str) -> None:
    story = STORY + f"<p>{PROSE}</p>" * 4
    page = f"<div><a href=/>Home</a></div><{tag}><ul>{MENU}</ul><div><h1>Boats</h1>{story}</div>"
    assert found(page) == words(f"<h1>Boats</h1>{story}")
    part = f"<main><h1>Boats</h1>{STORY}</main>"
    assert found(f"{part}<{tag}><p>{PROSE * 20}</p></{tag}>") == words(f"<h1>Boats</h1>{STORY}")


def test_many_nested_articles_are_looked_at_in_bounded_time() -> None:
    assert found("<article>" * 5_000 + "<a href=/1>One</a>") == "One"


def test_links_of_headings_to_themselves_and_numbers_of_lines_are_left_out() -> None:
    heading = "<h2>Ferries<a class=headerlink href='#ferries' title='Link'>¶</a></h2>"
    numbers = "\n".join(map(str, range(1, 80)))
    code = f"<table><tr><td class=linenos><pre>{numbers}</pre><td><pre>go(home)</pre></table>"
    assert found(f"<main><h1>Boats</h1>{heading}{STORY}{code}</main>") == words(
        f"<h1>Boats</h1><h2>Ferries</h2>{STORY}<p>go(home)"
    )


def test_a_formula_and_ruby_are_in_their_line() -> None:
    story = STORY.replace(
        "the wind", "<ruby>the wind<rt>note</rt></ruby> <math><mi>v</mi><mo>=</mo><mn>9</mn></math>"
    )
    text = main_text(LexborHTMLParser(f"<main>{story}</main>"))
    assert text is not None and "In the afternoon the wind v=9 turned to the north" in text
