"""Which blocks of a page are in its main part: those with its lines, in their order, whatever is in the page twice."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.markdown_blocks import IMAGE, PARAGRAPH, Block
from webcrawl.documents.html.markdown_parts import keep_main_part

IMPORT = "import { createGzip, createUnzip } from 'node:zlib';"
REPEATED = [IMPORT, "Added in 1", "Type"]


def paragraphs(texts: list[str]) -> list[Block]:
    return [Block(text, PARAGRAPH) for text in texts]


def kept(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if block.is_kept]


@st.composite
def contents(draw: st.DrawFn) -> list[str]:
    """Texts of blocks: half of them or more are there once, the others again and again."""
    found: list[str] = []
    for number in range(draw(st.integers(1, 30))):
        found.append(f"Only once {number}" + draw(st.sampled_from(["", f"\n{IMPORT}", "\nits second line"])))
        if draw(st.booleans()):
            found.append(draw(st.sampled_from(REPEATED)))
    return found


@settings(max_examples=300)
@given(
    contents(), st.lists(st.sampled_from(["Home", *REPEATED])), st.lists(st.sampled_from(["Next", *REPEATED]))
)
def test_lines_that_are_repeated_do_not_lead_astray(
    main: list[str], before: list[str], after: list[str]
) -> None:
    blocks = paragraphs(before + main + after)
    assert keep_main_part(blocks, "\n".join(main))
    lines = "\n".join(kept(blocks)).split("\n")
    assert sorted(lines) == sorted("\n".join(main).split("\n"))
    once = [text for text in main if text not in REPEATED]
    assert [text for text in kept(blocks) if text not in REPEATED] == once


def test_images_go_with_the_text_before_them() -> None:
    blocks = paragraphs(["menu", "text", "more"])
    blocks[1:1] = [Block("![logo]", IMAGE)]
    blocks[3:3] = [Block("![figure]", IMAGE)]
    assert keep_main_part(blocks, "text\nmore")
    assert kept(blocks) == ["text", "![figure]", "more"]


def test_too_few_lines_are_no_main_part() -> None:
    assert not keep_main_part(
        paragraphs(["a", "b", "c"]), "a\nb\nc\n" + "\n".join(f"else {n}" for n in range(9))
    )
    assert not keep_main_part(paragraphs(["a"]), "")
    assert not keep_main_part([], "a")


def test_many_equal_blocks_are_found_in_bounded_work() -> None:
    """Each of the 20,000 blocks begins like all others, and two in three are not in the text."""
    texts = ["same\n" + "line\n" * 20 + f"end {number % 3}" for number in range(20_000)]
    blocks = paragraphs(texts)
    keep_main_part(blocks, "\n".join(texts[::3]))


def test_examples_with_the_same_import_stay_code() -> None:
    example = "<h3>Example {0}</h3><p>What method number {0} does with its data, in a few words.</p>"
    code = (
        f"<pre><code class=language-js>{IMPORT}\nimport {{ promisify }} from 'node:util';\n"
        "zlib.method{0}(data);\n</code></pre><p>Added in 1.0</p>"
    )
    page = "".join((example + code).replace("{0}", str(number)) for number in range(30))
    markup = f"<nav><p>Added in 1.0</p><a href=/>zlib</a></nav><main><h1>zlib</h1>{page}</main>".encode()
    found = describe(Document(markup, "text/html", "utf-8", "https://site.example/"), with_markdown=True)
    assert found.markdown is not None
    assert found.markdown.count(f"```js\n{IMPORT}\nimport {{ promisify }}") == 30
    assert found.markdown.count("### Example") == 30


def test_heading_that_only_white_space_tells_from_its_link_in_the_contents_is_the_heading() -> None:
    text = "Settings are read once, when the server starts, from the file that the option names. " * 5
    markup = (
        "<div><dl><dt><a href='#a'>1.1. Settings</a><dt><a href='#b'>1.2. Files</a></dl>"
        f"<div><h3>1.1.\xa0Settings</h3><p>{text}</div><div><h3>1.2.\xa0Files</h3><p>{text}</div></div>"
    )
    document = Document(markup.encode(), "text/html", "utf-8", "https://site.example/")
    found = describe(document, with_markdown=True).markdown
    assert found == f"### 1.1. Settings\n\n{text.strip()}\n\n### 1.2. Files\n\n{text.strip()}"


def test_heading_that_is_in_the_contents_too_is_the_one_next_to_its_text() -> None:
    text = "Settings are read once, when the server starts, from the file that the option names. " * 5
    markup = (
        "<div><ul><li><a href='#a'>Settings</a><li><a href='#b'>Files</a></ul>"
        f"<div><h3>Settings</h3><p>{text}</div><div><h3>Files</h3><p>Files: {text}</div></div>"
    )
    document = Document(markup.encode(), "text/html", "utf-8", "https://site.example/")
    found = describe(document, with_markdown=True).markdown
    assert found == f"### Settings\n\n{text.strip()}\n\n### Files\n\nFiles: {text.strip()}"


def test_lines_before_the_others_are_the_first_ones_if_more_of_them_are_found_there() -> None:
    blocks = paragraphs(["Title", "Subtitle", "Title", "Only once"])
    assert keep_main_part(blocks, "Title\nSubtitle\nOnly once")
    assert [block.is_kept for block in blocks] == [True, True, False, True]


def test_the_last_block_of_a_text_that_was_cut_stays_what_it_is() -> None:
    lines = "".join(f"line {number} of a log with some words in it\n" for number in range(60_000))
    markup = f"<p>before</p><main><h1>Log</h1><pre>{lines}</pre><p>The end of it.</p></main>"
    document = Document(markup.encode(), "text/html", "utf-8", "https://site.example/")
    found = describe(document, with_markdown=True).markdown
    assert found is not None and found.startswith("# Log\n\n```\nline 0 of a log") and found.endswith("\n```")
    assert found.count("```") == 2 and len(found) > 900_000
