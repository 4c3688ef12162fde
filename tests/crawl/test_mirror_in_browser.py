"""A mirror opened from disk in Chromium loads what the site loads online, and looks the same."""

from __future__ import annotations

import base64
import hashlib
import shutil
import struct
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
SITE, OTHER = "127.0.1.1", "127.0.1.2"
ANY_ORIGIN = {"Access-Control-Allow-Origin": "*"}
COLOURS = ("red", "green", "blue", "shadow", "lazy", "frame", "css", "set")
_STATE = """() => {
  const images = [...document.images, ...document.querySelector('#host').shadowRoot.querySelectorAll('img')];
  return {
    images: images.map(image => image.complete && image.naturalWidth),
    script: document.body.dataset.script,
    colour: getComputedStyle(document.querySelector('#styled')).color,
    background: getComputedStyle(document.querySelector('#set')).backgroundImage !== 'none',
    frames: window.frames.length,
  };
}"""


def png(colour: tuple[int, int, int]) -> Reply:
    """Returns an image of 30 by 30 pixels in one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(colour) * 30) * 30
    header = struct.pack(">IIBBBBB", 30, 30, 8, 2, 0, 0, 0)
    body = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    return Reply(body + chunk(b"IEND", b""), headers={"Content-Type": "image/png", **ANY_ORIGIN})


SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='30' height='30'><rect width='30' height='30' fill='red'/></svg>"
SCRIPT = "document.body.dataset.script = 'ran';"
STYLE = "#styled { color: rgb(1, 2, 3); width: 30px; height: 30px; background: url(/i/css.png) }"


def page(other: str) -> str:
    policy = f"default-src 'self' {other}; style-src 'self' 'unsafe-inline'; img-src 'self' {other}"
    return f"""<!DOCTYPE html><html><head><title>t</title><base href="/deep/er/" target="_self">
    <meta http-equiv=" Content-Security-Policy " content="{policy}">
    <link rel=stylesheet href="../style.css?v=1" crossorigin integrity="sha256-STYLE">
    <style>#set {{ width: 30px; height: 30px;
    background-image: image-set("../../i/set.png" 1x, url(/i/set.png) 2x) }}</style>
    </head><body>
    <img src="../../i/red.png" crossorigin=anonymous><img src="{other}/i/green.png" crossorigin>
    <img srcset="/i/blue.png 1x"><img src=/logo><img loading=lazy src="../../i/lazy.png">
    <div id=host><template shadowrootmode=open><style>b {{ background: url(/i/shadow.png) }}</style><b>bold</b>
    <img src="/i/shadow.png" crossorigin></template></div>
    <div id=styled>x</div><div id=set></div>
    <iframe src=/frame csp="script-src 'none'" width=50 height=50 style="border:0"></iframe>
    <script src="../app.js" crossorigin integrity="sha256-SCRIPT"></script></body></html>"""


@pytest.fixture
def site(local_web: Callable[..., LocalWeb]) -> LocalWeb:
    web = local_web(SITE, OTHER)
    text = page(web.host(OTHER))
    for name, body in (("SCRIPT", SCRIPT), ("STYLE", STYLE)):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        text = text.replace(f"sha256-{name}", f"sha256-{digest}")
    web.put(SITE, "/", text)
    web.put(SITE, "/deep/style.css?v=1", Reply(STYLE, headers={"Content-Type": "text/css"}))
    web.put(SITE, "/deep/app.js", Reply(SCRIPT, headers={"Content-Type": "text/javascript"}))
    web.put(SITE, "/logo", Reply(SVG, headers={"Content-Type": "image/svg+xml"}))
    web.put(
        SITE,
        "/frame",
        Reply("<body style='margin:0'><img src=/i/frame.png>", headers={"Allow-CSP-From": "*"}),
    )
    for number, name in enumerate(COLOURS):
        web.put(
            OTHER if name == "green" else SITE, f"/i/{name}.png", png((25 * number, 200 - 20 * number, 90))
        )
    return web


@pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="needs the extra 'render' and Chromium (on Debian and Ubuntu: apt install chromium-headless-shell)",
)
def test_a_mirror_from_disk_looks_as_online(
    site: LocalWeb, run_crawl: Callable[..., CrawlResult], tmp_path: Path
) -> None:
    from playwright.sync_api import Browser, sync_playwright

    folder = tmp_path / "copy"
    arguments = {"to": folder, "scope": "host"}
    run_crawl("mirror", [site.url(SITE)], arguments=arguments, ALLOWED_NETWORKS="127.0.0.0/8")
    file = folder / urlsplit(site.url(SITE)).netloc.replace(":", "_") / "index.html"

    def look(browser: Browser, url: str) -> tuple[dict[str, Any], bytes, set[str]]:
        page, failed = browser.new_page(viewport={"width": 500, "height": 400}), set[str]()
        page.on("requestfailed", lambda request: failed.add(request.url))
        page.goto(url, wait_until="networkidle")
        return page.evaluate(_STATE), page.screenshot(), failed

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        state, picture, failed = look(browser, site.url(SITE))
        assert state == {
            "images": [30] * 6,
            "script": "ran",
            "colour": "rgb(1, 2, 3)",
            "background": True,
            "frames": 1,
        }
        assert failed == set()
        site.hits.clear()
        assert look(browser, file.as_uri()) == (state, picture, set())
        assert site.hits == []
        browser.close()
