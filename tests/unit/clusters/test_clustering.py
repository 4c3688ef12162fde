"""Clusters of similar texts: what belongs together is, in any order of files, and nothing else."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

from tests.crawls import scrapy
from webcrawl.clusters.clustering import FIELDS, components, stars, write_clusters
from webcrawl.clusters.minhash import HASHES, bands, signatures, similarities, sketches
from webcrawl.errors import StoreError
from webcrawl.results.exports.parts import NOT_NULL
from webcrawl.stores.tables.store import TableFile

NOW = datetime(2026, 2, 3, tzinfo=UTC)
WORDS = [f"word{number}" for number in range(2_000)]


def prose(seed: int, words: int = 300) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def changed(text: str, share: float) -> str:
    dice = random.Random(7)
    return " ".join(dice.choice(WORDS) if dice.random() < share else word for word in text.split())


def row(url: str, text: str, *, day: int = 0, crawl: str = "news", **more: Any) -> dict[str, Any]:
    return {"url": url, "text": text, "crawl": crawl, "fetched_at": NOW + timedelta(days=day), **more}


def clusters(folder: Path, *files: Sequence[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """The table of clusters of some files of texts, sorted by URL and crawl."""
    openers = []
    for number, rows in enumerate(files):
        path = folder / f"texts-{number}.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
        openers.append(partial(TableFile, path.name, path))
    work = folder / "work"
    work.mkdir()
    result = write_clusters(openers, work / "clusters.parquet", **{"least": 0.4, **options})
    table = pyarrow.parquet.read_table(work / "clusters.parquet").to_pylist()
    assert result.pages == len(table)
    assert result.in_clusters == sum(line["size"] > 1 for line in table)
    assert result.clusters == sum(line["size"] > 1 and line["is_representative"] for line in table)
    return sorted(table, key=lambda line: (line["url"], line["crawl"]))


PAGES = [
    row("http://a.example/1", prose(1), day=3),
    row("http://b.example:8080/2", changed(prose(1), 0.1), day=1),
    row("http://a.example/3", " ".join(prose(1).split()[:250]), day=2),
    row("http://a.example/4", prose(2)),
    row("http://a.example/5", "few words"),
    row("http://a.example/6", "two words"),
    row("http://a.example/7", ""),
]


def test_changed_and_shortened_copies_are_in_a_cluster_with_the_page(
    tmp_path: Path,
) -> None:
    table = clusters(tmp_path, PAGES)
    assert [(line["url"][-1], line["size"], line["representative"][-1]) for line in table] == [
        *[("1", 3, "3"), ("3", 3, "3"), ("4", 1, "4"), ("5", 1, "5"), ("6", 1, "6"), ("7", 1, "7")],
        ("2", 3, "3"),
    ]
    assert [line["url"][-1] for line in table if not line["is_representative"]] == ["1", "2"]
    assert len({line["cluster_id"] for line in table}) == 5
    assert table[-1]["host"] == "example.b:8080"
    assert all(-(2**63) <= line["cluster_id"] < 2**63 for line in table)


def test_the_table_does_not_depend_on_the_order_of_files_and_rows(tmp_path: Path) -> None:
    pages = [
        row(f"http://a.example/{n}", changed(prose(n % 5), 0.05 * (n % 3)), day=n % 4) for n in range(60)
    ]
    tables = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        random.Random(number).shuffle(pages)
        tables.append(clusters(folder, pages[:20], pages[20:]))
    assert tables[0] == tables[1] == tables[2]
    assert {line["size"] for line in tables[0]} == {12}


def test_the_last_text_of_a_page_in_each_crawl_counts(tmp_path: Path) -> None:
    pages = [
        row("http://a.example/1", prose(1), day=0),
        row("http://a.example/1", prose(2), day=1),
        row("http://a.example/1", prose(3), day=1, read_at=NOW + timedelta(days=9)),
        row("http://a.example/1", prose(3), day=5, crawl="later"),
        row("http://a.example/2", prose(1), day=2),
    ]
    table = clusters(tmp_path, [{"read_at": None, **page} for page in pages])
    assert [(line["url"][-1], line["crawl"], line["size"], line["is_representative"]) for line in table] == [
        ("1", "later", 2, False),
        ("1", "news", 2, True),
        ("2", "news", 1, True),
    ]
    folder = tmp_path / "one"
    folder.mkdir()
    assert [line["crawl"] for line in clusters(folder, pages, crawl="later")] == ["later"]


def test_a_text_of_many_pages_is_one_cluster(tmp_path: Path) -> None:
    table = clusters(tmp_path, [row(f"http://a.example/{number}", prose(1)) for number in range(3_000)])
    assert {line["size"] for line in table} == {3_000}


def test_files_of_other_programs_need_only_two_columns(tmp_path: Path) -> None:
    table = clusters(tmp_path, [{"url": f"http://a.example/{n}", "text": prose(n // 2)} for n in range(4)])
    assert [(line["size"], line["crawl"]) for line in table] == [(2, "")] * 4
    assert clusters(folder_of(tmp_path, "null"), [{"url": "http://a.example/", "text": None}]) == []
    with pytest.raises(StoreError, match=r"texts-0.parquet is no table of texts: it has no column text"):
        clusters(folder_of(tmp_path, "other"), [{"url": "http://a.example/"}])


def folder_of(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))
    )
)
def test_components_are_what_pairs_connect(graph: tuple[int, list[tuple[int, int]]]) -> None:
    size, edges = graph
    groups = [{number} for number in range(size)]
    for first, second in edges:
        joined = groups[first] | groups[second]
        for number in joined:
            groups[number] = joined

    def pairs() -> Iterator[tuple[Any, Any]]:
        for start in range(0, len(edges), 4):
            first, second = zip(*edges[start : start + 4], strict=True)
            yield np.array(first), np.array(second)

    assert components(size, pairs).tolist() == [min(group) for group in groups]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 11)] * 2).filter(lambda pair: pair[0] < pair[1]), unique=True))
def test_each_document_of_a_star_is_similar_to_its_representative(pairs: list[tuple[int, int]]) -> None:
    representatives = stars(pairs, are_similar)
    assert representatives.keys() == {document for pair in pairs for document in pair}
    for document, representative in representatives.items():
        assert document == representative or tuple(sorted((document, representative))) in pairs
        assert representatives[representative] == representative
    if pairs:  # the most similar documents are together
        assert len({representatives[document] for document in pairs[0]}) == 1


def are_similar(some: Sequence[int], others: Sequence[int]) -> bool:
    return True


def test_documents_that_share_a_representative_alone_are_not_put_together() -> None:
    pairs = [(0, 1), (0, 2), (1, 3)]
    assert stars(pairs, lambda some, others: {*some, *others} == {0, 1}) == {0: 0, 1: 0, 2: 2, 3: 3}


def test_all_pages_of_a_cluster_are_similar_to_each_other(tmp_path: Path) -> None:
    """Two pages with either half of a third one, and one with most of it."""
    words = prose(1).split()
    halves = [words[:160], words[140:], words[:250]]
    texts = [" ".join(part) for part in (words, *halves)]
    table = clusters(tmp_path, [row(f"http://a.example/{n}", text) for n, text in enumerate(texts)])
    assert [line["representative"][-1] for line in table] == ["0", "0", "2", "0"]


def test_a_chain_of_similar_documents_is_cut_where_the_similarity_is_least() -> None:
    assert stars([(0, 1), (1, 2), (3, 4), (2, 3)], are_similar) == {0: 1, 1: 1, 2: 1, 3: 3, 4: 3}
    assert stars([(0, 3), (1, 3), (2, 3)], are_similar) == dict.fromkeys(range(4), 3)


@pytest.mark.slow
def test_clusters_by_spark_are_those_by_duckdb(tmp_path: Path) -> None:
    """On two threads, with pages that were read again, two crawls, stars in one component, and rows of equal times."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from webcrawl.clusters.by_spark import write_clusters_by_spark

    pages = [
        row(
            f"http://{'ab'[n % 2]}.example/{n % 50}",
            changed(prose(n % 7), 0.05 * (n % 9)),
            day=n % 4,
            crawl=("news", "later")[n % 3 == 0],
            read_at=NOW if n % 5 == 0 else None,
        )
        for n in range(120)
    ]
    expected = clusters(tmp_path, pages[:60], pages[60:])
    assert len({line["size"] for line in expected}) > 2
    openers = [partial(TableFile, str(path), path) for path in sorted(tmp_path.glob("texts-*"))]
    folder = folder_of(tmp_path, "spark")
    figures, rows = write_clusters_by_spark(openers, folder, "clusters", "local[2]", least=0.4)
    assert {path.name for path in folder.iterdir()} == rows.keys()
    tables = [pyarrow.parquet.read_table(folder / name) for name in sorted(rows)]
    written = pyarrow.concat_tables(tables).to_pylist()
    assert written == expected
    assert figures.pages == len(written) == sum(rows.values())
    assert figures.in_clusters == sum(line["size"] > 1 for line in written)
    fields = {field.name for field in tables[0].schema if not field.nullable}
    assert fields == {name for name, kind in FIELDS.items() if kind.endswith(NOT_NULL)}


