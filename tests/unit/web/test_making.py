"""Commands that run as processes of a dashboard."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scrapy.settings import Settings

from webcrawl.errors import StoreError
from webcrawl.web.making import CommandTask, Making, given

FILE, INDEX = CommandTask("birds", "file"), CommandTask("birds", "index")


def test_one_command_runs_at_a_time_and_ends_with_the_dashboard() -> None:
    async def run() -> None:
        making, finished = Making(), list[str]()
        making.start(FILE, ["version"], Settings(), finish=lambda: finished.append("file"))
        with pytest.raises(StoreError, match="making file of crawl birds"):
            making.start(INDEX, ["version"], Settings())
        assert making.since(FILE) and making.since(INDEX) is None
        await making.close()
        assert making.since(FILE) is None and not making.problem(FILE) and not finished

    asyncio.run(run())


def test_the_end_of_a_command_is_known(tmp_path: Path) -> None:
    failing = ["search", "storks", "-s", f"DATA_DIR={tmp_path}"]

    async def run() -> None:
        making, finished = Making(), list[str]()
        for task, words in ((FILE, ["version"]), (INDEX, failing)):
            making.start(task, words, Settings(), finish=lambda name=task.name: finished.append(name))  # type: ignore[misc]
            before = making.state(FILE, INDEX)
            while making.since(task):
                await asyncio.sleep(0.02)
            assert making.state(FILE, INDEX) != before
        assert finished == ["file"]
        assert not making.problem(FILE) and "nothing was stored yet" in making.problem(INDEX)

    asyncio.run(run())


def test_commands_get_the_settings_of_the_command_line() -> None:
    settings = Settings({"DATA_DIR": "project"}, priority="project")
    settings.set("CRAWL_ID", "birds", priority="cmdline")
    settings.set("METADATA_URI", "postgresql://me:password@db.example/", priority="cmdline")
    assert given(settings) == {"CRAWL_ID": "birds", "METADATA_URI": "postgresql://me:password@db.example/"}


def test_a_command_without_room_is_not_started() -> None:
    def prepare() -> None:
        raise StoreError("there is no room")

    async def run() -> None:
        making, finished = Making(), list[str]()
        making.start(FILE, ["version"], Settings(), prepare=prepare, finish=lambda: finished.append("file"))
        while making.since(FILE):
            await asyncio.sleep(0.02)
        assert making.problem(FILE) == "there is no room" and not finished

    asyncio.run(run())
