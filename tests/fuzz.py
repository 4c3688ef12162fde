"""Feeds damaged responses to the HTTP client for a bounded time: `make fuzz ARGS="--minutes 10"`.

A response is the same however its bytes are cut, or fails in the same way; nothing else is raised, and nothing hangs.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from hypothesis import HealthCheck, given, settings, strategies as st

from tests.responses import outcome_of, pieces_of, sent_responses

EXAMPLES = 2_000
ODD = (
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b":",
    b"\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draws a response with some bytes removed, and others put in."""
    data = draw(sent_responses()).data
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 8))
        data = data[:start] + draw(st.one_of(st.sampled_from(ODD), st.binary(max_size=4))) + data[end:]
    return data.replace(b"\r\n", b"\n") if draw(st.integers(0, 4)) == 0 else data


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data(), sent=damaged(), method=st.sampled_from(["GET", "HEAD"]))
def any_cut_has_one_outcome(runner: asyncio.Runner, data: st.DataObject, sent: bytes, method: str) -> None:
    whole = runner.run(outcome_of([sent], method=method))
    assert runner.run(outcome_of(data.draw(pieces_of(sent)), method=method)) == whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    until = time.monotonic() + 60 * parser.parse_args().minutes
    rounds = 0
    with asyncio.Runner() as runner:
        while time.monotonic() < until:
            any_cut_has_one_outcome(runner)
            rounds += 1
    print(f"{rounds * EXAMPLES:,} responses, and no difference")


if __name__ == "__main__":
    main()
