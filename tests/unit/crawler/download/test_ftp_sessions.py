"""Reuse of FTP sessions, until a session is stale, idle for too long, or over the limit."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.cases import cases
from tests.downloads import FTPClient, run
from tests.ftpserver import Script, vsftpd
from webcrawl.crawler.download import ftp_client, ftp_sessions

EPSV = {"EPSV": "229 Entering (|||{port}|)"}
KEPT = {
    **EPSV,
    "PWD": '257 "/home/""x""" is where you are',
    "CWD": "550 no folder",
    'CWD /home/"x"': "250 back",
    "RETR none": "550 no such file",
    "RETR": "150 here it comes\r\n226 done",
}


def logins(server: Script) -> int:
    return server.said.count("USER anonymous")


async def wait_for_quit(server: Script, sessions: int = 1) -> None:
    while server.said.count("QUIT") < sessions:
        await asyncio.sleep(0.01)


def test_session_is_reused_for_the_next_url() -> None:
    async def check() -> None:
        async with Script(KEPT, b"data") as server:
            async with FTPClient() as client:
                for path in ("/a", "/b", "/missing/", "/none", "/c"):
                    response = await client.get(server.url(path))
                    assert (response.status, response.body == b"data") == (
                        (200, True) if len(path) == 2 else (404, False)
                    )
                assert logins(server) == 1
                assert server.said.count('CWD /home/"x"') == 4
                assert "QUIT" not in server.said
            await wait_for_quit(server)

    run(check())


def test_log_shows_no_bytes_of_a_server_raw(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        answers = KEPT | {"RETR none": "550 \x1b[2J\x9b" + "long" * 1000}
        async with Script(answers, b"data") as server, FTPClient() as client:
            await client.get(server.url("/none"))

    with caplog.at_level(logging.DEBUG):
        run(check())
    refusals = [line for line in caplog.messages if line.startswith("550")]
    assert refusals and all(line.isprintable() and len(line) <= 500 for line in refusals)


@pytest.mark.parametrize(
    "again", ["421 idle for too long", "550 gone", "what", "250-never\r\n ends", "250 \xff" + "x" * 300_000]
)
def test_stale_session_is_replaced(again: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ftp_client, "_STALE_SECONDS", 0.2)

    async def check() -> None:
        async with Script(KEPT | {'CWD /home/"x"': again}, b"data") as server, FTPClient() as client:
            for path in ("/a", "/b"):
                assert (await client.get(server.url(path))).body == b"data"
            assert logins(server) == 2

    run(check())


def test_session_ended_by_the_server_is_replaced(tmp_path: Path) -> None:
    async def check() -> None:
        (root := tmp_path / "served").mkdir()
        (root / "folder").mkdir()
        (root / "folder" / "a.txt").write_text("words")
        with vsftpd(tmp_path, root, idle_session_timeout=1) as port:
            async with FTPClient() as client:
                for path, pause in (("folder/", 0.0), ("folder/a.txt", 2.5), ("folder/a.txt", 0.0)):
                    response = await client.get(f"ftp://127.0.0.1:{port}/{path}")
                    assert (response.status, response.flags) == (200, [])
                    await asyncio.sleep(pause)
            assert response.body == b"words"
            assert (tmp_path / "commands").read_text().count('"USER anonymous"') == 2

    run(check())


@cases(
    "answers",
    [
        {"PWD": "502 no"},
        {"PWD": '257 "" is nowhere'},
        {"PWD": "257 nothing to say"},
        {"RETR": "150 here it comes\r\n426 broken"},
        {"RETR": "425 no connection"},
        {"USER": "530 not now"},
    ],
)
def test_session_that_cannot_be_reused_is_closed(answers: dict[str, str]) -> None:
    async def check() -> None:
        async with Script({**KEPT, **answers}, b"data") as server, FTPClient() as client:
            for number in (1, 2):
                await client.get(server.url("/a"))
                await wait_for_quit(server, number)
            assert logins(server) == 2

    run(check())


def test_session_with_a_truncated_transfer_is_closed() -> None:
    async def check() -> None:
        sizes = {"*/*": 1000}
        async with (
            Script(KEPT, b"words " * 100_000) as server,
            FTPClient(DOCUMENT_MAXSIZE=sizes) as client,
        ):
            for number in (1, 2):
                assert len((await client.get(server.url("/x"))).body) == 1000
                await wait_for_quit(server, number)

    run(check())


def test_idle_session_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ftp_sessions, "_KEPT_SECONDS", 0.05)

    async def check() -> None:
        async with Script(KEPT, b"data") as server, FTPClient() as client:
            await client.get(server.url("/a"))
            await wait_for_quit(server)

    run(check())


def test_number_of_idle_sessions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ftp_sessions, "_MAX_KEPT", 1)

    async def check() -> None:
        async with Script(KEPT, b"data") as first, Script(KEPT, b"data") as second, FTPClient() as client:
            await client.get(first.url("/a"))
            await asyncio.gather(client.get(second.url("/a")), client.get(second.url("/b")))
            await wait_for_quit(first)
            await wait_for_quit(second)
            await client.get(second.url("/c"))
            assert (logins(first), logins(second)) == (1, 2)

    run(check())
