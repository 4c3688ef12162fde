"""Graphs by Spark are those by DuckDB; and what is missing for Spark is named."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from tests.ports import free_ports
from tests.unit.graph.test_building import URLS, files
from tests.unit.links.rows import TIME, entry
from webcrawl.config import StoreConfig
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.graph.building import GraphOptions, build
from webcrawl.graph.spark.building import build_by_spark
from webcrawl.graph.spark.merging import merge_by_spark
from webcrawl.graph.spark.session import check_master
from webcrawl.links.entry import StoredLinks
from webcrawl.links.merging import merge_files
from webcrawl.links.store import LinkStore

EQUAL = ("in_degree", "out_degree", "component", "component_size")
NAMES = {"pages": ["url", "host"], "hosts": ["host", "pages"], "domains": ["domain", "hosts"]}
MASTER = "local[2]"
GB = 1 << 30


def crawled() -> Iterator[StoredLinks]:
    """Fetches of pages by two crawls, some of them again, with links that do not count, and of three components."""
    dice = random.Random(7)
    for number, url in enumerate(URLS[:40]):
        near = URLS[:16] if number < 16 else URLS[16:40]
        yield entry(url, *dice.choices(near, k=dice.randrange(6)))
        if number % 5 == 0:
            yield entry(url, *dice.choices(near, k=3), url, time=TIME + 1, crawl="second")
        if number % 7 == 0:
            yield entry(url, *dice.choices(near, k=2), time=TIME, read_at=TIME + 9)
    yield entry(URLS[44], URLS[45])
    yield entry(URLS[46], URLS[3], rel="nofollow")


@pytest.fixture(scope="module")
def spark_installed() -> None:
    """Skips a test without Spark, which `.ci/run slow` installs."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")


def test_graphs_can_have_other_engines_only_if_they_are_known(tmp_path: Path) -> None:
    for name in ("sparks", "local[0]", "local[]", "spark://", "spark://host", "spark://a:1/b", "yarn"):
        with pytest.raises(
            ConfigurationError, match=r"may be duckdb, local\[2\] with any number, or spark://"
        ):
            check_master(name)


