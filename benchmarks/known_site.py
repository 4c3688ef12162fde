"""A site on loopback whose texts, links and fields are known, for benchmarks that read the outputs of a crawl.

/               links to all pages but those that only pages link to
/page/N         main text in one of five languages, a sidebar, links in the main text; a price in one of four ways
/copy/N         the bytes of /page/N
/gone/N         404, with a text
/old/N          a redirect to /page/N
/odd?f[]=N|x    a page whose URL is written without escapes
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from xxhash import xxh3_64_hexdigest

from tests.web import Hit, LocalWeb, Reply

SITE = "127.0.1.1"
COPIES, GONE, REDIRECTS, ODD = 6, 9, 5, 4
_HTML = {"Content-Type": "text/html; charset=utf-8"}
WORDS = {
    "en": "the stork builds its nest on chimneys and comes back to it in every spring of its long life",
    "de": "der Storch baut sein Nest auf hohen Schornsteinen und kehrt in jedem Frühling wieder zu ihm zurück",
    "ja": "コウノトリは 煙突の 上に 大きな 巣を 作り 毎年の 春になると 同じ 場所に 戻ってきて 卵を 産みます "
    "川の 近くで 魚や 蛙を 食べる 白い 鳥は 長い 足と 赤い くちばしを 持ち 空を 高く 飛ぶ",
    "ru": "аист строит своё гнездо на дымовых трубах и возвращается в него каждую весну своей жизни",
    "ar": "يبني اللقلق عشه الكبير على المداخن العالية ويعود إليه في كل ربيع من حياته مع صغاره",
}
"""Words of each language, of which the pages are made: by chance, so that no page is a near-duplicate of another."""
LANGUAGES = tuple(WORDS)
WAYS = ("css", "json-ld", "microdata", "none")


_KANA = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろ"


def prose(language: str, seed: str) -> str:
    """Returns 80 words of a language, the same for the same seed."""
    dice = random.Random(seed)
    words = dice.choices(WORDS[language].split(), k=80)
    if language != "ja":
        return " ".join(words)
    # the words of a text without spaces are pairs of characters, and these words have few
    return "".join(word + "".join(dice.choices(_KANA, k=3)) for word in words)


@dataclass(slots=True)
class KnownSite:
    """`version` is in the text of pages whose number is divisible by 10: they change with it."""

    pages: int
    version: int = 1
    web: LocalWeb = field(default_factory=lambda: LocalWeb(SITE))

    @property
    def home(self) -> str:
        return self.web.url(SITE)

    def publish(self) -> None:
        """Serves the site, or its next version."""
        paths = [*self.paths(), *(f"/copy/{n}" for n in range(COPIES)), *(f"/gone/{n}" for n in range(GONE))]
        paths += [f"/old/{number}" for number in range(REDIRECTS)]
        links = "".join(f'<a href="{escape(path)}">to {number}</a> ' for number, path in enumerate(paths))
        self._put("/", f"<title>Home</title><main><p>{prose('en', 'home')}</p><p>{links}</p></main>")
        for number in range(self.pages):
            self._put(f"/page/{number}", self.page(number))
        for number in range(COPIES):
            self._put(f"/copy/{number}", self.page(number))
        for number in range(GONE):
            self._put(f"/gone/{number}", f"<title>Gone</title><main><p>{prose('en', 'gone')}</p></main>", 404)
        for number in range(REDIRECTS):
            self.web.put(SITE, f"/old/{number}", Reply(status=301, headers={"Location": f"/page/{number}"}))
        for number in range(ODD):
            self._put(f"/odd?f%5B%5D={number}%7Cx", f"<title>Odd</title><p>{prose('en', f'odd{number}')}</p>")

    def _put(self, path: str, html: str, status: int = 200) -> None:
        tag = f'"{xxh3_64_hexdigest(html.encode())}"'

        def answer(hit: Hit) -> Reply:
            if status == 200 and hit.headers.get("If-None-Match") == tag:
                return Reply(status=304, headers={"ETag": tag})
            return Reply(html, status, {**_HTML, "ETag": tag})

        self.web.put(SITE, path, answer)

    def paths(self) -> list[str]:
        """The pages that answer 200 and are no copies, but the start page, as links are written."""
        odd = [f"/odd?f[]={number}|x" for number in range(ODD)]
        return [*(f"/page/{number}" for number in range(self.pages)), *odd]

    def sentence(self, number: int) -> str:
        """What only this page has, in its present version."""
        return f"unique{number}version{self.version if number % 10 == 0 else 1}"

    def page(self, number: int) -> str:
        first, second = (prose(self.language(number), f"{number} {part}") for part in (1, 2))
        inner = "".join(f"<a href=/page/{target}>see {target}</a> " for target in self.targets(number))
        return (
            f"<html><head><title>Page {number}</title>{self._json_ld(number)}</head><body><main><h1>Page {number}</h1>"
            f"<p>{first} {self.sentence(number)}</p><p>{second} {inner}</p>{self._price(number)}</main>"
            f"<aside class=sidebar><p>Sidebar of {number}.</p></aside></body></html>"
        )

    def language(self, number: int) -> str:
        return LANGUAGES[number % len(LANGUAGES)]

    def targets(self, number: int) -> list[int]:
        """The pages to which a page links."""
        return sorted({(number * factor + 1) % self.pages for factor in range(2, 2 + number % 4)})

    def price(self, number: int) -> float | None:
        return None if WAYS[number % len(WAYS)] == "none" else number + 0.5

    def _price(self, number: int) -> str:
        amount = self.price(number)
        if WAYS[number % len(WAYS)] == "css":
            return f"<p class=price>{amount:.2f} &euro;</p>"
        if WAYS[number % len(WAYS)] == "microdata":
            product = '<div itemscope itemtype="https://schema.org/Product">'
            return f'{product}<span itemprop="price">{amount}</span></div>'
        return ""

    def _json_ld(self, number: int) -> str:
        if WAYS[number % len(WAYS)] != "json-ld":
            return ""
        offer = f'{{"@type": "Product", "offers": {{"price": "{self.price(number)}"}}}}'
        return f'<script type="application/ld+json">{offer}</script>'

    def links(self) -> Iterator[tuple[str, str]]:
        """Yields the links in the main texts of pages, without those of the start page, as pairs of paths."""
        for number in range(self.pages):
            yield from ((f"/page/{number}", f"/page/{target}") for target in self.targets(number))
