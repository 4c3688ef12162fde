"""Jobs are listed, paused, resumed and started over HTTP; a scheduler does the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.service.served import Served
from webcrawl.client import AsyncClient, ServiceProblem
from webcrawl.jobs.store import JobStore


def test_jobs_are_listed_paused_resumed_and_started(
    start_service: Callable[..., Served], tmp_path: Path, redis_url: str
) -> None:
    client = start_service(REDIS_URL=redis_url).client
    assert client.get("/v1/jobs").json() == {"jobs": []}
    assert client.post("/v1/jobs/news:pause").status_code == 404

    news = {"name": "news", "cron": "0 6 * * *", "spider": "broad", "state": "ON", "owner": "desk"}
    (tmp_path / "data").mkdir(exist_ok=True)
    with JobStore(f"sqlite:///{tmp_path}/data/metadata.db") as store:
        secret = {"notify": ["mailto://me:secret@example.org"], "settings": {"FTP_PASSWORD": "secret"}}
        store.apply([news | secret], datetime.now(UTC))
    listed = client.get("/v1/jobs")
    (job,) = listed.json()["jobs"]
    assert (job["job"], job["state"], job["cron"], job["owner"]) == ("news", "ON", "0 6 * * *", "desk")
    assert datetime.fromisoformat(job["following"]) > datetime.now(UTC) and "secret" not in listed.text

    asyncio.run(asyncio.wait_for(steer(str(client.base_url)), 100))
    again = client.post("/v1/jobs/news:start")
    assert again.status_code == 409 and "waits already" in again.json()["detail"]
    unknown = client.post("/v1/jobs/old:start")
    assert unknown.status_code == 404 and "there is no job 'old'; there are: news" in unknown.json()["detail"]


async def steer(url: str) -> None:
    async with AsyncClient(url) as client:
        paused = await client.pause_job("news")
        assert paused.state == "PAUSED" and paused.following is None
        assert (await client.resume_job("news")).state == "ON"
        (iteration,) = (await client.start_job("news")).iterations
        assert (iteration.number, iteration.state) == (1, "WAITING") and iteration.crawl.startswith("news-")
        (job,) = await client.jobs()
        assert job.iterations == [iteration]
        with pytest.raises(ServiceProblem, match="there is no crawl 'nowhere'"):
            await client.crawl("nowhere")
