"""Near-duplicates among changed pages: how many are found by their SimHash, and how many pages are mistaken for others.

The pages are documentation from Debian packages, which have much in common. Some changes are made to the markup around
the text, others to the text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.sites import available
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.simhash import simhash64

PAGES_OF_A_SITE = 300
LEAST_WORDS = 50
DISTANCE = 3
LENGTHS = ((LEAST_WORDS, 300), (300, 1_000), (1_000, 10**9))
_WORD = re.compile(r"\w+")
Make = Callable[[str, random.Random], str]
Numbers = npt.NDArray[np.uint64]


def some_words(count: int, chance: random.Random) -> str:
    return " ".join(
        f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{chance.randint(1, 999)}"
        for _ in range(count)
    )


def links(count: int, chance: random.Random) -> str:
    return "".join(f"<li><a href=/{number}>{some_words(3, chance)}</a></li>" for number in range(count))


def other_template(markup: str, chance: random.Random) -> str:
    """Another header, menu, margin and footer."""
    start = f"<header>{some_words(10, chance)}</header><ul>{links(60, chance)}</ul>"
    end = f"<div class=sidebar>{some_words(120, chance)}</div><footer>{some_words(40, chance)}</footer>"
    return within_body(markup, start, end)


def within_body(markup: str, start: str, end: str) -> str:
    body = re.search(r"<body[^>]*>", markup)
    close = markup.rfind("</body>")
    if body is None or close < 0:
        return start + markup + end
    return markup[: body.end()] + start + markup[body.end() : close] + end + markup[close:]


def among_paragraphs(markup: str, pieces: list[str], chance: random.Random) -> str:
    """Inserts each piece after a paragraph."""
    ends = [match.end() for match in re.finditer("</p>", markup)] or [len(markup)]
    for offset, piece in zip(sorted(chance.choices(ends, k=len(pieces)), reverse=True), pieces, strict=True):
        markup = markup[:offset] + piece + markup[offset:]
    return markup


def a_date(markup: str, chance: random.Random) -> str:
    """Changes the date of the last update in the text."""
    return among_paragraphs(
        markup, [f"<p>Last updated on {chance.randint(1, 28)} March {chance.randint(1990, 2030)}</p>"], chance
    )


def named_adverts(markup: str, chance: random.Random) -> str:
    """Three adverts of 25 words, marked as most adverts are."""
    return among_paragraphs(
        markup, [f"<div class='ad'>{some_words(25, chance)}</div>" for _ in range(3)], chance
    )


def unnamed_adverts(markup: str, chance: random.Random) -> str:
    """The same adverts without any marks."""
    return among_paragraphs(markup, [f"<div>{some_words(25, chance)}</div>" for _ in range(3)], chance)


def words_changed(part: float) -> Make:
    def change(text: str, chance: random.Random) -> str:
        return _WORD.sub(lambda word: some_words(1, chance) if chance.random() < part else word[0], text)

    return change


MARKUP: dict[str, Make] = {
    "another template": other_template,
    "a date": a_date,
    "three adverts, class `ad`": named_adverts,
    "three adverts, no class": unnamed_adverts,
}
TEXT: dict[str, Make] = {
    f"{part:.1%} of the words".replace(".0%", "%"): words_changed(part)
    for part in (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
}


def pages() -> Iterator[str]:
    """The markup of pages, without those of old editions, which all have the same notice of a newer one."""
    for site in available():
        paths = [path for path in sorted(site.folder.rglob("*.html")) if "-edition" not in str(path)]
        for path in random.Random(1).sample(paths, min(len(paths), PAGES_OF_A_SITE)):
            yield path.read_text(errors="replace")


def texts(markup: str) -> tuple[str, str]:
    """(main part, or all text if there is none; all text) of a page."""
    facts = describe(Document(markup.encode(), "text/html", "utf-8", "http://docs.example/"))
    return facts.main_text or facts.text, facts.text


def bits(simhashes: Numbers, others: Numbers) -> npt.NDArray[np.uint8]:
    return np.bitwise_count(simhashes ^ others)


def report_changed_texts() -> None:
    originals: dict[str, tuple[str, str]] = {}
    for markup in pages():
        main, whole = texts(markup)
        if len(main.split()) >= LEAST_WORDS:
            originals.setdefault(main, (markup, whole))
    mains, markups = list(originals), [markup for markup, _ in originals.values()]
    wholes = [whole for _, whole in originals.values()]
    lengths = np.array([len(main.split()) for main in mains])
    print(
        f"\n{len(mains):,} pages of at least {LEAST_WORDS} words, half of them of {np.median(lengths):.0f} or more"
    )
    heads = [f"{least:,} to {most:,}" if most < 10**9 else f"from {least:,}" for least, most in LENGTHS]
    print(
        f"\n| changed | found | {' words | '.join(heads)} words | taken for another page | found by all text |"
    )
    print("|---|" + "---:|" * (len(heads) + 3))
    known = simhashes(mains), simhashes(wholes)
    of_length = [(least <= lengths) & (lengths < most) for least, most in LENGTHS]
    report_line("nothing", known, known, of_length)
    for name, change in MARKUP.items():
        chance = random.Random(name)
        changed = [texts(change(markup, chance)) for markup in markups]
        both = simhashes([main for main, _ in changed]), simhashes([whole for _, whole in changed])
        report_line(name, known, both, of_length)
    for name, change in TEXT.items():
        chance = random.Random(name)
        both = (
            simhashes([change(main, chance) for main in mains]),
            simhashes([change(whole, chance) for whole in wholes]),
        )
        report_line(name, known, both, of_length)


def simhashes(texts: list[str]) -> Numbers:
    return np.array([simhash64(text) or 0 for text in texts], np.uint64)


def report_line(
    name: str,
    known: tuple[Numbers, Numbers],
    changed: tuple[Numbers, Numbers],
    of_length: list[npt.NDArray[np.bool_]],
) -> None:
    """A changed page is found if it is near its original, and mistaken if it is near another page.

    `known` and `changed` are SimHashes of the main parts and of all text.
    """
    near_original, by_all = (bits(old, new) <= DISTANCE for old, new in zip(known, changed, strict=True))
    near = bits(known[0][None, :], changed[0][:, None]) <= DISTANCE
    np.fill_diagonal(near, False)
    shares = [near_original, *(near_original[chosen] for chosen in of_length), near.any(axis=1), by_all]
    print(f"| {name} | " + " | ".join(f"{share.mean():.1%}" for share in shares) + " |", flush=True)
