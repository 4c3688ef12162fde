"""`scrapy urlfrontier` as a process, with the engine that it starts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import grpc
import pytest

from tests.cases import cases
from tests.urlfrontier.client import Client
from webcrawl.commands.urlfrontier import check_options, is_loopback
from webcrawl.errors import ConfigurationError

A = "https://a.test/1"


@contextmanager
def running(data_dir: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running command, and the address at which it serves."""
    words = [sys.executable, "-m", "scrapy", "urlfrontier", "--port", "0", *options]
    process = subprocess.Popen(
        [*words, "-s", f"DATA_DIR={data_dir}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if match := re.match(r"URLFrontier: (\S+) ", line):
                yield process, match[1]
                break
        else:
            pytest.fail("".join(lines))
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def test_a_frontier_goes_on_where_it_was_stopped(
    tmp_path: Path, protocol: tuple[ModuleType, ModuleType]
) -> None:
    with running(tmp_path) as (process, address):
        with grpc.insecure_channel(address) as channel:
            client = Client(channel, *protocol)
            assert client.put(client.discovered(A, metadata={"m": ["1"]})) == ["OK"]
        shown = subprocess.run(
            [sys.executable, "-m", "scrapy", "checkpoint", str(tmp_path / "copy"), "--crawl", "DEFAULT",
             "-s", f"DATA_DIR={tmp_path}"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert shown.returncode == 1
        assert "the URLs of crawl 'DEFAULT' are in queues of clients" in shown.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with running(tmp_path) as (_, address), grpc.insecure_channel(address) as channel:
        client = Client(channel, *protocol)
        (info,) = client.get()
        assert (info.url, list(info.metadata["m"].values)) == (A, ["1"])


@cases(
    ("options", "message"),
    [
        ({"bind": "0.0.0.0"}, "--bind 0.0.0.0: who reaches this address could read and delete all URLs"),
        ({"bind": "::"}, "--bind ::"),
        ({"bind": "example.org"}, "--bind 'example.org': give an IP address"),
        ({"key": Path("k")}, "--key needs --certificate"),
        ({"client_ca": Path("c")}, "--client-ca needs --certificate"),
        ({"port": 70_000}, "--port 70000: must be from 0 to 65535"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    usual = {"bind": "127.0.0.1", "port": 7071, "certificate": None, "key": None, "client_ca": None}
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        check_options(SimpleNamespace(**usual | {"anyone": False} | options))  # type: ignore[arg-type]


def test_other_addresses_are_allowed_on_purpose() -> None:
    usual = {"bind": "0.0.0.0", "port": 0, "certificate": Path("a"), "key": None, "client_ca": Path("b")}
    check_options(SimpleNamespace(**usual, anyone=False))  # type: ignore[arg-type]
    check_options(SimpleNamespace(**usual | {"client_ca": None}, anyone=True))  # type: ignore[arg-type]
    assert [is_loopback(name) for name in ("localhost", "127.0.0.9", "::1", "10.0.0.1")] == [
        True,
        True,
        True,
        False,
    ]
