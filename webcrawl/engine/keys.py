"""Every key that a crawl has in the engine, on one screen.

A host's number is the upper 16 bits of its hash, and its shard that number mod FRONTIER_SHARDS. The braces are a
cluster's hash tag: all keys of a shard are in one slot, so every script touches one slot. Times are milliseconds of the
server's clock, as scripts keep it: it does not go back.

    wc:{s<shard>}:host:<host>      HASH  politeness, shared by all crawls: until (not asked before), held (nobody
                                         else gets it until: its lease runs out, or would but for a block),
                                         holder (of that lease), failures (in a row), forgiven (when these are
                                         forgotten), delay (ms, of an operator), gap (ms that the last worker
                                         kept), shares (of crawls that wait for it), kept (an operator wrote
                                         here: the record does not expire)
    wc:{s<shard>}:robots:<host>    STR   robots.txt policy, expiring
    wc:{s<shard>}:token            INT   the last fencing token
    wc:{s<shard>}:clock            STR   the time when it was last noted, ms by which it is ahead of the server's clock
    wc:{s<shard>}:c:<crawl>: ...
      conf                         HASH  hot (FRONTIER_HOT_URLS; 0 = nothing is spilled), order (FRONTIER_ORDER)
      queued                       HASH  name -> record of a host with URLs, see below
      turns                        HASH  host with several levels, or "" for ready hosts -> thousandths due to lower
                                         levels, the level that was last, their share in thousandths
      q:<host> <level>             LIST  the hot list: entries, the next one first
      out:<host> <level>           LIST  outbox: entries to be spilled
      tail:<host> <level>          LIST  parts in the store, the next one first: segment offset length URLs checksum
      tails                        HASH  queue -> its URLs in the store; a queue is "<host> <level>"
      spilling                     ZSET  queue -> entries in its outbox, when that is enough to be written
      hungry                       SET   queues whose hot list runs low or is empty, to be filled from the store
      condemned                    LIST  (host, reason, part, ms): dead letters of condemned hosts that are in the store
      segments                     HASH  segment -> its parts in use
      unused                       ZSET  segment without parts -> when it was announced, or its last part was read;
                                         -1: it is being deleted
      ready:<level>                ZSET  name -> when it may be asked; hosts with URLs at hand and without a lease
      due:<level>                  LIST  names of such hosts that may be asked now; and of some for whom that was so
      leases                       ZSET  host -> when its lease runs out
      lease:<host>                 HASH  token, worker, next, and index -> entry for every URL handed out
      given:<caller>               STR   number of a worker's lease call, the hosts and tokens it gave; expiring
      later                        ZSET  serial host LF entry -> when it is queued again
      scheduled                    ZSET  - host LF entry -> date at which it is queued
      parked                       HASH  host -> "blocked" or "budget": its URLs are kept from workers
      limits                       HASH  host -> "pages bytes depth", the most to be taken from it
      spent                        HASH  host -> "pages bytes" that were got from it
      seen:<bucket>                SET   marks as integers; buckets split by linear hashing (Litwin 1980)
      dead                         HASH  URL -> its dead letters: (reason, time, entry) each
      n                            HASH  counters: queued parked leased later scheduled seen added done dead reaped
                                         refused spilled lost_segments; serial bits split
      sum:<bucket>                 HASH  payload checksum -> time and URL of the first that had it, and how it was
                                         read (Page.reading), behind a "?" until that is stored
      like:<block>                 STR   texts, 14 bytes each: SimHash, id of its URL; the block is one quarter of the
                                         SimHash
      text:<bucket>                HASH  id of a URL -> SimHash of its text, the URL; of the first one with that text
      copying                      STR   who writes a checkpoint, expiring
      moved                        LIST  host LF entry: what left its place meanwhile, expiring
      reading                      HASH  list that it is reading, from its end -> entries added there since, expiring;
                                         a queue is its hot list, out:<queue> its outbox
    wc:crawls                      HASH  crawl -> the FRONTIER_SHARDS it was begun with, the same for all, as they share
                                         the records of hosts
    wc:{c:<crawl>}: ...
      clock                        STR   as above, for these keys
      info                         HASH  what the crawl was begun with: format (of all this), scope; tails (the folder
                                         of its segments); restoring: who restores it, until that is done
      restorer                     STR   the same, expiring
      totals                       HASH  what all workers did: pages, bytes, status.<code>, active_ms...
      workers                      ZSET  worker -> when it counts as dead
      seeding                      SET   workers that are still reading their seeds
      holding                      HASH  worker that leases nothing, having no room to store more -> why
      permits                      HASH  worker -> pages reserved of CRAWL_MAX_PAGES
      told:<worker>                INT   number of its last tally, expiring
      hosts                        HLL   hosts that answered
      pages                        STREAM  finished pages for listeners, the latest ones: page (JSON)
      seeds                        SET   "hostname port" of hosts that an operator named
      scope                        SET   scope keys that seeds, and redirected seeds, opened

A queue is its hot list, then its parts in the store, then its outbox; the hot list alone as long as it is short. A hot
list is closed when it has grown too long: then what is added goes to the outbox, which workers write to the store
(webcrawl.frontier.tails). Depth-first, a queue is a stack: what is added goes to the head of the hot list, whose oldest
entries move to the outbox; and the outbox comes before the parts in the store.

Of a host with only a few entries, all of one level, these are in its record instead. A record begins with a byte, whose
bits are the levels in whose list `due` the host is. Then comes each of the few entries behind a byte with its length;
or, when they are in lists, a byte with the levels at which URLs are queued and one with those whose hot list is closed.

A name is a host without "https://", and then with "/" for "www.".

An entry is four bytes (level, and whether dated; attempts, returns, blames) and a MessagePack array, see
webcrawl.frontier.entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import xxhash

from webcrawl.errors import ConfigurationError

CRAWLS = "wc:crawls"

FORMAT = 3
"""Of what the keys hold: counted up when data of an older version would be misread."""

_CRAWL_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SUM_BUCKETS = 4096
_HOST_NUMBERS = 2**16
_URL_BITS = 48


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one crawl's keys; `shards` must stay what it was when the crawl began."""

    crawl: str
    shards: int

    def __post_init__(self) -> None:
        if not _CRAWL_ID.fullmatch(self.crawl):
            raise ConfigurationError(
                f"CRAWL_ID {self.crawl!r}: use 1 to 64 letters, digits, dots, dashes and underscores"
            )
        if not 1 <= self.shards <= _HOST_NUMBERS:
            raise ConfigurationError(f"FRONTIER_SHARDS {self.shards}: must be from 1 to {_HOST_NUMBERS}")

    def shard(self, host: str) -> int:
        """The shard of a host key: the same on every machine and in every run."""
        return _number(host) % self.shards

    def mark(self, host: str, fingerprint: int) -> int:
        """What the seen set keeps of a URL, signed 64 bits: the number of its host, 48 bits of its fingerprint.

        So a mark tells its shard, whatever FRONTIER_SHARDS is. Of N URLs of one host about N**2 / 2**49 are taken for
        another one and never crawled: one of 24 million, 1,800 of a billion.
        """
        mark = _number(host) << _URL_BITS | fingerprint & (1 << _URL_BITS) - 1
        return mark - (1 << 64) if mark >> 63 else mark

    def shard_of_mark(self, mark: int) -> int:
        """The shard of the URL that was marked so."""
        return (mark >> _URL_BITS) % _HOST_NUMBERS % self.shards

    def queue(self, shard: int) -> tuple[str, str]:
        """The two prefixes that every frontier script takes: the crawl's in this shard, and the host records'."""
        return f"wc:{{s{shard}}}:c:{self.crawl}:", f"wc:{{s{shard}}}:host:"

    def counters(self, shard: int) -> str:
        return f"wc:{{s{shard}}}:c:{self.crawl}:n"

    def clock(self, shard: int) -> str:
        return f"wc:{{s{shard}}}:clock"

    def dead(self, shard: int) -> str:
        return f"wc:{{s{shard}}}:c:{self.crawl}:dead"

    def robots(self, host: str) -> str:
        return f"wc:{{s{self.shard(host)}}}:robots:{host}"

    def host(self, host: str) -> str:
        return f"wc:{{s{self.shard(host)}}}:host:{host}"

    def checksum(self, digest: bytes) -> str:
        number = int.from_bytes(digest[-8:], "big")
        return f"wc:{{s{number % self.shards}}}:c:{self.crawl}:sum:{number // self.shards % _SUM_BUCKETS:x}"

    def like(self, block: int) -> str:
        return f"wc:{{s{block % self.shards}}}:c:{self.crawl}:like:{block:x}"

    def text(self, url_id: bytes) -> str:
        number = int.from_bytes(url_id, "big")
        return f"wc:{{s{number % self.shards}}}:c:{self.crawl}:text:{number // self.shards % _SUM_BUCKETS:x}"

    def own(self, name: str = "") -> str:
        """A key of the crawl as a whole."""
        return f"wc:{{c:{self.crawl}}}:{name}"

    def patterns(self) -> list[str]:
        """What to scan for to find every key of this crawl; host records and robots.txt are not the crawl's."""
        return [f"wc:{{s{shard}}}:c:{self.crawl}:*" for shard in range(self.shards)] + [
            f"wc:{{c:{self.crawl}}}:*"
        ]


def host_of(name: bytes) -> bytes:
    """The host with this name, see above."""
    if b"://" in name:
        return name
    return b"https://www." + name[1:] if name.startswith(b"/") else b"https://" + name


def _number(host: str) -> int:
    return xxhash.xxh3_64_intdigest(host.encode()) >> _URL_BITS
