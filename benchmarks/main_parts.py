"""How well the main part of pages is found, compared with other tools that are installed.

The pages are documentation from Debian packages, whose text is known. They are read as they are; without any marks
(`main`, `nav`, roles, classes), so that only words and links remain; and inside templates.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable

from selectolax.lexbor import LexborHTMLParser

from benchmarks.changed_texts import links, some_words
from benchmarks.sites import available
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.text import visible_text

PAGES_OF_A_SITE = 60
LEAST_WORDS = 50
TRUE = {"Python": "div.body", "PostgreSQL": "body"}
"""Where the text of a site's pages is; elsewhere in `main`."""
BESIDE = "nav, script, style, .navheader, .navfooter, .headerlink, #book-search, .nav-wrapper"

Extract = Callable[[str], str]

TEMPLATES = {
    "article, aside": "<header>{words}</header><nav>{menu}</nav><article>{text}</article><aside>{more}</aside>"
    "<footer>{words}</footer>",
    "divs": "<div class=top>{words}</div><div class=menu><ul>{menu}</ul></div><div class=x>{text}</div>"
    "<div class=bottom>{words}</div>",
    "table": "<table><tr><td><ul>{menu}</ul></td><td>{text}</td><td><ul>{menu}</ul></td></tr></table><p>{words}</p>",
    "comments": "<ul>{menu}</ul><div id=post>{text}</div><div class=comments>{more}</div><p>{words}</p>",
    "adverts": "<div id=nav><ul>{menu}</ul></div><main>{text}<div class=advert>{more}</div></main><p>{words}</p>",
}


def main_part(markup: str) -> str:
    facts = describe(Document(markup.encode(), "text/html", "utf-8", "http://docs.example/"))
    return facts.main_text or facts.text


def others() -> dict[str, Extract]:
    """The other tools that are installed."""
    tools: dict[str, Extract] = {}
    try:
        import trafilatura

        tools["trafilatura"] = lambda markup: trafilatura.extract(markup) or ""
    except ImportError:
        print("trafilatura is left out: pip install trafilatura")
    try:
        from resiliparse.extract.html2text import extract_plain_text

        tools["resiliparse"] = lambda markup: extract_plain_text(markup, main_content=True, alt_texts=False)
    except ImportError:
        print("resiliparse is left out: pip install resiliparse")
    return tools


def all_text(markup: str) -> str:
    return visible_text(LexborHTMLParser(markup))


def without_marks(markup: str) -> str:
    """Removes everything that tells what an element is for."""
    markup = re.sub(r"<(/?)(?:main|nav|article|aside|header|footer|section)\b", r"<\1div", markup)
    return re.sub(r"""\s(?:role|class|id|itemprop)=(?:"[^"]*"|'[^']*'|[^\s>]*)""", "", markup)


def known_pages() -> list[tuple[str, str, str]]:
    """(markup, markup of the text, text) of pages."""
    known = []
    for site in available():
        paths = [path for path in sorted(site.folder.rglob("*.html")) if "-edition" not in str(path)]
        for path in random.Random(1).sample(paths, min(len(paths), PAGES_OF_A_SITE)):
            markup = path.read_text(errors="replace")
            tree = LexborHTMLParser(markup)
            for node in tree.css(BESIDE):
                node.decompose()
            node = tree.css_first(TRUE.get(site.name, "main"))
            inner = (node.inner_html or "") if node is not None else ""
            text = all_text(inner)
            if len(text.split()) >= LEAST_WORDS:
                known.append((markup, inner, text))
    return known


def agreement(extracted: str, true: str) -> tuple[float, float]:
    """(precision, recall) of the words."""
    words, wanted = (Counter(re.findall(r"\w+", text)) for text in (extracted, true))
    common = (words & wanted).total()
    return common / max(1, words.total()), common / max(1, wanted.total())


def dressed(template: str, text: str, chance: random.Random) -> str:
    parts = {
        "menu": links(50, chance),
        "words": some_words(12, chance),
        "more": f"<p>{some_words(60, chance)}</p>",
    }
    return f"<html><body>{template.format(text=text, **parts)}"


def report_main_parts() -> None:
    pages = known_pages()
    cases = {
        "as they are": [(markup, text) for markup, _, text in pages],
        "without marks": [(without_marks(markup), text) for markup, _, text in pages],
    }
    for name, template in TEMPLATES.items():
        chance = random.Random(name)
        cases[f"in a template: {name}"] = [
            (dressed(template, inner, chance), text) for _, inner, text in pages
        ]
    tools: dict[str, Extract] = {"this project": main_part, **others(), "all text": all_text}
    print(
        f"\n{len(pages)} pages of documentation: precision / recall of words; CPU ms a page, parsing included\n"
    )
    print("| pages | " + " | ".join(tools) + " |")
    print("|---|" + "---:|" * len(tools))
    for name, case in cases.items():
        print(
            f"| {name} | " + " | ".join(measured(extract, case) for extract in tools.values()) + " |",
            flush=True,
        )


def measured(extract: Extract, case: list[tuple[str, str]]) -> str:
    begun = time.process_time()
    texts = [extract(markup) for markup, _ in case]
    each = (time.process_time() - begun) / len(case) * 1e3
    pairs = [agreement(text, true) for text, (_, true) in zip(texts, case, strict=True)]
    precision, recall = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return f"{precision:.0%} / {recall:.0%}, {each:.1f} ms"
