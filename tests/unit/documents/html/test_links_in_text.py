"""Links that are part of the main text: cells of tables, definitions, code, and lists within prose."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from tests.unit.documents.html.test_main_part_rules import MENU, PROSE, STORY, found, words
from webcrawl.documents.html.main_text import main_part, main_text
from webcrawl.documents.html.markdown import markdown
from webcrawl.urls.canonical import Base

NAMES = "".join(
    f"<li><a href=/{name}>{name}</a></li>" for name in ("SELECT", "INSERT", "ALTER TABLE", "VACUUM")
)
HEADLINES = "".join(
    f"<li><a href=/{number}>The harbour master speaks about his {number}th summer</a></li>"
    for number in range(4)
)
SENTENCE = "<p>The language has the following statements, each of which is explained in detail:</p>"
METHODS = """<tr><td>boolean<td><a href=#add>add(E e)</a><td>Inserts an element.
<tr><td>void<td><a href=#clear>clear()</a><td><a href=#all>Removes all elements</a>"""


@cases(
    "part",
    [
        f"<table><tr><th>Type<th>Method<th>Description{METHODS}</table>",
        f"<table><caption>Methods</caption>{METHODS}</table>",
        f"<table>{METHODS}<tr><td>int<td><a href=#size>size()</a><td>Counts.</table>",
        "<table><tr><th>Class<tr><td><a href=/a>Queue</a><tr><td><a href=/b>Stack</a></table>",
        "<dl><dt>All Implemented Interfaces:<dd><a href=/i>Iterable</a>, <a href=/c>Collection</a></dl>",
        "<dl><dt>Known Subclasses:<dd><a href=/a>ArrayDeque</a>, <a href=/b>PriorityQueue</a>, <a>SyncQueue</a></dl>",
        "<dl><dt><a href=/a>Queue</a><dd>Keeps the order.<dt><a href=/b>Stack</a><dd>Reverses it.</dl>",
        "<div class=summary-table><div class=col><a href=/a>Queue</a></div><div>Keeps the order.</div></div>",
        "<div role=table><div role=row><div><a href=/a>Queue</a></div><div>Keeps the order.</div></div></div>",
        "<div><code><a href=/a>clone</a>, <a href=/b>equals</a>, <a href=/c>wait</a></code></div>",
        f"{SENTENCE}<ul>{NAMES}</ul>",
        f"{SENTENCE}<ul>{HEADLINES}</ul>",
        f"<p>{PROSE} These are</p><ul>{NAMES}</ul>",
        f"<ul><li>{PROSE}<li><a href=/a>A part that is explained elsewhere</a></ul>",
        f"<ul><li>{PROSE}<ul>{NAMES}</ul></ul>",
        "<div class=member-signature>public int <a href=/a>size</a>()</div>",
        "<div>Package <a href=/a>java.util.concurrent</a></div>",
        "<div>public <a href=/a>TreeMap</a> <b>of</b>(<a href=/b>LinkedList</a> s)</div>",
        "<div>See <a href=/a>copyInto(int[], int)</a> for more.</div>",
        "<div>Used by <a href=/a>sqlite3_open</a> and <a href=/b>std::vector</a></div>",
    ],
)
@cases("around", ["main", "article", "div"])
def test_links_that_are_text_are_kept(around: str, part: str) -> None:
    story = f"{STORY}{part}{STORY}"
    assert found(f"<ul>{MENU}</ul><{around}>{story}</{around}><ul>{MENU}</ul>") == words(story)


@pytest.mark.parametrize("title", ["", "<h2>Statements</h2>"])
def test_names_within_a_marked_main_part_are_kept(title: str) -> None:
    story = f"{STORY}{title}<ul>{NAMES}</ul>{STORY}"
    assert found(f"<ul>{MENU}</ul><main>{story}</main>") == words(story)


