"""HTTPS of the dashboard itself: `--certificate` and `--key`."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization

from tests.crawls import scrapy
from tests.dashboard.site import CrawledSite, Dashboard
from tests.dashboard.test_access import form_token
from tests.unit.crawler.download.test_http_ways import Authority

StartDashboard = Callable[..., Dashboard]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority, whose certificate of 127.0.0.1 is in `server.pem` with its key."""
    return Authority(tmp_path, "127.0.0.1")


def connect(dashboard: Dashboard, authority: Authority) -> http.client.HTTPSConnection:
    parts = urlsplit(dashboard.url)
    assert parts.scheme == "https"
    context = ssl.create_default_context(cafile=str(authority.file))
    return http.client.HTTPSConnection(str(parts.hostname), parts.port, timeout=60, context=context)


@pytest.mark.parametrize("together", [True, False], ids=["one file", "two files"])
def test_pages_and_actions_by_https(
    authority: Authority,
    start_dashboard: StartDashboard,
    site: CrawledSite,
    tmp_path: Path,
    *,
    together: bool,
) -> None:
    options = ["--certificate", str(tmp_path / "server.pem")]
    if not together:
        key, certificate = split(tmp_path / "server.pem", tmp_path)
        options = ["--certificate", str(certificate), "--key", str(key)]
    dashboard = start_dashboard(*options, data_dir=site.data_dir)
    connection = connect(dashboard, authority)
    connection.request("GET", "/crawls/broad")
    answer = connection.getresponse()
    html, cookie = answer.read().decode(), str(answer.headers["Set-Cookie"])
    assert answer.status == 200 and "secure" in cookie.lower()
    known = {"Cookie": cookie.partition(";")[0], "Content-Type": "application/x-www-form-urlencoded"}
    form = urlencode({"token": form_token(html), "next": "/crawls/broad"})
    for origin, status in ((dashboard.url, 303), ("https://evil.example", 403)):
        connection.request("POST", "/crawls/broad/stop", form, known | {"Origin": origin})
        answer = connection.getresponse()
        assert answer.status == status, answer.read()
        answer.read()
    connection.close()
    plain = http.client.HTTPConnection("127.0.0.1", int(str(urlsplit(dashboard.url).port)), timeout=60)
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.request("GET", "/")
        plain.getresponse()


def split(both: Path, folder: Path) -> tuple[Path, Path]:
    """The files of the key and of the certificates in a file with both."""
    text = both.read_text()
    begin = text.index("-----BEGIN PRIVATE KEY")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    key.write_text(text[begin:])
    certificate.write_text(text[:begin])
    return key, certificate


def test_a_certificate_that_cannot_be_used_is_refused_with_its_file(
    authority: Authority, tmp_path: Path, redis_url: str
) -> None:
    key, certificate = split(tmp_path / "server.pem", tmp_path)
    (tmp_path / "text").write_text("no certificate")
    locked, other = tmp_path / "locked.pem", tmp_path / "other"
    made = serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    other.mkdir()
    Authority(other, "127.0.0.1")
    of_certificate = ["--certificate", str(certificate)]
    for options, told in (
        (["--certificate", f"{tmp_path}/none"], f"--certificate {tmp_path}/none: No such file"),
        (["--certificate", f"{tmp_path}/text"], f"--certificate {tmp_path}/text: no certificate with its"),
        (of_certificate, f"--certificate {certificate}: no certificate with its private key"),
        ([*of_certificate, "--key", f"{tmp_path}/none"], f"--key {tmp_path}/none: No such file"),
        ([*of_certificate, "--key", f"{other}/server.pem"], "KEY_VALUES_MISMATCH"),
        ([*of_certificate, "--key", str(locked)], f"--key {locked}: the key has a passphrase"),
        (["--key", str(key)], "--key needs --certificate"),
    ):
        done = scrapy("dashboard", "--port", "0", *options, "-s", f"REDIS_URL={redis_url}", status=1)
        assert done.returncode == 1 and told in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and "Dashboard: " not in done.stdout
