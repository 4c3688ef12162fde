"""The dashboard shows the live lane, and what the service did for each token."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from tests.crawls import until
from tests.dashboard.site import Dashboard
from tests.service.conftest import HOME
from tests.service.served import Served
from tests.web import LocalWeb


def test_the_dashboard_shows_the_lane(service: Served, web: LocalWeb, tmp_path: Path) -> None:
    page = web.put(HOME, "/shown", "<title>Shown</title>")
    assert service.fetch(page, "http://10.1.1.1/").status_code == 200
    assert service.client.get("/v1/pages", headers={"Host": "other.test"}).status_code == 421
    dashboard = Dashboard.start(folder=tmp_path, settings={"DATA_DIR": service.process.data_dir / "data"})
    try:

        def cells() -> list[str]:
            text = httpx.get(f"{dashboard.url}/crawls/live", timeout=60, trust_env=False).text
            lane = text.partition('id="lane"')[2].partition('id="breakdown"')[0]
            return [word for word in re.sub(r"<[^>]*>", "\n", lane).split("\n") if word.strip()]

        # other tests of this service are refused too
        until(
            lambda: any("unknown-host" in cell for cell in cells()) and "guard" in cells(),
            dashboard.process,
            60,
        )
        words = cells()
        assert {"Live lane", "fetched", "From message to answer", "open", "unknown"} <= {*words}
        assert int(words[words.index("answered") + 1].replace(",", "")) >= 2
        assert 'id="lane"' not in httpx.get(f"{dashboard.url}/", timeout=60, trust_env=False).text
    finally:
        dashboard.process.interrupt()
        dashboard.process.wait(60)
