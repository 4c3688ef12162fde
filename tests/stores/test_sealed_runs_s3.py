"""Sealed runs of the index of duplicates in S3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from tests.frontier.test_sealed_duplicates import SealedIndex
from tests.s3server import Line
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys


def test_machines_copy_the_tables_of_runs_once(
    line: Line,
    bucket: Callable[[], dict[str, bytes]],
    redis_url: str,
    valkey: Redis,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def seal_and_find() -> None:
        engine = Engine(redis_url)
        keys, uri = Keys("crawl", 1), "s3://pages/frontier"
        one, other = (SealedIndex(engine, keys, tmp_path / name, uri=uri) for name in ("one", "other"))
        for number in range(2):
            assert await one.index.near_text(0xFFFF << 16 * number, f"u{number}", 3) is None
            await one.sealer.seal()
        await one.sealer.merge()
        for worker in (one, other):
            assert await worker.index.near_text(0xFFFE, "copy", 3) == "u0"
        [run] = {Path(name).parent.name for name in bucket() if name.endswith("run.json")} & {
            path.parent.name for path in (tmp_path / "other").rglob("run.json")
        }
        copies = {path.name for path in (tmp_path / "other").rglob(f"{run}/*")}
        assert "texts" in copies
        assert "text_names" not in copies, "names are read where they are"
        line.cut()
        assert await one.index.near_text(0xFFFE, "copy", 3) == "u0", "its names are in memory"
        assert await one.index.near_text(0xFFFE << 32, "new", 3) is None
        await engine.close()

    asyncio.run(seal_and_find())
    assert "not recognized" not in caplog.text
