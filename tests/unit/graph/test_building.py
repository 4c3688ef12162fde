"""The folder that a graph of a link store is written to."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import networkx
import pyarrow
import pyarrow.parquet as parquet
import pytest

from tests.processes import file_size_limit
from tests.unit.links.rows import TIME, entry
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.graph.building import GraphOptions, build
from webcrawl.graph.files import _write
from webcrawl.links import store as link_store
from webcrawl.links.entry import StoredLinks
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore

HOSTS = [
    "http://a.example.org",
    "http://b.example.org",
    "https://c-d.co.uk",
    "https://www.c-d.co.uk:81",
    "http://192.0.2.7",
    "http://[2001:db8::1]",
]
URLS = [f"{host}/{number}" for host in HOSTS for number in range(8)]
REVERSED = {
    "http://a.example.org": "org.example.a",
    "http://b.example.org": "org.example.b",
    "https://c-d.co.uk": "uk.co.c-d",
    "https://www.c-d.co.uk:81": "uk.co.c-d.www:81",
    "http://192.0.2.7": "192.0.2.7",
    "http://[2001:db8::1]": "[2001:db8::1]",
}
DOMAINS = {
    "org.example.a": "org.example",
    "org.example.b": "org.example",
    "uk.co.c-d": "uk.co.c-d",
    "uk.co.c-d.www:81": "uk.co.c-d",
    "192.0.2.7": "192.0.2.7",
    "[2001:db8::1]": "[2001:db8::1]",
}
Edge = tuple[str, str]


def files(folder: Path, *entries: StoredLinks) -> Any:
    """The files of a link store in a folder, after some entries were written to it."""
    for one in entries:
        store = LinkStore(folder / "links", one.crawl)
        store.write([one])
        store.close()
    return link_files(StoreConfig(folder.as_uri(), "sqlite://", folder, links=(folder / "links").as_uri()))


def built(folder: Path, *entries: StoredLinks, **wanted: Any) -> dict[str, Any]:
    return build(files(folder, *entries), folder / "graph", GraphOptions(**wanted), lambda *_: None)


def lines(path: Path) -> list[list[str]]:
    """The lines of a file, without a header."""
    text = gzip.decompress(path.read_bytes()).decode()
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


def edges(folder: Path) -> list[Edge]:
    """The edges of a graph by the names of their vertices, in the order of the file."""
    names = {number: name for number, name, *_ in lines(folder / "vertices.txt.gz")}
    return [(names[source], names[target]) for source, target in lines(folder / "edges.txt.gz")]


def host(url: str) -> str:
    return REVERSED[url.rpartition("/")[0]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[Edge]]:
    """The graphs of a store of several files and row groups, and the edges between its pages."""
    folder, dice, expected = tmp_path_factory.mktemp("store"), random.Random(3), set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_store, "GROUP_ROWS", 20)
        patch.setattr("webcrawl.graph.database._ROWS", 50)
        entries = []
        for url in URLS[::2]:
            targets = dice.choices(URLS[:44], k=dice.randrange(9))
            entries.append(entry(url, *targets))
            expected |= {(url, target) for target in targets if target != url}
        for start in range(0, len(entries), 6):
            store = LinkStore(folder / "links", "broad")
            store.write(entries[start : start + 6])
            store.close()
        summary = built(folder, plots=True)
    assert json.loads((folder / "graph" / "summary.json").read_text()) == summary
    return folder / "graph", expected


def test_edges_join_pages_hosts_and_domains(written: tuple[Path, set[Edge]]) -> None:
    folder, expected = written
    found = {name: edges(folder / name) for name in ("pages", "hosts", "domains")}
    assert set(found["pages"]) == expected
    hosts = {(host(source), host(target)) for source, target in expected}
    assert set(found["hosts"]) == {(one, other) for one, other in hosts if one != other}
    domains = {(DOMAINS[one], DOMAINS[other]) for one, other in hosts}
    assert set(found["domains"]) == {(one, other) for one, other in domains if one != other}
    for name, pairs in found.items():
        assert len(pairs) == len(set(pairs)), "each edge is there once"
        numbers = [tuple(map(int, line)) for line in lines(folder / name / "edges.txt.gz")]
        assert numbers == sorted(numbers)
        assert not list(folder.glob("scratch"))


def test_ids_follow_the_order_of_reversed_hosts(written: tuple[Path, set[Edge]]) -> None:
    folder, _ = written
    for name in ("pages", "hosts", "domains"):
        rows = lines(folder / name / "vertices.txt.gz")
        assert [int(row[0]) for row in rows] == list(range(len(rows)))
        names = [(host(row[1]), row[1]) if name == "pages" else row[1] for row in rows]
        assert names == sorted(names) and len(set(names)) == len(names)
    assert [row[2] for row in rows if row[1] == "uk.co.c-d"] == ["2"]


def test_parquet_ranks_and_networkx_agree(written: tuple[Path, set[Edge]]) -> None:
    folder, _ = written
    for name, column in {"pages": "url", "hosts": "host", "domains": "domain"}.items():
        rows = parquet.read_table(folder / name / "vertices.parquet").to_pylist()
        graph = networkx.DiGraph(edges(folder / name))
        graph.add_nodes_from(row[column] for row in rows)
        ranks, central = networkx.pagerank(graph, tol=1e-12), networkx.harmonic_centrality(graph)
        for row in rows:
            assert row["pagerank"] == pytest.approx(ranks[row[column]], abs=1e-7)
            assert row["harmonic"] == pytest.approx(central[row[column]])
            assert row["in_degree"] == graph.in_degree(row[column])
        text = gzip.decompress((folder / name / "ranks.txt.gz").read_bytes()).decode()
        label = {"pages": "#url", "hosts": "#host_rev", "domains": "#host_rev\t#n_hosts"}[name]
        assert text.startswith(f"#harmonicc_pos\t#harmonicc_val\t#pr_pos\t#pr_val\t{label}\n")
        ranked = lines(folder / name / "ranks.txt.gz")
        assert [int(line[0]) for line in ranked] == list(range(1, len(rows) + 1))
        assert [float(line[1]) for line in ranked] == sorted((row["harmonic"] for row in rows), reverse=True)
        by_name = {row[column]: row for row in rows}
        for line in ranked:
            row = by_name[line[4]]
            assert (int(line[2]), float(line[3])) == (row["pagerank_position"], row["pagerank"])


def test_pictures_are_drawn_of_each_graph(written: tuple[Path, set[Edge]]) -> None:
    folder, _ = written
    for name in ("pages", "hosts", "domains"):
        assert (folder / name / "degrees.svg").read_text().count("<polyline") == 2
    picture = (folder / "hosts" / "top.svg").read_text()
    rows = parquet.read_table(folder / "hosts" / "vertices.parquet").to_pylist()
    assert picture.count("<rect") == len(rows) + 1
    assert "www.c-d.co.uk:81" in picture and "uk.co.c-d" not in picture


def test_the_last_fetch_of_a_page_counts(tmp_path: Path) -> None:
    a, b, c, d = URLS[:4]
    old, new = entry(a, b, c, time=TIME), entry(a, d, time=TIME + 1, crawl="second")
    summary = built(tmp_path, old, entry(b, a), new)
    assert edges(tmp_path / "graph" / "pages") == [(a, d), (b, a)]
    assert summary["links"] == 2
    assert summary["pages"]["vertices"] == 3, "only an old fetch had a link to c"


def test_the_last_reading_of_the_last_fetch_counts(tmp_path: Path) -> None:
    """An earlier fetch that was read again later does not come before a later one."""
    a, b, c, d = URLS[:4]
    again, fetched = entry(a, b, time=TIME, read_at=TIME + 9), entry(a, c, time=TIME + 1)
    built(tmp_path, entry(a, c, time=TIME), again, fetched, entry(a, d, time=TIME + 1, read_at=TIME + 5))
    assert edges(tmp_path / "graph" / "pages") == [(a, d)]


def test_one_crawl_can_be_chosen(tmp_path: Path) -> None:
    a, b, c = URLS[:3]
    built(tmp_path, entry(a, b, crawl="one"), entry(a, c, crawl="two", time=TIME + 1), crawl="one")
    assert edges(tmp_path / "graph" / "pages") == [(a, b)]
    with pytest.raises(StoreError, match="'three' has stored no links that count yet"):
        build(files(tmp_path), tmp_path / "other", GraphOptions(crawl="three"), lambda *_: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "links"]


@pytest.mark.parametrize("nofollow", [False, True])
def test_nofollow_is_left_out_unless_wanted(tmp_path: Path, nofollow: bool) -> None:
    """The last fetch has only a link with nofollow: what an earlier one had does not count."""
    a, b, c = URLS[:3]
    old, new = entry(a, b), entry(a, c, rel="nofollow", time=TIME + 1)
    built(tmp_path, old, new, nofollow=nofollow)
    names = [row[1] for row in lines(tmp_path / "graph" / "pages" / "vertices.txt.gz")]
    assert names == ([a, c] if nofollow else [a])
    assert edges(tmp_path / "graph" / "pages") == ([(a, c)] if nofollow else [])


def test_only_hosts_are_the_same_without_pages(written: tuple[Path, set[Edge]], tmp_path: Path) -> None:
    folder, _ = written
    summary = build(files(folder.parent), tmp_path / "hosts", GraphOptions(only_hosts=True), lambda *_: None)
    assert sorted(summary) == ["domains", "hosts", "links"]
    for name in ("vertices.txt.gz", "edges.txt.gz", "ranks.txt.gz"):
        assert lines(tmp_path / "hosts" / "hosts" / name) == lines(folder / "hosts" / name)
    assert not (tmp_path / "hosts" / "pages").exists()


def test_an_output_that_exists_stays(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    found = files(tmp_path, entry(URLS[0], URLS[1]))
    build(found, tmp_path / "graph", GraphOptions(), lambda *_: None)
    before = sorted((tmp_path / "graph").rglob("*"))
    with pytest.raises(StoreError, match="graph exists and is not an empty folder"):
        build(found, tmp_path / "graph", GraphOptions(), lambda *_: None)
    assert sorted((tmp_path / "graph").rglob("*")) == before


def test_a_damaged_file_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    found = files(tmp_path, entry(URLS[0], URLS[1]), entry(URLS[2], URLS[1]))
    path = max((tmp_path / "links").glob("*.parquet"))
    data = path.read_bytes()
    path.write_bytes(data[:60] + bytes(byte ^ 255 for byte in data[60:200]) + data[200:])
    with pytest.raises(StoreError, match=rf"{path} cannot be read"):
        build(found, tmp_path / "graph", GraphOptions(), lambda *_: None)
    assert [one.name for one in tmp_path.iterdir()] == ["links"]


@pytest.mark.parametrize("size", [0, 200, 20_000])
def test_without_room_nothing_is_left(tmp_path: Path, size: int) -> None:
    found = files(tmp_path, entry(URLS[0], *[f"{URLS[1]}/{number * 7919}" for number in range(9_000)]))
    with file_size_limit(size), pytest.raises(StoreError, match="graph|DuckDB"):
        build(found, tmp_path / "graph", GraphOptions(), lambda *_: None)
    assert [one.name for one in tmp_path.iterdir()] == ["links"]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(files(tmp_path, entry(URLS[0], URLS[1])), tmp_path / "graph", GraphOptions(), interrupt)
    assert [one.name for one in tmp_path.iterdir()] == ["links"]


def test_a_full_disk_is_noticed_while_texts_are_written() -> None:
    batch = pyarrow.record_batch({"id": list(range(300_000))})
    with pytest.raises(OSError, match="No space left on device"):
        _write(Path("/dev/full"), [batch])