def java(folder: Path, version: str, code: int = 0) -> Path:
    """A JAVA_HOME with a program that prints this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    program.chmod(0o700)
    return folder


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ConfigurationError, match="Spark needs Java 17 or later, and there is no java in PATH"
    ):
        check_master(MASTER)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"JAVA_HOME is {tmp_path}, where bin/java is missing"):
        check_master(MASTER)


@pytest.mark.parametrize(("version", "code", "words"), [("1.8.0_402", 0, "is Java 8"), ("17", 1, "not run")])
def test_java_that_is_of_no_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, code: int, words: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version, code)))
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    with pytest.raises(ConfigurationError, match=rf"Spark needs Java.*{tmp_path}/bin/java .*{words}"):
        check_master(MASTER)


def test_a_master_that_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "21.0.2")))
    master = "spark://127.0.0.1:1,127.0.0.2:99999"
    with pytest.raises(ConfigurationError) as raised:
        check_master(master)
    message = str(raised.value)
    assert message.startswith(f"--engine {master}: no master can be reached: 127.0.0.1:1: ")
    assert "; 127.0.0.2:99999: " in message


def vertices(folder: Path, level: str) -> list[dict[str, Any]]:
    table = dataset.dataset(folder / level / "vertices.parquet").to_table()
    rows: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "wanted",
    [GraphOptions(memory=GB), GraphOptions(crawl="broad", nofollow=True, only_hosts=True, memory=GB)],
)
def test_graphs_by_spark_are_those_by_duckdb(
    spark_installed: None, tmp_path: Path, wanted: GraphOptions
) -> None:
    links = files(tmp_path, *crawled())
    ours = build(links, tmp_path / "duckdb", wanted, lambda *_: None)
    best: dict[str, Any] = {}
    theirs = build_by_spark(
        links, tmp_path / "spark", wanted, MASTER, lambda name, _, top: best.update({name: top})
    )
    assert json.loads((tmp_path / "spark" / "summary.json").read_text()) == theirs
    levels = ["hosts", "domains"] if wanted.only_hosts else ["pages", "hosts", "domains"]
    assert sorted(path.name for path in (tmp_path / "spark").iterdir()) == sorted([*levels, "summary.json"])
    assert theirs["links"] == ours["links"]
    for level in levels:
        expected = parquet.read_table(tmp_path / "duckdb" / level / "vertices.parquet").to_pylist()
        rows = vertices(tmp_path / "spark", level)
        columns = ["id", *NAMES[level], *EQUAL]
        assert [[row[name] for name in columns] for row in rows] == [
            [row[name] for name in columns] for row in expected
        ]
        for row, other in zip(rows, expected, strict=True):
            assert row["pagerank"] == pytest.approx(other["pagerank"], abs=1e-9)
        by_rank = sorted(rows, key=lambda row: (-row["pagerank"], row["id"]))
        assert [row["pagerank_position"] for row in by_rank] == list(range(1, len(rows) + 1))
        assert [rank for _, rank in best[level]] == [row["pagerank"] for row in by_rank[:10]]
        for name in set(theirs[level]) - {"pagerank"}:
            assert theirs[level][name] == ours[level][name], name
        edges = dataset.dataset(tmp_path / "spark" / level / "edges.parquet").to_table()
        assert len(edges) == ours[level]["edges"]


@pytest.mark.slow
def test_errors_of_spark_are_sentences_and_nothing_is_left(spark_installed: None, tmp_path: Path) -> None:
    links = files(tmp_path, *list(crawled())[:3])
    with pytest.raises(StoreError, match="crawl 'other' has stored no links that count yet"):
        build_by_spark(links, tmp_path / "graph", GraphOptions(crawl="other"), MASTER, lambda *_: None)
    path = max((tmp_path / "links").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match=rf"Spark \(local\[2\]\): .*{path.name}"):
        build_by_spark(links, tmp_path / "graph", GraphOptions(), MASTER, lambda *_: None)
    assert [found.name for found in tmp_path.iterdir()] == ["links"]


@pytest.fixture
def cluster(spark_installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a master on loopback, with a worker of one core."""
    import pyspark

    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_WORKER_DIR", str(tmp_path / "work"))
    program = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    rooms = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [
        [*program, f"{rooms}.master.Master", *here, "--port", str(port)],
        [*program, f"{rooms}.worker.Worker", *here, "--cores", "1", "--memory", "1g", master],
    ]
    with ExitStack() as stack:
        for command in commands:
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(server.wait, 60)
            stack.callback(server.terminate)
            wait_for(lambda: is_open(port))
        yield master


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.slow
def test_a_cluster_computes_the_same(cluster: str, tmp_path: Path) -> None:
    links = files(tmp_path, *crawled())
    wanted = GraphOptions(only_hosts=True)
    build(links, tmp_path / "duckdb", wanted, lambda *_: None)
    build_by_spark(links, tmp_path / "spark", wanted, cluster, lambda *_: None)
    expected = parquet.read_table(tmp_path / "duckdb" / "hosts" / "vertices.parquet").to_pylist()
    for row, other in zip(vertices(tmp_path / "spark", "hosts"), expected, strict=True):
        assert [row[name] for name in ("host", *EQUAL)] == [other[name] for name in ("host", *EQUAL)]
        assert row["pagerank"] == pytest.approx(other["pagerank"], abs=1e-9)


@pytest.mark.slow
def test_files_merged_by_spark_are_those_of_one_process(spark_installed: None, tmp_path: Path) -> None:
    links = [entry(f"http://a.example/{number}", *URLS[:6]) for number in range(6)]
    for name in ("one", "other"):
        for number in range(3):
            store = LinkStore(tmp_path / name, f"crawl{number}")
            store.write(list(crawled()) if number else links)
            store.close()
    here, there = (
        StoreConfig(folder.as_uri(), "sqlite://", folder, links=folder.as_uri())
        for folder in (tmp_path / "one", tmp_path / "other")
    )
    assert merge_files(here) == merge_by_spark(there, "links", MASTER) == (3, 1)
    (ours,), (theirs,) = ([*(tmp_path / name).glob("*.parquet")] for name in ("one", "other"))
    assert parquet.read_table(ours).equals(parquet.read_table(theirs))
    footers = [parquet.read_metadata(path).metadata for path in (ours, theirs)]
    assert footers[0] == footers[1]
    assert not [*(tmp_path / "other").glob("_*.merge")]
    assert merge_by_spark(there, "links", MASTER) == (0, 0)
