"""HTTPS in front of the dashboard: nginx with the configuration of `deploy/`."""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.cluster import until
from tests.crawls import CHECKOUT
from tests.dashboard.site import CrawledSite
from tests.dashboard.test_access import form_token
from tests.ports import free_ports
from tests.unit.crawler.download.test_http_ways import Authority

CONF = CHECKOUT / "deploy" / "nginx" / "dashboard.conf"


@pytest.fixture
def proxy(site: CrawledSite, tmp_path: Path) -> Iterator[http.client.HTTPSConnection]:
    """A connection to nginx, which serves the dashboard of the site by HTTPS."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if nginx is None:
        pytest.skip("nginx is not installed (on Debian: apt install nginx-light)")
    authority, (port,) = Authority(tmp_path, "127.0.0.1"), free_ports(1)
    conf = CONF.read_text()
    for name, value in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name crawls.example.org": "server_name 127.0.0.1",
        "/etc/letsencrypt/live/crawls.example.org/fullchain.pem": str(tmp_path / "server.pem"),
        "/etc/letsencrypt/live/crawls.example.org/privkey.pem": str(tmp_path / "server.pem"),
        "http://127.0.0.1:8780": site.url,
    }.items():
        assert conf.count(name) == 1, name
        conf = conf.replace(name, value)
    paths = "".join(
        f"{name}_temp_path {tmp_path}/{name}; "
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = tmp_path / "nginx.conf"
    file.write_text(f"daemon off; pid {tmp_path}/pid; events {{}} http {{ access_log off; {paths} {conf} }}")
    process = subprocess.Popen([nginx, "-e", f"{tmp_path}/errors", "-c", str(file)])
    try:
        until(lambda: process.poll() is not None or not socket.socket().connect_ex(("127.0.0.1", port)))
        context = ssl.create_default_context(cafile=str(authority.file))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        yield connection
        connection.close()
    finally:
        process.terminate()
        process.wait(60)


def test_a_proxy_with_https_serves_pages_actions_and_updates(
    proxy: http.client.HTTPSConnection, site: CrawledSite
) -> None:
    own = f"https://127.0.0.1:{proxy.port}"
    proxy.request("GET", "/crawls/broad")
    answer = proxy.getresponse()
    html, cookie = answer.read().decode(), str(answer.headers["Set-Cookie"])
    assert answer.status == 200 and "secure" in cookie.lower()
    known = {"Cookie": cookie.partition(";")[0], "Origin": own}
    form = urlencode({"token": form_token(html), "next": "/crawls/broad"})
    typed = {"Content-Type": "application/x-www-form-urlencoded"}
    proxy.request("POST", "/crawls/broad/stop", form, known | typed)
    answer = proxy.getresponse()
    assert answer.status == 303 and "is+not+running" in answer.headers["Location"], answer.read()
    answer.read()
    proxy.request("POST", "/crawls/broad/stop", form, known | typed | {"Origin": "https://evil.example"})
    answer = proxy.getresponse()
    assert answer.status == 403 and answer.read()
    proxy.request("GET", "/live/crawl?crawl=broad", headers=known)
    answer = proxy.getresponse()
    lines = [answer.readline() for _ in range(3)]
    assert lines[2].startswith(b"data: {"), "nginx does not hold events back"
