"""Sealed runs of the index of duplicates, compared with an exhaustive search."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webcrawl.documents.simhash_blocks import blocks
from webcrawl.errors import StoreError
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.sealed import tables
from webcrawl.stores.sealed.merging import merge_runs
from webcrawl.stores.sealed.runs import SealedRun, payload_line, store_run, url_number, write_run
from webcrawl.stores.sealed.sealing import GROWTH, by_block, to_merge
from webcrawl.stores.sealed.settled import Lines, write_settled
from webcrawl.stores.sealed.tables import NumberSorter, SortedTable, TableWriter

Texts = Sequence[tuple[str, int]]
NONE = np.empty(0, np.uint64)
_numbers = itertools.count()


def numbers(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def sealed(
    folder: Path, texts: Texts, payloads: Sequence[bytes] = (), outdated: Sequence[str] = ()
) -> SealedRun:
    """Writes a run with these texts and lines of payloads into a store, and opens it."""
    name, texts = f"run{next(_numbers)}", sorted(texts, key=lambda text: text[1])
    files = folder / "files" / name
    files.mkdir(parents=True)
    sorted_texts = numbers([simhash for _, simhash in texts]), [url.encode() for url, _ in texts]
    write_run(
        files,
        [sorted_texts],
        [sorted(payloads)],
        (len(texts), len(payloads)),
        numbers([url_number(url.encode()) for url in outdated]),
    )
    return stored(folder, files)


def merged(folder: Path, runs: Sequence[SealedRun], *, is_oldest: bool = True) -> SealedRun:
    files = folder / "files" / f"run{next(_numbers)}"
    files.mkdir()
    merge_runs(runs, files, is_oldest=is_oldest)
    return stored(folder, files)


def stored(folder: Path, files: Path) -> SealedRun:
    store = FolderStore((folder / "store").as_uri())
    store_run(store, files.name, files)
    return SealedRun(store, files.name, folder / "copies")


def near(run: SealedRun, simhash: int, distance: int) -> set[tuple[str, int]]:
    return {(text.url.decode(), text.bits) for text in run.near([simhash], distance)}


def expected(texts: Texts, simhash: int, distance: int) -> set[tuple[str, int]]:
    return {(url, bits) for url, other in texts if (bits := (other ^ simhash).bit_count()) <= distance}


CENTRES = st.sampled_from([0, 2**64 - 1, 0xFFFF_FFFF_0000_0000, 0x0123_4567_89AB_CDEF])
CROWDED = st.builds(
    lambda centre, bits: centre ^ sum(1 << bit for bit in bits),
    CENTRES,
    st.sets(st.integers(0, 63), max_size=8),
)
SIMHASHES = CROWDED | st.integers(0, 2**64 - 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(SIMHASHES, max_size=60), st.lists(SIMHASHES, min_size=1, max_size=10), st.integers(0, 5))
def test_a_run_has_all_near_texts(
    tmp_path_factory: pytest.TempPathFactory, simhashes: list[int], wanted: list[int], distance: int
) -> None:
    texts = [(f"u{number}", simhash) for number, simhash in enumerate(simhashes)]
    run = sealed(tmp_path_factory.mktemp("run"), texts)
    replies = run.near(wanted, distance)
    for query, simhash in enumerate(wanted):
        answers = {(text.url.decode(), text.bits) for text in replies if text.query == query}
        assert answers == expected(texts, simhash, distance)


def test_recall_is_complete_at_distance_3_also_after_merges(tmp_path: Path) -> None:
    chance = random.Random(1)
    texts = [(f"u{number}", chance.getrandbits(64)) for number in range(4_000)]
    # a crowd with the same half, which no list bounds
    texts += [(f"c{number}", 7 << 32 | chance.getrandbits(32)) for number in range(2_000)]
    chance.shuffle(texts)
    parts = [sealed(tmp_path, texts[start::3]) for start in range(3)]
    together = merged(tmp_path, parts)
    assert together.texts == len(texts)
    for url, simhash in chance.sample(texts, 100):
        for bits in range(4):
            flips = chance.sample(range(64), bits)
            query = simhash ^ sum(1 << bit for bit in flips)
            wanted = expected(texts, query, 3)
            assert (url, bits) in wanted
            assert near(together, query, 3) == wanted
            assert set().union(*(near(part, query, 3) for part in parts)) == wanted


@settings(max_examples=25, deadline=None)
@given(st.lists(SIMHASHES, max_size=300), st.sampled_from([57, 16, 10]), st.lists(SIMHASHES, max_size=20))
def test_a_table_has_the_numbers_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], most_lower: int, wanted: list[int]
) -> None:
    path = tmp_path_factory.mktemp("table") / "table"
    writer, ascending = TableWriter(path, len(values), most_lower), np.sort(numbers(values))
    for start in range(0, len(values), 7):
        writer.add(ascending[start : start + 7])
    table = SortedTable(path, writer.close())
    dropped = np.uint64(table.shape.dropped)
    kept, queries = ascending >> dropped << dropped, numbers([*wanted, *values])
    assert table.numbers(0, len(table)).tolist() == kept.tolist()
    starts, stops = table.ranges(queries, 64)
    queries = queries >> dropped << dropped
    assert starts.tolist() == np.searchsorted(kept, queries, "left").tolist()
    assert stops.tolist() == np.searchsorted(kept, queries, "right").tolist()


def test_a_table_that_is_not_in_memory_is_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no longer once it is in memory."""
    reads, each = 0, 1000

    def page_reads() -> int:
        nonlocal reads
        reads += each
        return reads

    monkeypatch.setattr(tables, "_page_reads", page_reads)
    values = np.sort(np.random.default_rng(1).integers(0, 2**64 - 1, 20_000, np.uint64))
    writer = TableWriter(tmp_path / "table", len(values))
    writer.add(values)
    table = SortedTable(tmp_path / "table", writer.close())
    wanted = np.concatenate([values[::7], values[::11] + np.uint64(1), numbers([0, 2**64 - 1])])

    def reading_ahead() -> list[bool]:
        states = []
        for _ in range(tables._TEST_EVERY):
            starts, stops = table.ranges(wanted, 64)
            states.append(table._reads_ahead)
            assert starts.tolist() == np.searchsorted(values, wanted, "left").tolist()
            assert stops.tolist() == np.searchsorted(values, wanted, "right").tolist()
        return states

    assert all(reading_ahead())
    each = 0
    assert not any(reading_ahead())


