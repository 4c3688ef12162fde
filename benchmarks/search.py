"""How often the page that is wanted is the first result: 300 queries of documentation, beside other engines.

    make bench-search [ARGS="--queries 90 --json FILE"]
    make bench-search ARGS="--fit"
    make bench-search ARGS="--data DATA_DIR"

Documentation of Debian packages is crawled with links and texts, and `scrapy search --update` makes the index. Then
each query is asked as `scrapy search` does, with ten results and their snippets. search_queries.py has the rules by
which queries are made, with and without a typing error, and search_peers.py the other engines, which get the same
titles and texts. `--data` uses the data of an earlier run. `--fit` chooses weights of titles, texts of links and
importance by half of the queries, and prints the results of both halves. Needs what the side-by-side benchmark needs.

The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import tantivy

from benchmarks.command import command_line, scrapy, table, write_figures
from benchmarks.search_fit import report_fit
from benchmarks.search_peers import FIRST, Answers, Text, bm25s, fts5, plain_tantivy, timed
from benchmarks.search_queries import ENTRY_PAGES, KnownItem, known_items, misspelt
from benchmarks.served import crawl_documentation
from benchmarks.sites import Site, available
from webcrawl.search.entry import IndexedPage
from webcrawl.search.searching import Search

LEAST_FIRST, LEAST_MISSPELT, MOST_MILLISECONDS = 0.87, 0.8, 15.0


def indexed(data: Path) -> Path:
    """Crawls the documentation into a folder, unless that was done, and brings its index up to date."""
    if not (data / "data" / "metadata.db").exists():
        data.mkdir(parents=True, exist_ok=True)
        crawl_documentation(data, LINKS=True, TEXT="parquet", URL_DENY=ENTRY_PAGES)
    subprocess.run(scrapy("search", "--update", DATA_DIR=data / "data"), check=True, stdout=sys.stderr)
    return data / "data" / "index"


def documents(search: Search) -> Iterator[tuple[IndexedPage, str]]:
    """Yields the pages of an index with their texts."""
    everything = tantivy.Query.all_query()
    for _, address in search.searcher.search(everything, search.searcher.num_docs).hits:
        yield search.page(address)


def queries_of(search: Search, texts: Sequence[Text], sites: Sequence[Site], number: int) -> list[KnownItem]:
    """Makes the queries from the files of the pages in the index."""
    files = {urlsplit(page.url).hostname: page.url for page in texts}
    base = {site: f"http://{site.address}:{urlsplit(files[site.address]).port}" for site in sites}
    entries = {
        f"{base[site]}/{file.relative_to(site.folder)}": file.read_bytes()
        for site in sites
        for file in sorted(site.folder.glob("*.html"))
        if re.search(ENTRY_PAGES, f"/{file.name}")
    }
    folders = {site.address: site.folder for site in sites}
    pages = {}
    for page in texts:
        parts = urlsplit(page.url)
        file = folders[parts.hostname or ""] / parts.path.lstrip("/")
        if file.is_file():
            pages[page.url] = file.read_bytes()
    return known_items(pages, entries, number)


def ours(search: Search, queries: Sequence[str]) -> Answers:
    """Searches as `scrapy search` does, with snippets."""
    return timed(
        queries, lambda words: [hit.entry.url for hit in search.find(quoted(words), limit=FIRST).hits]
    )


def quoted(words: str) -> str:
    """Returns a query without signs that have a meaning."""
    return " ".join(re.findall(r"\w+", words))


def share(items: Sequence[KnownItem], answers: Answers, first: int = 1) -> float:
    """Returns the share of queries whose page is among the first results."""
    wanted = zip(items, answers.urls, strict=True)
    return sum(item.url in urls[:first] for item, urls in wanted) / max(1, len(items))


def figures(items: Sequence[KnownItem], answers: Answers) -> dict[str, float]:
    """Returns S@1 of all and by each rule, S@10, and the CPU of a query in milliseconds."""
    by_rule = {}
    for rule in dict.fromkeys(item.rule for item in items):
        chosen = [number for number, item in enumerate(items) if item.rule == rule]
        answered = Answers([answers.urls[number] for number in chosen], 0)
        by_rule[f"S@1 {rule}"] = share([items[number] for number in chosen], answered)
    return {
        "S@1": share(items, answers),
        **by_rule,
        "S@10": share(items, answers, FIRST),
        "CPU, ms": answers.milliseconds,
    }


def compare(search: Search, texts: Sequence[Text], items: Sequence[KnownItem]) -> dict[str, dict[str, float]]:
    """Asks all engines; returns the figures by the name of the engine."""
    queries = [item.words for item in items]
    engines: dict[str, Answers | None] = {
        "webcrawl": ours(search, queries),
        "Tantivy": plain_tantivy(texts, queries),
        "FTS5": fts5(texts, queries),
        "bm25s": bm25s(texts, queries),
    }
    return {name: figures(items, answers) for name, answers in engines.items() if answers}


def printed(title: str, number: int, result: dict[str, dict[str, float]]) -> None:
    heads = "|".join([f"{title}, {number} queries", *(f"{name}:" for name in result["webcrawl"])])
    print(table(heads, [[name, *(f"{value:.3g}" for value in row.values())] for name, row in result.items()]))
    print(flush=True)


def main() -> int:
    parser = command_line(
        __doc__,
        json=True,
        queries=300,
        data=(Path, "keep the crawl in this folder, or use it again"),
        fit=(False, "choose weights by half of the queries"),
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-search-") as folder:
        return run(indexed(options.data or Path(folder)), options)


def run(index: Path, options: Any) -> int:
    search = Search(index)
    pages = list(documents(search))
    texts = [Text(entry.url, entry.title or "", text) for entry, text in pages]
    items = queries_of(search, texts, available(), options.queries)
    if options.fit:
        report_fit(pages, items, quoted)
        return 0
    wrong = misspelt(items)
    right, corrected = compare(search, texts, items), compare(search, texts, wrong)
    printed(f"as written, {len(texts):,} pages", len(items), right)
    printed("with a typing error", len(wrong), corrected)
    write_figures(options.json, pages=len(texts), written=right, misspelt=corrected)
    missed = [
        *([f"S@1 below {LEAST_FIRST}"] if right["webcrawl"]["S@1"] < LEAST_FIRST else []),
        *([f"misspelt S@1 below {LEAST_MISSPELT}"] if corrected["webcrawl"]["S@1"] < LEAST_MISSPELT else []),
    ]
    if max(result["webcrawl"]["CPU, ms"] for result in (right, corrected)) > MOST_MILLISECONDS:
        missed.append(f"CPU above {MOST_MILLISECONDS} ms a query")
    print("\n".join(f"MISSED {line}" for line in missed) or "Missed: nothing")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
