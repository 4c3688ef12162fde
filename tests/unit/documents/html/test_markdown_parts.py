"""Which blocks of a page are in the Markdown of its main part: those with its text, whatever is in the page twice."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe

IMPORT = "import { createGzip, createUnzip } from 'node:zlib';"
REPEATED = [IMPORT, "Added in 1", "Type"]
WORDS = " ".join(f"word{number}" for number in range(30)) + "."


def markdown_of(markup: str) -> str:
    document = Document(markup.encode(), "text/html", "utf-8", "https://site.example/")
    return describe(document, with_markdown=True).markdown or ""


def paragraphs(texts: list[str]) -> str:
    return "".join(f"<p>{text}</p>" for text in texts)


@st.composite
def contents(draw: st.DrawFn) -> list[str]:
    """Texts of blocks: half of them or more are there once, the others again and again."""
    texts = [WORDS]
    for number in range(draw(st.integers(1, 30))):
        texts.append(f"Only once {number}")
        if draw(st.booleans()):
            texts.append(draw(st.sampled_from(REPEATED)))
    return texts


BESIDE = st.lists(st.sampled_from(["Home", *REPEATED]), max_size=4)


@settings(max_examples=50)
@given(contents(), BESIDE, BESIDE)
def test_lines_that_are_repeated_do_not_lead_astray(
    main: list[str], before: list[str], after: list[str]
) -> None:
    markup = f"{paragraphs(before)}<main>{paragraphs(main)}</main>{paragraphs(after)}"
    assert markdown_of(markup).split("\n\n") == main


def test_images_go_with_the_text_before_them() -> None:
    markup = (
        "<p>menu</p><img src=a alt=logo><main>"
        f"<p>{WORDS}</p><img src=b alt=figure><nav>links</nav><p>more</main><p>other</p><img src=c alt=more>"
    )
    figure = "![figure](https://site.example/b)"
    assert markdown_of(markup) == f"{WORDS}\n\n{figure}\n\nmore"


def test_articles_that_are_the_main_part_are_complete() -> None:
    links = [f"<a href=/{number}>The title of the story {number}</a>" for number in range(20)]
    articles = "".join(
        f"<article><h2>{link}</h2><aside>beside</aside><math><mi>x</mi></math><pre><b>{number}</b></pre></article>"
        for number, link in enumerate(links)
    )
    markdown = markdown_of(f"<p>before</p><ul><li>{articles}</ul><p>after</p>")
    assert markdown.count("The title of the story") == markdown.count("\n  x\n") == 20
    assert "```\n  19\n  ```" in markdown
    assert "beside" not in markdown and "before" not in markdown and "after" not in markdown


def test_prose_that_leads_to_the_main_part_is_kept_without_the_short_lines_beside_it() -> None:
    lead = "The lead of the story says in a few words what it is about, and why it matters to all."
    text = "The text of the story is long enough to be the main part of this page. " * 20
    markup = (
        f"<h1>Title</h1><p>By someone</p><div><p>{lead}</p></div><p>Share</p>"
        f"<div class=entry-content><p>{text}</p></div>"
    )
    assert markdown_of(markup) == f"{lead}\n\n{text.strip()}"


def test_short_lines_at_the_end_of_a_page_without_sections_are_left_out() -> None:
    assert (
        markdown_of(f"{WORDS * 3}<br>more {WORDS}<br>Imprint<br><i>Top</i>") == f"{WORDS * 3}\\\nmore {WORDS}"
    )


def test_many_equal_blocks_are_found_in_bounded_work() -> None:
    """Each of the 20,000 blocks begins like all others, and two in three are not in the text."""
    texts = ["<p>same " + "line " * 20 + f"end {number % 3}</p>" for number in range(20_000)]
    beside = "".join(
        f"<aside>{texts[number]}{texts[number + 1]}</aside>{texts[0]}" for number in range(1, 18_000, 3)
    )
    assert markdown_of(f"<main>{beside}</main>").count("end 0") == 6_000


def test_examples_with_the_same_import_stay_code() -> None:
    example = "<h3>Example {0}</h3><p>What method number {0} does with its data, in a few words.</p>"
    code = (
        f"<pre><code class=language-js>{IMPORT}\nimport {{ promisify }} from 'node:util';\n"
        "zlib.method{0}(data);\n</code></pre><p>Added in 1.0</p>"
    )
    page = "".join((example + code).replace("{0}", str(number)) for number in range(30))
    markdown = markdown_of(
        f"<nav><p>Added in 1.0</p><a href=/>zlib</a></nav><main><h1>zlib</h1>{page}</main>"
    )
    assert markdown.count(f"```js\n{IMPORT}\nimport {{ promisify }}") == 30
    assert markdown.count("### Example") == 30


def test_heading_that_only_white_space_tells_from_its_link_in_the_contents_is_the_heading() -> None:
    text = "Settings are read once, when the server starts, from the file that the option names. " * 5
    markup = (
        "<div><dl><dt><a href='#a'>1.1. Settings</a><dt><a href='#b'>1.2. Files</a></dl>"
        f"<div><h3>1.1.\xa0Settings</h3><p>{text}</div><div><h3>1.2.\xa0Files</h3><p>{text}</div></div>"
    )
    assert markdown_of(markup) == f"### 1.1. Settings\n\n{text.strip()}\n\n### 1.2. Files\n\n{text.strip()}"


def test_heading_that_is_in_the_contents_too_is_the_one_next_to_its_text() -> None:
    text = "Settings are read once, when the server starts, from the file that the option names. " * 5
    markup = (
        "<div><ul><li><a href='#a'>Settings</a><li><a href='#b'>Files</a></ul>"
        f"<div><h3>Settings</h3><p>{text}</div><div><h3>Files</h3><p>Files: {text}</div></div>"
    )
    assert markdown_of(markup) == f"### Settings\n\n{text.strip()}\n\n### Files\n\nFiles: {text.strip()}"


def test_paragraph_with_a_button_in_it_is_kept() -> None:
    assert markdown_of(f"<main><p>{WORDS} <button>copy</button> more words<p>and more</main>") == (
        f"{WORDS} more words\n\nand more"
    )


def test_the_last_block_of_a_text_that_was_cut_stays_what_it_is() -> None:
    lines = "".join(f"line {number} of a log with some words in it\n" for number in range(60_000))
    markdown = markdown_of(f"<p>before</p><main><h1>Log</h1><pre>{lines}</pre><p>The end of it.</p></main>")
    assert markdown.startswith("# Log\n\n```\nline 0 of a log") and markdown.endswith("\n```")
    assert markdown.count("```") == 2 and len(markdown) > 900_000