def test_a_merge_keeps_the_newest_payload_and_drops_outdated_texts(tmp_path: Path) -> None:
    one, two = b"1" * 20, b"2" * 20
    before, after = 0xFF, 0xFF << 40
    old = sealed(tmp_path, [("a", 0), ("b", before)], [payload_line(one, b"1.5 a")])
    payloads = [payload_line(one, b"2.5 a text/html"), payload_line(two, b"2 b")]
    new = sealed(tmp_path, [("b", after)], payloads, ["b"])
    assert new.supersedes(b"b")
    assert not new.supersedes(b"a")
    for is_oldest in (False, True):
        run = merged(tmp_path, [old, new], is_oldest=is_oldest)
        assert near(run, 1, 3) == {("a", 1)}
        assert near(run, before, 3) == set()
        assert near(run, after, 3) == {("b", 0)}
        assert run.payload_firsts([two, b"3" * 20, one]) == {0: b"2 b", 2: b"2.5 a text/html"}
        assert run.supersedes(b"b") is not is_oldest


def test_a_run_knows_the_urls_of_its_texts(tmp_path: Path) -> None:
    urls = [f"http://a.test/{number}" for number in range(2_000)]
    run = sealed(tmp_path, [(url, number << 40) for number, url in enumerate(urls)])
    assert run.may_have(numbers([url_number(url.encode()) for url in urls])).all()
    others = numbers([url_number(f"http://b.test/{number}".encode()) for number in range(2_000)])
    assert run.may_have(others).mean() < 0.05


def test_an_empty_run_has_nothing(tmp_path: Path) -> None:
    run = sealed(tmp_path, [])
    assert not run.near([0, 5], 3)
    assert not run.payload_firsts([b"x" * 20])
    assert merged(tmp_path, [run, sealed(tmp_path, [("a", 5)])]).texts == 1


def test_a_damaged_run_is_named(tmp_path: Path) -> None:
    run = sealed(tmp_path, [("a", 5)])
    store = FolderStore((tmp_path / "store").as_uri())
    store.put(f"{run.name}/text_names", b"no block")
    with pytest.raises(StoreError, match="damaged"):
        near(run, 5, 3)
    store.put(f"{run.name}/texts", b"short")
    with pytest.raises(StoreError, match=f"{run.name} is damaged"):
        SealedRun(store, run.name, tmp_path / "copies")