def test_signatures_estimate_the_share_of_common_phrases() -> None:
    text = prose(1, 1_000)
    made = signatures([text, text.upper(), changed(text, 0.1), prose(2, 1_000), "", "one two"])
    assert made.shape == (6, HASHES)
    shares = similarities(*map(sketches, (made[:1].repeat(4, 0), made[:4])))
    assert shares[0] == shares[1] == 1
    words = [word.split() for word in (text, changed(text, 0.1))]
    own, other = ({*zip(line, line[1:], line[2:], strict=False)} for line in words)
    assert shares[2] == pytest.approx(len(own & other) / len(own | other), abs=0.07)
    assert shares[3] < 0.02
    hashes = bands(made)
    assert (hashes[0] == hashes[1]).all() and not (hashes[0] == hashes[3]).any()
    assert len(np.unique(hashes[0])) == hashes.shape[1]
    assert signatures([]).shape == (0, HASHES)


def test_the_command_writes_the_table_and_refuses_what_it_cannot(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "texts")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(PAGES[:4]), folder / "a.parquet")
    data = ("-s", f"DATA_DIR={tmp_path}")
    done = scrapy("copies", "--clusters", *data)
    assert done.stdout == f"4 pages: 3 pages in 1 cluster of similar pages. {tmp_path}/clusters\n"
    (path,) = (tmp_path / "clusters").glob("clusters-*.parquet")
    fields = {field.name for field in pyarrow.parquet.read_schema(path) if not field.nullable}
    assert fields == {name for name, kind in FIELDS.items() if kind.endswith(NOT_NULL)}
    for words, message in [
        (("--clusters",), "--force replaces it"),
        (("--clusters", str(tmp_path / "no")), "no Parquet files are in"),
        (("--clusters", "--limit", "3"), "--clusters takes no --limit"),
        (("-o", "x", "http://a.example/"), "--clusters is needed for --output"),
        (("--clusters", "--least", "0"), "--least takes a share from 0 to 100"),
        (("--clusters", "--engine", "sparks"), "it may be duckdb, local[2] with any number, or spark://"),
        (("--engine", "local[2]", "http://a.example/"), "--clusters is needed for --engine"),
    ]:
        refused = scrapy("copies", *words, *data, status=None)
        assert refused.returncode != 0 and message in refused.stderr, (words, refused.stderr)
