"""The quota of a token is a bucket in the engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from webcrawl.engine.client import Engine
from webcrawl.errors import ApiProblem
from webcrawl.service.caller import Quota


async def take(quota: Quota, caller: str, urls: int) -> None:
    async with quota.taken(caller, urls):
        pass


async def test_a_quota_is_taken_refilled_and_given_back(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis
) -> None:
    first, second = Quota(engine_at(redis_url), 36_000), Quota(engine_at(redis_url), 36_000)
    with suppress(KeyError):
        async with first.taken("a", 3_600):
            raise KeyError  # the lane was full
    await take(first, "a", 3_000)
    with pytest.raises(ApiProblem) as error:
        await take(second, "a", 3_000)
    # at ten a second
    assert error.value.reason == "quota" and 200 < (error.value.retry_after or 0) <= 240
    await take(second, "b", 3_600)
    await take(Quota(engine_at(redis_url), None), "a", 10**6)
    valkey.hset("wc:quota:a", "at", int(float(valkey.hget("wc:quota:a", "at"))) - 300_000)
    await take(second, "a", 3_000)
    assert 0 < valkey.pttl("wc:quota:a") <= 360_000


@given(st.lists(st.integers(-20, 20), max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
def test_no_more_is_taken_than_a_bucket_has(valkey: Redis, wanted: list[int]) -> None:
    """Like a model that never refills: at one URL in 1000 hours."""
    from webcrawl.engine.scripts import script_call, script_source

    valkey.flushall()
    left = 10.0
    for urls in wanted:
        call = script_call("take_quota", ["wc:quota:a"], wanted=urls, per_ms=1e-12, most=10)
        taken, now = valkey.eval(script_source("take_quota")[1], 1, *call.keys, *call.arguments)
        assert bool(taken) == (urls <= left)
        left = min(10.0, left - urls) if urls <= left else left
        assert float(now) == pytest.approx(left, abs=0.001)