def test_damage_is_an_error_that_names_the_run_and_enters_no_other_run(tmp_path: Path) -> None:
    """In each file: a byte that differs, an end that is missing, or the file. Other errors would end a worker."""
    chance, texts = random.Random(1), [(f"http://a.test/{number}", number << 52) for number in range(20)]
    digests = [bytes([number]) * 20 for number in range(20)]
    run = sealed(tmp_path, texts, [payload_line(digest, b"1 a") for digest in digests], ["a"])
    folder = tmp_path / "store" / run.name
    store, quiet = FolderStore((tmp_path / "store").as_uri()), []
    for path in sorted(folder.iterdir()):
        sound = path.read_bytes()
        damaged = [sound[:-8], b"", None]
        for at in (0, len(sound) - 9, *(chance.randrange(len(sound)) for _ in range(2))):
            damaged.append(sound[:at] + bytes([sound[at] ^ 1 << chance.randrange(8)]) + sound[at + 1 :])
        for content in damaged:
            path.unlink() if content is None else path.write_bytes(content)
            try:
                opened = SealedRun(store, run.name, tmp_path / "copies")
                with suppress(StoreError):
                    opened.near([simhash for _, simhash in texts], 3)
                with suppress(StoreError):
                    opened.payload_firsts(digests)
                opened.may_have(numbers([url_number(b"b")]))
                # as a merge does
                opened.verify()
                names = opened.sorted_texts(numbers([0])), opened.payload_lines(numbers([0]))
                assert len(list(itertools.chain(*names))) == 2
            except StoreError as error:
                assert run.name in str(error) or "block of names" in str(error)
            else:
                quiet.append(path.name)
            path.write_bytes(sound)
    assert quiet == []


def test_entries_of_the_engine_become_a_sorted_run(tmp_path: Path) -> None:
    """More than are read at once, with and without older runs that have some of the URLs."""
    chance, texts, payloads = random.Random(2), Lines(), Lines()
    known = [(f"http://a.test/{number}", chance.getrandbits(64)) for number in range(5_000)]
    lines = [payload_line(chance.randbytes(20), b"1 a") for _ in known]
    for (url, simhash), line in zip(known, lines, strict=True):
        texts.add(simhash.to_bytes(8, "big") + url.encode())
        payloads.add(line)
    older = sealed(tmp_path, [(url, 0) for url, _ in known[:100]])
    for number, runs in enumerate([[], [older], None]):
        files = tmp_path / f"files{number}"
        files.mkdir()
        write_settled(files, texts, payloads, [7], runs)
        run = stored(tmp_path, files)
        [(simhashes, urls)] = run.sorted_texts(numbers([0]))
        read = [(url.decode(), simhash) for url, simhash in zip(urls, simhashes.tolist(), strict=True)]
        assert read == sorted(known, key=lambda text: text[1])
        assert list(run.payload_lines(numbers([0]))) == [sorted(lines)]
        outdated = {url_number(url.encode()) for url, _ in known[: len(known) if runs is None else 100]}
        assert set(run.superseded.tolist()) - {7} >= (outdated if runs != [] else set())
        assert 7 in run.superseded and len(run.superseded) <= (5_001 if runs is None else 1 + 300 * len(runs))


@given(st.lists(st.tuples(CROWDED, st.binary(min_size=6, max_size=6)), max_size=30), st.integers(0, 7))
def test_texts_are_grouped_by_block(texts: list[tuple[int, bytes]], distance: int) -> None:
    entries = [simhash.to_bytes(8, "big") + name for simhash, name in texts]
    for number in range(distance + 1):
        wanted: dict[int, list[bytes]] = {}
        for entry, (simhash, _) in zip(entries, texts, strict=True):
            wanted.setdefault(blocks(simhash, distance)[number], []).append(entry)
        assert dict(by_block(b"".join(entries), distance, number)) == wanted


def test_runs_are_merged_when_the_newer_ones_have_an_eighth() -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(3_000):
        sizes.append(1)
        if newest := to_merge(sizes):
            written += sum(sizes[-newest:])
            sizes[-newest:] = [sum(sizes[-newest:])]
        assert all(size >= GROWTH * sum(sizes[at + 1 :]) for at, size in enumerate(sizes[:-1]))
    assert sum(sizes) == 3_000
    assert len(sizes) <= 5
    assert written < 3_000 * 30, "how often an entry is written"


def test_more_numbers_are_sorted_than_fit_into_memory(tmp_path: Path) -> None:
    values = [random.Random(number).getrandbits(64) for number in range(1_000)]
    sorter = NumberSorter(tmp_path, "numbers")
    for start in range(0, 1_000, 90):
        sorter.add(numbers(values[start : start + 90]))
    assert np.concatenate(list(sorter.sorted())).tolist() == sorted(values)
    assert not list(tmp_path.iterdir())
