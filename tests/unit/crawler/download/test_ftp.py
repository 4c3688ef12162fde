"""The FTP client against a server that misreports addresses, breaks off, and sends without end."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import (
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    StopDownload,
)

from tests.cases import cases
from tests.downloads import FTPClient, run
from tests.ftpserver import Script
from webcrawl.crawler.errors import RequestRefused
from webcrawl.crawler.fetch import exchange_of

FILE = {"CWD": "550 no folder", "MDTM": "213 20260203040506", "RETR": "150 here it comes\r\n226 done"}
ABSENT = {**FILE, "MDTM": "550 no such file"}
EPSV = {"EPSV": "229 Entering (|||{port}|)"}


def test_file_is_downloaded_with_its_modification_time() -> None:
    async def check() -> None:
        async with Script({**FILE, **EPSV}, b"%PDF-1.7\n") as server, FTPClient() as client:
            response = await client.get(server.url("/a%20b/%FC.pdf;type=i"))
            assert (response.status, response.body, response.flags) == (200, b"%PDF-1.7\n", [])
            assert response.headers["Last-Modified"] == b"Tue, 03 Feb 2026 04:05:06 GMT"
            assert "RETR a b/\xfc.pdf" in server.said
            exchange = await client.exchange(server.url("/x"))
            assert (exchange.mime_type, exchange.response_head) == ("application/pdf", b"")
            assert (exchange.ip_address, exchange.truncated) == ("127.0.0.1", None)

    run(check())


@cases("address", ["10,0,0,1", "127,0,0,2", "0,0,0,0", "169,254,169,254"])
def test_pasv_address_is_ignored(address: str) -> None:
    async def check() -> None:
        answers = {**FILE, "PASV": f"227 Entering ({address},{{pasv}})"}
        async with Script(answers, b"data") as server, FTPClient() as client:
            assert (await client.get(server.url("/x"))).body == b"data"
            assert server.data_connections == 1

    run(check())


def test_address_guard_applies() -> None:
    async def check() -> None:
        async with Script({**FILE, **EPSV}, b"data") as server, FTPClient(ALLOWED_NETWORKS=[]) as client:
            with pytest.raises(RequestRefused, match="127.0.0.1 is loopback"):
                await client.get(server.url("/x"))
            assert server.said == []

    run(check())


@pytest.mark.parametrize("path", ["/a%0D%0ADELE%20b", "/a%0ADELE%20b", "/%00"])
def test_path_with_a_line_break_is_rejected(path: str) -> None:
    async def check() -> None:
        async with Script({**FILE, **EPSV}, b"data") as server, FTPClient() as client:
            with pytest.raises(IgnoreRequest, match="line break") as refused:
                await client.get(server.url(path))
            assert not isinstance(refused.value, RequestRefused)  # the address is not the reason
            assert server.said == []

    run(check())


@cases(
    ("path", "answers", "status", "said"),
    [
        ("/x", {**ABSENT, "RETR": "550 no such file"}, 404, b"550 no such file"),
        ("/x", {**ABSENT, "RETR": "550 Failed to open file."}, 404, b"550 Failed to open file."),
        ("/x", {**ABSENT, "RETR": "550 x: no such file or permission denied"}, 404, None),
        ("/x", {**ABSENT, "RETR": "550 x: Permission denied"}, 403, b"550 x: Permission denied"),
        ("/x", {**FILE, "RETR": "550 Failed to open file."}, 403, b"550 Failed to open file."),
        ("/x/", {"CWD": "550 Failed to change directory."}, 404, b"550 Failed to change directory."),
        ("/x/", {"CWD": "550 Access is denied."}, 403, b"550 Access is denied."),
        ("/x/", {"CWD": "250 there", "LIST": "550 not that"}, 403, b"550 not that"),
        ("/x", {"CWD": "250 there", "LIST": "550 not that"}, 403, b"550 not that"),
        ("/x", {"USER": "530 too many users"}, 503, b"login refused: 530 too many users"),
        ("/x", {"USER": "421 too busy"}, 503, b"login refused: 421 too busy"),
        ("/x", {"USER": "331 who?", "PASS": "530 no"}, 503, b"login refused: 530 no"),
        ("/x", {**FILE, "EPSV": "421 too busy"}, 503, b"421 too busy"),
    ],
)
def test_refusal_becomes_an_http_status(
    path: str, answers: dict[str, str], status: int, said: bytes | None
) -> None:
    async def check() -> None:
        async with Script({**EPSV, **answers}) as server, FTPClient() as client:
            response = await client.get(server.url(path))
            assert response.status == status
            assert response.body == said or said is None
            assert exchange_of(response.request) is None

    run(check())


@cases(
    ("path", "answers", "said"),
    [
        ("/x", {**FILE, "EPSV": "550 Permission denied."}, "data connection refused: 550 Permission denied."),
        ("/x", {**FILE, "PASV": "550 no"}, "data connection refused: 550 no"),
        ("/", {"EPSV": "550 Permission denied."}, "data connection refused: 550 Permission denied."),
        ("/x", {"USER": "550 no"}, "login refused: 550 no"),
        ("/x/", {"CWD": "502 not that"}, "502 not that"),
    ],
)
def test_refused_login_or_data_connection_raises(path: str, answers: dict[str, str], said: str) -> None:
    async def check() -> None:
        async with Script(answers) as server, FTPClient() as client:
            with pytest.raises(DownloadFailedError, match=said):
                await client.get(server.url(path))

    run(check())


@pytest.mark.parametrize(
    ("answers", "flags"),
    [
        ({**FILE, "RETR": "150 here\r\n426 it broke"}, ["dataloss"]),
        ({**FILE, "RETR": "150 here\r\n451 it broke"}, ["dataloss"]),
    ],
)
def test_interrupted_transfer_is_flagged_as_dataloss(answers: dict[str, str], flags: list[str]) -> None:
    async def check() -> None:
        async with Script({**EPSV, **answers}, b"half") as server, FTPClient() as client:
            response = await client.get(server.url("/x"))
            assert (response.body, response.flags) == (b"half", flags)

    run(check())


def test_partial_file_is_kept_on_timeout() -> None:
    async def check() -> None:
        async with (
            Script({**FILE, **EPSV}, b"half", hangs=True) as server,
            FTPClient(DOWNLOAD_TIMEOUT=0.5) as client,
        ):
            response = await client.get(server.url("/x"))
            assert (response.body, response.flags) == (b"half", ["timeout"])
            assert (await client.exchange(server.url("/x"))).truncated == "time"
            with pytest.raises(DownloadTimeoutError):
                await client.get(server.url("/x"), meta={"download_fail_on_dataloss": True})
            server.data = b""
            with pytest.raises(DownloadTimeoutError):
                await client.get(server.url("/x"))

    run(check())


def test_long_file_is_truncated() -> None:
    async def check() -> None:
        sizes = {"text/plain": 1000, "*/*": 2000}
        async with (
            Script({**FILE, **EPSV}, b"words " * 100_000) as server,
            FTPClient(DOCUMENT_MAXSIZE=sizes) as client,
        ):
            response = await client.get(server.url("/x.txt"))
            assert (len(response.body), response.flags) == (1000, ["truncated"])
            assert (await client.exchange(server.url("/x.txt"))).truncated == "length"

    run(check())


@cases(
    ("greeting", "answers"),
    [
        (b"220-and so on\r\n" * 2000, {}),
        (b"220 " + b"x" * 200_000 + b"\r\n", {}),
        ((b"220-" + b"x" * 60_000 + b"\r\n") * 5 + b"220 hello\r\n", {**FILE, **EPSV}),
        (b"SSH-2.0-OpenSSH_9.2\r\n", {}),
        (b"\0\xff\r\n", {}),
        (b"220 hello\r\n", {**FILE, "EPSV": "229 nowhere"}),
        (b"220 hello\r\n", {**FILE, "PASV": "227 (1,2,3)"}),
        (b"220 hello\r\n", {**FILE, "PASV": "227 (1,2,3,4,500,600)"}),
        (b"220 hello\r\n", FILE),
        (b"220 hello\r\n", {"USER": "999 what"}),
        (b"421 go away\r\n", {}),
    ],
)
def test_malformed_protocol_raises(greeting: bytes, answers: dict[str, str]) -> None:
    async def check() -> None:
        async with Script(answers, greeting=greeting) as server, FTPClient(DOWNLOAD_TIMEOUT=1) as client:
            with pytest.raises((DownloadFailedError, DownloadTimeoutError)):
                await client.get(server.url("/x"))

    run(check())


def test_unreadable_listing_lines_are_reported() -> None:
    async def check() -> None:
        answers = {"CWD": "250 there", **EPSV, **LISTINGS[1][0]}
        async with Script(answers, b"hello\r\n" * 50) as server, FTPClient() as client:
            exchange = await client.exchange(server.url("/"))
            assert exchange.problem == "50 of 50 lines of the listing could not be read, the first is 'hello'"
            server.data = LISTINGS[1][1].removesuffix(b"garbage\r\n")
            assert (await client.exchange(server.url("/"))).problem is None

    run(check())


def test_listing_is_read_up_to_a_size_limit() -> None:
    async def check() -> None:
        line = b"type=file;size=1; %04d" + b"x" * 60_000 + b"\r\n"
        data = b"".join(line % number for number in range(400))
        answers = {"CWD": "250 there", **EPSV, **LISTINGS[0][0]}
        async with Script(answers, data) as server, FTPClient(DOCUMENT_MAXSIZE={}) as client:
            response = await client.get(server.url("/"))
            names = response.css("li a::text").getall()
            assert response.flags == ["truncated"]
            assert (await client.exchange(server.url("/"))).truncated == "length"
        assert 100 < len(names) <= 8 * 2**20 // 60_000

    run(check())


LISTINGS = [
    (
        {"FEAT": "211-features\r\n MLST type*;\r\n211 end", "MLSD": "150 here\r\n226 done"},
        b"type=cdir;size=1; .\r\ntype=dir;modify=20260101000000; sub folder\r\ntype=file;size=12; a<b>&\xfc.txt\r\n"
        b"type=file;size=1; ../../etc\r\n\xff\xfe\r\n\r\nnonsense\r\ntype=file;size=3; \xe6\x97\xa5.txt\r\n",
    ),
    (
        {"LIST": "150 here\r\n226 done"},
        b"total 12\r\ndrwxr-xr-x    3 0        0            4096 Nov 21  2024 sub folder\r\n"
        b"-rw-r--r--    1 0        0              12 Nov 21  2024 a<b>&\xfc.txt\r\n"
        b"-rw-r--r--    1 0        0               3 Nov 21  2024 \xe6\x97\xa5.txt\r\ngarbage\r\n",
    ),
]


@cases(("answers", "data"), LISTINGS)
@cases("path", ["/pub/", "/pub"])
def test_folder_becomes_a_page_of_links(answers: dict[str, str], data: bytes, path: str) -> None:
    async def check() -> None:
        async with Script({"CWD": "250 there", **EPSV, **answers}, data) as server, FTPClient() as client:
            response = await client.get(server.url(path))
            links = response.css("li a::attr(href)").getall()
            assert links == ["/pub/a%3Cb%3E%26%FC.txt", "/pub/sub%20folder/", "/pub/%E6%97%A5.txt"]
            assert response.css("li a::text").getall() == ["a<b>&ü.txt", "sub folder", "日.txt"]
            assert response.css("title::text").get() == "Index of 127.0.0.1/pub/"
            assert response.css("link::attr(href)").get() == "/pub/"

    run(check())


@pytest.mark.parametrize("fail", [True, False])
def test_stop_download_of_a_listener_ends_the_transfer(fail: bool) -> None:
    received: list[bytes] = []

    def listener(data: bytes, **details: Any) -> None:
        received.append(data)
        raise StopDownload(fail=fail)

    async def check() -> None:
        async with Script({**FILE, **EPSV}, b"words " * 100_000) as server, FTPClient() as client:
            client.crawler.signals.connect(listener, signals.bytes_received)
            request = Request(server.url("/x"))
            if fail:
                with pytest.raises(StopDownload) as raised:
                    await client.send(request)
                response = raised.value.response
            else:
                response = await client.send(request)
            assert response is not None and response.flags == ["download_stopped"]
            assert response.body == received[0] and len(received) == 1
            exchange = exchange_of(request)
            assert exchange is not None and exchange.truncated == "length"

    run(check())


def test_interrupted_transfer_raises_with_fail_on_dataloss() -> None:
    async def check() -> None:
        answers = {**FILE, **EPSV, "RETR": "150 here\r\n426 it broke"}
        async with Script(answers, b"half") as server, FTPClient() as client:
            with pytest.raises(ResponseDataLossError, match="426 it broke"):
                await client.get(server.url("/x"), meta={"download_fail_on_dataloss": True})

    run(check())
