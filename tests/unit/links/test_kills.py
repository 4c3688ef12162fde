"""Writers of a link store are killed at changes of the disk: each acknowledged page has its links once."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.crawls import CHECKOUT
from tests.unit.links.rows import table
from webcrawl.config import StoreConfig
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore

WRITER = """
    import json, os, sys
    from pathlib import Path
    from tests.unit.links.rows import entry
    from webcrawl.links.arrow import pyarrow
    from webcrawl.links.store import LinkStore

    pyarrow()

    def write(folder, pages, kill_at, written):
        left = kill_at
        def count(event, values):
            nonlocal left
            if event in ("open", "os.rename", "os.remove") and str(values[0]).startswith(folder):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), 9)
        sys.addaudithook(count)
        store = LinkStore(Path(folder), "broad", roll_bytes=500)
        for page in pages:
            store.write([entry(page, "http://b.example/", page)])
            os.write(written, page.encode() + b"\\n")
        store.close()

    for line in sys.stdin:
        reading, writing = os.pipe()
        if not (child := os.fork()):
            os.close(reading)
            write(*json.loads(line), writing)
            os._exit(0)
        os.close(writing)
        with open(reading) as file:
            pages = file.read().split()
        print(json.dumps([pages, os.waitpid(child, 0)[1]]), flush=True)
"""
Write = Callable[[Path, list[str], int], tuple[list[str], int]]
runs = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 30), st.booleans()), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def write() -> Iterator[Write]:
    """Writes pages in a process that is killed before the change with this number; returns what it wrote."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER)],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None and program.stdout is not None
        stdin, stdout = program.stdin, program.stdout

        def ask(folder: Path, pages: list[str], kill_at: int) -> tuple[list[str], int]:
            print(json.dumps([str(folder), pages, kill_at]), file=stdin, flush=True)
            written, status = json.loads(stdout.readline())
            return written, status

        yield ask
        stdin.close()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs)
def test_kills_lose_no_acknowledged_page_and_make_no_row_twice(
    write: Write, runs: list[tuple[int, int, bool]]
) -> None:
    """A run writes some pages, is killed at some change, and a reader may finish what it left."""
    with tempfile.TemporaryDirectory() as name:
        folder, begun, acknowledged = Path(name) / "links", set[str](), set[str]()
        config = StoreConfig("", "", Path(name), links=folder.as_uri())
        folder.mkdir()
        for number, (size, kill_at, is_read) in enumerate(runs):
            pages = [f"http://a.example/{number}/{page}" for page in range(size)]
            written, status = write(folder, pages, kill_at)
            assert status in (0, 9)
            begun |= {*pages}
            acknowledged |= {*written}
            if is_read and any(folder.iterdir()):
                assert link_files(config).unfinished == 0
        LinkStore(folder, "broad").close()
        assert {path.suffix for path in folder.iterdir()} <= {".parquet"}
        found = Counter((row["from_url"], row["to_url"]) for row in table(folder))
        assert set(found.values()) <= {1}
        assert acknowledged <= {page for page, _ in found} <= begun
        assert {target for _, target in found} <= {"http://b.example/", *begun}
        assert len(found) == 2 * len({page for page, _ in found})
