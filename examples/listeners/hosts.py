"""Counts the pages of each host while a crawl runs. Any Redis client can listen; webcrawl is not needed.

python examples/listeners/hosts.py redis://localhost:6379/0 broad
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import redis

GROUP, READER = "hosts", "counter"


def main(url: str, crawl: str, rounds: int = sys.maxsize) -> None:
    client = redis.Redis.from_url(url, decode_responses=True, protocol=2)
    stream = f"wc:{{c:{crawl}}}:pages"
    try:
        client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    except redis.ResponseError as error:
        # the group exists from an earlier run, and continues where that stopped
        if "BUSYGROUP" not in str(error):
            raise
    hosts: Counter[str] = Counter()
    # first the pages that an earlier run received and did not finish, then new ones
    place = "0"
    for _ in range(rounds):
        found = client.xreadgroup(GROUP, READER, {stream: place}, count=100, block=1000)
        entries = found[0][1] if found else []
        for _, fields in entries:
            if fields:  # empty if the stream has dropped the page since that run
                hosts[json.loads(fields["page"])["host"]] += 1
        if entries:
            client.xack(stream, GROUP, *(number for number, _ in entries))
            print(hosts.most_common(5), flush=True)
        else:
            place = ">"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