@cases(
    "part",
    [
        f"<ul>{HEADLINES}</ul>",
        f"<h2>Read on</h2><ul>{HEADLINES}</ul>",
        f"<p>Read also:</p><ul>{HEADLINES}</ul>",
        f"<div class=title>More ferries</div><ul>{HEADLINES}</ul>",
        f"<div class=related><ul>{NAMES}</ul></div>",
        f"<div class=related><h2>Statements</h2>{SENTENCE}<ul>{NAMES}</ul></div>",
        f"<form>{SENTENCE}<ul>{NAMES}</ul></form>",
        f"<nav>{SENTENCE}<ul>{NAMES}</ul></nav>",
        "<div class=tags><a href=/a>Ferries</a> <a href=/b>Harbours</a></div>",
        "<div>Read on <a href=/a>The ferry (and its crew)</a></div>",
        "<div>By <a href=/a>Ada Smith</a></div>",
        "<div>Join <a href=//tube.example/>MyTube</a></div>",
        "<div>From <a href=https://news.example.org/>news.example.org</a></div>",
        "<div><a href=/a>TreeMap</a> <a href=/b>LinkedList</a></div>",
        "<table><tr><td><div><a href=/a>Ferries</a></div><div><a href=/b>Harbours</a></div></table>",
    ],
)
@cases("around", ["main", "article", "div"])
def test_lists_of_links_are_left_out(around: str, part: str) -> None:
    page = f"<{around}>{STORY}{part}{STORY}</{around}>"
    assert found(f"<ul>{MENU}</ul>{page}<ul>{MENU}</ul>") == words(STORY + STORY)


@pytest.mark.parametrize("part", [f"<ul>{NAMES}</ul>", f"<h2>See also</h2><ul>{NAMES}</ul>"])
def test_a_list_of_links_at_the_end_is_left_out(part: str) -> None:
    assert found(f"<main>{STORY}{part}</main>") == words(STORY)


def test_a_menu_in_a_table_that_arranges_the_page_is_left_out() -> None:
    page = f"<table><tr><td><ul>{MENU}</ul></td><td><h1>Ferry gone</h1>{STORY}</td></tr></table>"
    assert found(page) == words(f"<h1>Ferry gone</h1>{STORY}")


def test_a_heading_and_its_list_before_the_main_part_do_not_shorten_it() -> None:
    page = f"<h2>Parts</h2><div><div>{MENU}</div><main><p>{PROSE}</p>{STORY}</main></div>"
    assert found(page) == words(f"<p>{PROSE}</p>{STORY}")


def test_short_cells_and_definitions_of_a_marked_main_part_are_kept() -> None:
    story = f"<div><p>{PROSE} {PROSE}</p></div>"
    table = "".join(
        f"<tr><th>{name}<td>{number} m" for number, name in enumerate(("Keel", "Mast", "Beam", "Deck"))
    )
    page = f"<main>{story}<div><table>{table}</table><dl><dt>Built<dd>in 1931<dt>Crew<dd>twelve</dl></div></main>"
    assert found(page) == words(page)


def test_markdown_has_links_in_cells_and_definitions() -> None:
    table = f"<table><tr><th>Type<th>Method<th>Use{METHODS}</table>"
    tree = LexborHTMLParser(f"<main>{STORY}{table}<dl><dt>See<dd><a href=/q>Queue</a></dl></main>")
    text = markdown(tree, main_part(tree), Base("http://a.example/"))
    assert "| boolean | [add(E e)](http://a.example/#add) | Inserts an element. |" in text
    assert (
        "| void | [clear()](http://a.example/#clear) | [Removes all elements](http://a.example/#all) |"
        in text
    )
    assert "[Queue](http://a.example/q)" in text


CELLS = st.lists(
    st.tuples(
        st.sampled_from(["int", "void", "E"]), st.text("abcxyz", min_size=1, max_size=12), st.booleans()
    ),
    min_size=1,
    max_size=12,
)


@given(rows=CELLS)
def test_every_cell_of_a_table_with_headings_is_kept(rows: list[tuple[str, str, bool]]) -> None:
    cells = [(kind, f"<a href=#{name}>{name}</a>" if is_link else name) for kind, name, is_link in rows]
    table = (
        "<table><tr><th>Type<th>Name"
        + "".join(f"<tr><td>{kind}<td>{name}" for kind, name in cells)
        + "</table>"
    )
    text = main_text(LexborHTMLParser(f"<main>{STORY}{table}</main>"))
    assert text is not None
    assert text.split()[-2 * len(rows) :] == [word for kind, name, _ in rows for word in (kind, name)]
