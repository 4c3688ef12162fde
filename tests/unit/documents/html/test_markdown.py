"""Markdown of pages: what it looks like, and that no parser of CommonMark reads anything else than the page in it."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.main_text import main_part
from webcrawl.documents.html.markdown import markdown
from webcrawl.documents.html.text import visible_text
from webcrawl.documents.mime.facts import MAX_TEXT
from webcrawl.urls.canonical import Base

BASE = "https://site.example/folder/page"
_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _of(markup: str) -> str:
    """The Markdown of a whole page."""
    return markdown(LexborHTMLParser(markup), None, Base(BASE))


def _tokens(text: str) -> list[Token]:
    blocks = _PARSER.parse(text)
    return list(chain.from_iterable([block, *(block.children or ())] for block in blocks))


def _words(text: str) -> str:
    """What a parser reads as text, without white space."""
    kinds = ("text", "code_inline", "code_block", "fence")
    return "".join("".join(one.content for one in _tokens(text) if one.type in kinds).split())


@cases(
    ("markup", "expected"),
    [
        ("<h1>One</h1><h3>Three</h3><p>Text", "# One\n\n### Three\n\nText"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n  - c\n- d"),
        ("<ol start=9><li>a<li><p>b<p>c</ol>", "9. a\n10. b\n\n    c"),
        ("<ol><li>a<ul><li>b</ul></ol>", "1. a\n   - b"),
        ("<blockquote><p>a<p>b<ul><li>c</ul></blockquote>d", "> a\n>\n> b\n>\n> - c\n\nd"),
        ("<p>a <b>b</b>c <em>d,</em> <del>e</del>", "a **b**c *d*, ~~e~~"),
        ("<a href='../x?a=(1)#top'>to <b>x</b></a>", "[to **x**](https://site.example/x?a=\\(1\\)#top)"),
        ("<a href='#here'>here</a>", "[here](https://site.example/folder/page#here)"),
        ("<a href='javascript:x()'>no</a> <a href='mailto:a@b'>mail</a> <a>anchor</a>", "no mail anchor"),
        (
            "<p>see <img src=a.png alt='a [b]'> and <a href=b><img src=c.png alt=d></a>",
            "see ![a \\[b\\]](https://site.example/folder/a.png) and "
            "[![d](https://site.example/folder/c.png)](https://site.example/folder/b)",
        ),
        (
            "<img src=data:x data-src=a.png alt=b> <img src=dot.gif data-srcset='c.png 1x, d.png 2x' data-src=e.png>",
            "![b](https://site.example/folder/a.png) ![](https://site.example/folder/e.png)",
        ),
        (
            "<img data-srcset=', a.png 1x, b.png 2x'> <img srcset='c.png, d.png 2x'> "
            "<img src=e.png data-src='e_{w}.png'>",
            "![](https://site.example/folder/a.png) ![](https://site.example/folder/c.png) "
            "![](https://site.example/folder/e.png)",
        ),
        ("<img src=dot.gif width=1 height=1><img src=line.png alt=''><img src=data:x alt=y>", ""),
        ("<pre><code class='language-python'>if a:\n    b\n</code></pre>", "```python\nif a:\n    b\n```"),
        ("<div class=highlight-rust><pre>a```b</pre></div>", "````rust\na```b\n````"),
        ("<p><code>a`b</code> <code>`</code>", "``a`b`` `` ` ``"),
        ("<p><code>a</code><code>b</code>", "`ab`"),
        (f"<p><code>{'a' * 2_000}</code><code>b</code><code>c</code>", f"`{'a' * 2_000}` `bc`"),
        ("<p>so\xadft <i>hy\xadphen</i>", "soft *hyphen*"),
        ("line<br>next<br># third", "line\\\nnext\\\n\\# third"),
        (
            "<table><tr><th>a<th>b<tr><td>1|2<td><b>c</b></table>",
            "| a | b |\n| --- | --- |\n| 1\\|2 | **c** |",
        ),
        ("<table><tr><td>a<td>b<tr><td>c<td>d</table>", "|  |  |\n| --- | --- |\n| a | b |\n| c | d |"),
        (
            "<table><tr><th colspan=2>a<tr><td rowspan=2>b<td>c<tr><td>d</table>",
            "| a |  |\n| --- | --- |\n| b | c |\n|  | d |",
        ),
        ("<table><tr><td><h2>a</h2><p>b<td>c<tr><td>d<td>e</table>", "## a\n\nb\n\nc\n\nd\n\ne"),
        (
            "<ul><li><table><tr><th>a<th>b<tr><td>c<td>d</table></ul>",
            "- | a | b |\n  | --- | --- |\n  | c | d |",
        ),
        ("<ul><li><pre>a\n\n b</pre></ul>", "- ```\n  a\n\n   b\n  ```"),
        (
            "<p>1. a<p>- b<p>+<p># c<p>> d<p>=== <p>-5<p>2020.",
            "1\\. a\n\n\\- b\n\n\\+\n\n\\# c\n\n\\> d\n\n\\===\n\n-5\n\n2020\\.",
        ),
        (
            "<p>a*b_c_d _e_ &lt;b&gt; [x](y) &amp;amp; & `c`",
            "a\\*b_c_d \\_e\\_ \\<b> \\[x\\](y) \\&amp; & \\`c\\`",
        ),
        ("<p>Look!<a href=x>here</a>", "Look\\![here](https://site.example/folder/x)"),
        ("<b><p>a<p>b</b>", "**a**\n\n**b**"),
        (
            "<a href=x><h3>a</h3><p>b</p></a>",
            "### [a](https://site.example/folder/x)\n\n[b](https://site.example/folder/x)",
        ),
        ("<b>1<a href=x>2</a></b>", "1[2](https://site.example/folder/x)"),
        ("<h2>A <a href='#a'>b</a><a href='c#d'>c</a>", "## A b[c](https://site.example/folder/c#d)"),
        ("<h2>C #</h2>", "## C \\#"),
        ("<dl><dt>term<dd>meaning</dl>", "term\n- meaning"),
        (
            "<ol><li>a<li>b</ol><ol><li>c</ol><ol start=4><li>d</ol><ul><li>e<ul><li>f</ul><ul><li>g</ul></ul>",
            "1. a\n2. b\n\n1) c\n\n4. d\n\n- e\n  - f\n\n  * g",
        ),
        ("<ul><li>a</ul><dl><dd>b</dl>c<ul><li>d</ul>", "- a\n\n* b\n\nc\n\n- d"),
        ("<code><a href=x>f</a></code>", "[`f`](https://site.example/folder/x)"),
        (
            "<p><code>a <a href=x><b>b</b>c</a> d</code> <code><a href=mailto:e>e</a></code>",
            "`a` [`bc`](https://site.example/folder/x) `d` `e`",
        ),
        ("<code>a</code><a href=x><code>b</code></a>", "`a`[`b`](https://site.example/folder/x)"),
        ("<code>a<a href=x>b</a></code>", "`a`[`b`](https://site.example/folder/x)"),
        ("<p>A「<b>b</b>」c<b>「d」</b>e<i>（f。）</i>", "A「**b**」c「**d**」e（*f*。）"),
        (
            "<p>10<sup>-6</sup> CO<sub>2</sub> 1<sup>st</sup> <a href=x><sup>1</sup></a>",
            "10⁻⁶ CO₂ 1st [¹](https://site.example/folder/x)",
        ),
        ("<ol start=3><li>a<li value=7>b<li>c</ol>", "3. a\n7. b\n8. c"),
        ("<ol start=0><li>a<li>b<li value=0>c</ol><ol start=x><li>d</ol>", "0. a\n1. b\n0. c\n\n1) d"),
        ("<ul><li value=7>a</ul>", "- a"),
        ("<p><a href=''>a</a> <h2><a href=''>b</a></h2>", "[a](https://site.example/folder/page)\n\n## b"),
        (
            "<h2>A<a href=#a>¶</a></h2><p>b <a href=#b>§</a> <a href=c>#</a> <a href=#d>*</a>",
            "## A\n\nb [#](https://site.example/folder/c) [\\*](https://site.example/folder/page#d)",
        ),
        ("<h2>a<p>b<ul><li>c</ul>d</h2>e", "## a\n\nb\n\n- c\n\nd\n\ne"),
        ("<h2><p>a</p></h2><h2><div>b</div><div>c</div></h2>", "## a\n\n## b\n\n## c"),
        ("<h2><img src=a alt=b> c</h2>", "## ![b](https://site.example/folder/a) c"),
        ("<p>漢<ruby>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>を", "漢字を"),
        ("<p>if <math><mi>x</mi> <mo>=</mo> <mn>2</mn></math>, then", "if x=2, then"),
    ],
)
def test_markdown_of_markup(markup: str, expected: str) -> None:
    assert _of(markup) == expected


PAGE = """<title>T</title><nav><a href=/>Title</a></nav><div class=breadcrumbs><a href=/>Home</a> Title</div>
<main><h1>Title</h1><p>{words}<ul><li>one<li>two</ul><img src=a.png alt=figure><p>The end of it all.</main>
<footer>Title <p>The end of it all.</footer>"""


def test_main_part_has_its_own_title_and_nothing_else() -> None:
    words = " ".join(f"word{number}" for number in range(60)) + "."
    document = Document(PAGE.format(words=words).encode(), "text/html", "utf-8", BASE)
    assert describe(document, with_markdown=True).markdown == (
        f"# Title\n\n{words}\n\n- one\n- two\n\n![figure](https://site.example/folder/a.png)\n\nThe end of it all."
    )


@pytest.mark.parametrize(
    ("markup", "begins", "least"),
    [
        ("<p>" + "*a <b>b</b> " * 400_000, "\\*a b \\*a b", MAX_TEXT // 2),
        ("<pre>" + "a\n" * 1_500_000, "```\na\na\n", MAX_TEXT // 2),
        ("<p>first<p>" + "a" * 3_000_000 + "<p>last", "first\n\naaa", MAX_TEXT // 2),
    ],
    ids=["marks", "code", "word"],
)
def test_of_a_block_that_is_too_long_the_beginning_is_kept(markup: str, begins: str, least: int) -> None:
    text = _of(markup)
    assert text.startswith(begins) and least <= len(text) <= MAX_TEXT


_SIGNS = st.text(alphabet="ab1.)-+*_`~[]()<>#!&|\\:=;\"' \n\t\x1e\0é", max_size=12)
_NAMES = (
    "p div h2 ul ol li blockquote pre code b i em del a table tr td th dl dt dd br span q img tbody caption"
    " math mi ruby"
)
_TAGS = _NAMES.split()


@st.composite
def _markups(draw: st.DrawFn) -> str:
    pieces = []
    for _ in range(draw(st.integers(1, 25))):
        kind = draw(st.integers(0, 3))
        if kind < 2:
            pieces.append(draw(_SIGNS).replace("&", "&amp;").replace("<", "&lt;"))
        elif kind == 2:
            tag = draw(st.sampled_from(_TAGS))
            href = draw(
                st.sampled_from(
                    ["", " href='x(y' colspan=3", " href='?a=&amp;copy;b\\'", " class=lang-c start=7"]
                )
            )
            pieces.append(f"<{tag}{href}>")
        else:
            pieces.append(f"</{draw(st.sampled_from(_TAGS))}>")
    return "".join(pieces)


@pytest.mark.parametrize("tag", ["ol", "ul", "dl"])
def test_lists_in_a_row_stay_apart(tag: str) -> None:
    item = "dd" if tag == "dl" else "li"
    lists = "".join(f"<{tag}><{item}>{number}<{item}>b</{tag}>" for number in range(5))
    kinds = [token.type for token in _tokens(_of(f"<ul><li>x{lists}</ul>{lists}"))]
    assert kinds.count("ordered_list_open") + kinds.count("bullet_list_open") == 11
    assert kinds.count("list_item_open") == 21


@given(_markups())
@example("<ul><li>a<ol start=7><li>b")
@example("<p>a<br>:-")
@example("<i>a</i><i>b</i><b>c<i>d</i></b>")
@example("<b><code>1</b>1")
@example("<a href='x(y' colspan=3><code>]:")
def test_parser_reads_the_text_of_the_page_and_no_other_markup(markup: str) -> None:
    tree = LexborHTMLParser(markup)
    text = _of(markup)
    assert sorted(_words(text)) == sorted("".join(visible_text(tree).split()))
    kinds = [token.type for token in _tokens(text)]
    assert "html_inline" not in kinds and "html_block" not in kinds and "hr" not in kinds
    assert kinds.count("link_open") == 0 or tree.css("a[href]")
    assert "image" not in kinds


@given(_markups(), st.integers(0, 40))
def test_main_part_never_fails_and_has_no_other_words(markup: str, words: int) -> None:
    markup = f"<nav>menu</nav><main>{markup}<p>{'word ' * words}</main>"
    document = Document(markup.encode(), "text/html", "utf-8", BASE)
    facts = describe(document, with_markdown=True)
    text = facts.main_text
    found = _words(facts.markdown or "")
    # to read only what is around the main part saves time, and changes nothing
    part = main_part(document.html)
    assert part is not None or text is None
    if text is not None and part is not None and (body := document.html.body) is not None:
        assert facts.markdown == markdown(document.html, part._replace(element=body), Base(BASE))
    page = "".join((text or visible_text(document.html)).replace("\0", "\ufffd").split())
    assert len(found) <= len(page)
    assert set(found) <= set(page)


@cases(
    "markup",
    [
        "<div>" * 50_000 + "a",
        "<ul><li>" * 20_000 + "a",
        "<blockquote>" * 20_000 + "a",
        "<b><i>" * 20_000 + "a",
        "<table><tr><td>" * 5_000 + "a",
        "<table><tr>" + "<td>a" * 20_000 + "<tr><td>b" * 5_000,
        "<table>" + "<tr><td rowspan=100 colspan=20>a" * 5_000,
        "<a href=x>" * 20_000 + "a",
        "<pre>" + "`" * 200_000,
        "*_[`" * 100_000,
        "<ol start=999999><li>" + "<li>a" * 20_000,
        "<br>" * 50_000 + "<p>" * 50_000,
        "<p>" + "a " * 1_500_000,
    ],
    ids=lambda markup: str(markup[:12]),
)
def test_hostile_pages_have_bounded_markdown(markup: str) -> None:
    # parsed as in a crawl, without what the parser takes long for
    document = Document(markup.encode(), "text/html", "utf-8", BASE)
    text = markdown(document.html, None, Base(BASE))
    assert len(text) <= MAX_TEXT
    assert len(text) <= 10 * len(markup) + 1_000
