"""Every key that a crawl has in the engine.

A host's number is the upper 16 bits of the hash of the unit that takes turns, its name or the host (POLITENESS_UNIT).
Its shard is this number mod FRONTIER_SHARDS. The braces are a cluster's hash tag: all keys of a shard share a slot, so
a script uses one slot. Times are milliseconds of the server's clock, which the scripts keep from going back
(lua/common/entries.lua).

    wc:{s<shard>}:host:<host>      HASH  politeness, shared by all crawls: until (the host is not asked before),
                                         asked (until comes from a Retry-After), held (the host is not leased to
                                         others before: the lease expires then, or would have expired if the
                                         host were not blocked), holder (the lease that has the turn, or the
                                         request that has borrowed it), failures (in a row),
                                         forgiven (when failures are forgotten), delay (ms, set by an operator),
                                         gap (ms between requests of the last worker), shares (of crawls that
                                         wait for it), kept (set by an operator: the record does not expire),
                                         answered (the host has answered, and the record has not expired since),
                                         clients (crawl of clients that have its URLs -> until when), paced (a value of
                                         until that holds for workers only)
    wc:{s<shard>}:name:<name>      HASH  the same for all hosts of a name, if they share their turns; failures and
                                         forgiven are each host's own, "failures <scheme>" or "failures <scheme>:<port>"
    wc:{s<shard>}:address:<IP>     HASH  turns of an IP address, shared by all crawls: ended (end of the last window
                                         in which a worker may start requests), "held <worker>" (its connections,
                                         and when they are free if it is dead); expiring, not part of a checkpoint
    wc:{s<shard>}:robots:<host>    STR   robots.txt policy, expiring
    wc:{s<shard>}:token            INT   the last fencing token
    wc:{s<shard>}:clock            STR   the last recorded time, ms by which it is ahead of the server's clock
    wc:{s<shard>}:c:<crawl>: ...
      conf                         HASH  hot (FRONTIER_HOT_URLS; 0 = nothing is spilled), order (FRONTIER_ORDER), credit
                                         (Lambda's at first; none if IMPORTANCE is off), traffic (TRAFFIC as JSON, if
                                         it is set: each class then has queues of its own)
      queued                       HASH  name -> record of a host with URLs, see below
      turn                         STR   thousandths of a lease due to lower levels, and the last leased lower level
      turns                        HASH  host with several levels -> the same for its URLs; not part of a checkpoint
      levels:<host>                ZSET  its levels below 0 and above 7, and those of queues of a class, by level
      q:<host> <level>             LIST  the hot list: entries, the next one first
      out:<host> <level>           LIST  outbox: entries to be spilled
      tail:<host> <level>          LIST  parts in the store, the next one first: segment offset length URLs checksum
      tails                        HASH  queue -> its URLs in the store; a queue is "<host> <level>"
      spilling                     ZSET  queue -> entries in its outbox, if there are enough to write
      hungry                       SET   queues whose hot list runs low or is empty, to be refilled from the store
      condemned                    LIST  (host, reason, part, ms): dead letters of given-up hosts, in the store
      segments                     HASH  segment -> its parts in use, of queues or of the seen set
      unused                       ZSET  segment without parts -> when it was announced, or its last part was read;
                                         -1: it is being deleted
      ready:<level>                ZSET  name -> when it may be asked; hosts with URLs in the engine and without a lease
                                         (the level is the nearest to the level of the best URL)
      due:<level>                  LIST  names of ready hosts that have answered and may be asked now; some may be
                                         outdated
      new:<level>                  LIST  the same for hosts that never answered
      behind                       HASH  name -> its hosts that wait for the end of the lease of another host
      over                         HASH  host -> the owner that is over its budget: its name or registered domain
      budgets                      HASH  name or registered domain -> what it has spent, as an integer of 4 bytes, and
                                         hashes of the domains that link to it, 4 bytes each
      sunk                         SET   names of hosts over a budget that wait for turns of its owner; not in
                                         `ready`
      waiting:<owner>              LIST  names of the sunk hosts of an owner; some may be outdated
      waiting                      ZSET  owner -> when its first sunk host has its turn
      surfaced                     SET   names of hosts that have their turn, and are in `ready` or `due` again
      overs                        HASH  owner that is over its budget -> its hosts in `over`
      penalties                    HASH  owner that is over its budget -> its penalty, as last reported for a host
      slots                        ZSET  owner of a budget that is over it -> when it had its last turn
      wide_slots                   ZSET  the same for domains with several hosts in `over`
      slowdown                     STR   factor and hosts at once of webcrawl.policies.budgets.Slowdown; usual gap
                                         in ms; number of shards; the most by which a gap grows; expiring
      trust                        HASH  host -> its trust, what it has left to give (8 bytes each), and to how many
                                         hosts it gave (4 bytes); see webcrawl.policies.trust
      trusted                      STR   sum of the trust of all hosts here
      wary                         ZSET  name of a host whose next page would cost too much -> the cost; it is not in
                                         `ready`
      fairness                     STR   the most that a page may cost, and how many pages may cost more; expiring
      strayed                      INT   pages that cost more
      lowest                       SET   leased hosts at the lowest level, and those of `strays`
      strays                       SET   leased hosts whose pages cost too much
      leases                       ZSET  host -> when its lease expires
      lease:<host>                 HASH  token, worker, next, and index -> entry for each URL handed out;
                                   let_go, if the host was released before all URLs were settled
      given:<caller>               STR   number of a worker's last lease call, its hosts and tokens; expiring
      later                        ZSET  serial host LF entry -> when it is queued again
      scheduled                    ZSET  - host LF entry -> date at which it is queued
      planned                      ZSET  URL -> date; pages that are queued or leased to be fetched again
      planning                     HASH  host -> how many of its URLs are in `planned`; with TRAFFIC also host and
                                         class, separated by a space -> the same, and space and class -> of all hosts
      visited                      ZSET  URL that was in `planned` -> when it was settled; for ten minutes. Checkpoints
                                         have none of the three
      parked                       HASH  host -> "blocked" or "budget": it is not leased
      limits                       HASH  host -> its limits, "pages bytes depth", and the pages of its rule, if any
      spent                        HASH  host -> "pages bytes" received from it
      records:cold                 ZSET  lower ends of the cold buckets of host records, by the numbers of hosts (the
                                         first 32 bits of their SHA-1); there is none until idle hosts move to the store
                                         (webcrawl.frontier.cold_hosts): their trust, spent, errors, budgets, patterns,
                                         dust and unknown
      records:cold:<end>           STR   descriptor of the part with the bucket, padded, and a filter of its hosts
      charged:<hour>               STR   owners of budgets that were charged in this hour since 1970, a bit for each, if
                                         there are cold records; expiring, not part of a checkpoint
      waking                       SET   hosts, and owners of budgets, that need their record from the store; they are
                                         not leased
      errors                       HASH  host -> answers with a status from 400 on, and attempts without an answer; not
                                         part of a checkpoint
      overtaken                    HASH  host -> entries of its queue whose URLs were queued again at a better level
      patterns                     HASH  host -> the records of its URL patterns, as MessagePack, if some have sunk
      dust                         HASH  host -> evidence for its DUST rules, as MessagePack
      dust_off                     HASH  host -> the DUST rules that an operator has switched off, as MessagePack
      seen:<bucket>                SET   marks as integers; buckets split by linear hashing (Litwin 1980)
      seen:cold                    ZSET  lower end of a cold bucket, by itself: a range of marks in the store
                                         (webcrawl.frontier.cold_seen)
      seen:cold:<lower end>        STR   the descriptor of its part, padded to 96 bytes, and its filter; none if empty
      credit                       HASH  pool (Lambda's credit here), waiting (recorded URLs that were not fetched yet),
                                         others (URLs that wait in other shards, as last reported), records, bits, split
      credit:<bucket>              HASH  number of a URL, a signed 32-bit integer -> its record, described in
                                         lua/common/credit.lua; buckets split by linear hashing
      purse:<purse>                HASH  wallet (what pages gave), number (of the last payment), transit (its parts:
                                         shard, number of the delivery, credit), taken (Lambda's credit in transit),
                                         closed
      purses                       ZSET  purse -> when it last got or paid something
      got:<purse>                  STR   number of its last delivery to this shard, then " closed" if closed; expiring
      dead                         HASH  URL -> its dead letters: (reason, time, entry) each
      dropped                      HASH  URL that an operator has dropped -> when, ms by the server's clock
      n                            HASH  counters: queued parked leased later scheduled seen added done dead dropped
                                         reaped refused spilled lost_segments overtaken; serial bits split; cold (marks
                                         that are only in the store, if any ever were)
      sum:<bucket>                 HASH  payload checksum -> time and URL of its first page, and how it was read
                                         (Page.read_as); begins with "?" until the first page is stored
      like:<block>                 STR   texts, 14 bytes each: SimHash, id of its URL; the block is one quarter of the
                                         SimHash
      cookies                      HASH  (jar, registered domain) -> its cookies, as MessagePack; bytes: their sum
      text:<bucket>                HASH  id of a URL -> SimHash of its text, the URL; for the first page with that text
      unknown                      HASH  host -> its answer to a path that cannot exist (webcrawl.policies.soft_404)
      asking:<host>                STR   the worker that asks the host for a path that cannot exist, expiring
      batch:<batch>                STR   reply to a batch of added URLs that a repeat would queue twice, as MessagePack;
                                         expiring, not part of a checkpoint
      asks                         HASH  URL of the live lane -> those who wait for it (webcrawl.live.asks), as
                                         MessagePack; not part of a checkpoint
      copying                      STR   the process that writes a checkpoint, expiring
      moved                        LIST  host LF entry: entries that left their lists meanwhile, expiring
      reading                      HASH  list that the checkpoint reads from its end -> entries added since, expiring;
                                         <queue> means its hot list, out:<queue> its outbox
      client:queues                ZSET  queue of clients (webcrawl.urlfrontier) -> when it got its first URL, ms
      client:ready                 ZSET  queue with URLs -> when it may give some
      client:queue:<queue>         HASH  last (delivery), delay, blocked (until), limit (of URLs)
      client:urls:<queue>          HASH  URL -> its record, described in webcrawl.urlfrontier.conversion
      client:waiting:<queue>       ZSET  URL -> when it may be fetched
      client:transit:<queue>       ZSET  URL that a client has -> when another client may get it. Checkpoints have no
                                         queues of clients
    wc:crawls                      HASH  crawl -> its FRONTIER_SHARDS, and " name" if the hosts of a name share their
                                         turns; the same for all crawls, because they share the records
    wc:clients                     HASH  stopped (clients get no URLs), delay (ms, of all queues of clients without one)
    wc:clients:nodes               ZSET  address of a server of the open frontier -> when it counts as ended
    wc:{c:<crawl>}: ...
      clock                        STR   as above, for these keys
      info                         HASH  format (of these keys), clients (it has queues of clients only), scope (its
                                         kind), limits, paused, stops (of an operator), tails (folder of the segments),
                                         restoring (the process that restores the crawl, until that is done), ended (why
                                         the last run of a worker ended)
      run                          STR   settings of the latest run, without secrets (JSON); not part of a checkpoint
      restorer                     STR   the process that restores the crawl, expiring
      totals                       HASH  totals of all workers: pages, bytes, status.<code>, active_ms...,
                                         items.<class>, feed.<URI>, lost.<callback>, given_up.<host> of some hosts,
                                         and start.<URL> <reason> for start URLs that brought no page
      workers                      ZSET  worker -> when it counts as dead
      lost                         HASH  worker that died -> when it counted as dead; a watcher removes it; expiring
      watcher, watched             STR   the process that watches the crawl, expiring; what it has seen, as JSON
      checkpointer, checkpoint     STR   the process that writes checkpoints from time to time, expiring; how they are
                                         doing, as JSON (webcrawl.frontier.checkpoint.periodic)
      seeding                      SET   workers that still read their seeds
      holding                      HASH  worker that leases nothing because its stores accept no more -> reason
      shares                       STR   worker -> the shards that it serves, as MessagePack; not part of a checkpoint
      permits                      HASH  worker -> pages reserved of CRAWL_MAX_PAGES
      told:<worker>                INT   number of its last tally, expiring
      hosts                        HLL   hosts that answered
      unreachable                  HLL   hosts that could not be reached at least once; not part of a checkpoint
      costs                        HASH  host or registered domain, or * for all -> what it has cost: microseconds of
                                         processor, bytes, questions, waits; not part of a checkpoint
      costliest                    ZSET  the same names, by weight (webcrawl.hosts.costs); the cheapest are dropped
      charged:<worker>             INT   number of its last batch of costs, expiring
      load:<worker>                STR   host or domain: connections, unfinished pages, waits at the worker; expiring
      vitals:<worker>              STR   the vitals of the worker (webcrawl.frontier.workers); expiring
      samples                      HASH  at (of the last sample), whole (of the last in the list), step (ms between)
      samples:hour, samples:whole  LIST  the history (webcrawl.frontier.history); not part of a checkpoint
      standings                    HASH  shard -> better, sunk and wide: how many hosts and owners of budgets have
                                         better URLs or have sunk, as its worker counted last; expiring
      planner                      STR   the worker that plans when pages are fetched again, expiring
      recrawl                      HASH  threshold of crawl values (webcrawl.policies.crawl_threshold), visits of
                                         known pages that the planner has not counted yet, and late, late_seconds
                                         and freshness of webcrawl.frontier.planning; not part of a checkpoint
      pages                        STREAM  the latest finished pages, for listeners: page (JSON)
      left:<message>               SET   URLs of a message of the live lane that are not finished, by number; expiring
      runs                         STR   the sealed runs of the index of duplicates, as JSON (webcrawl.stores.sealed)
      outdated                     SET   hashes of URLs, 8 bytes each, whose texts in these runs no longer count
      sealing, merging             STR   the worker that seals, and the one that merges large runs; expiring
      seeds                        SET   "hostname port" of hosts that an operator named
      seed_addresses               HASH  the same -> the inner addresses in its first answer, separated by spaces
      scope                        SET   scope keys that seeds and redirected seeds opened
    live:urls                      STREAM  messages of the live lane that are not finished, unless LIVE_STREAM names
                                         another stream (webcrawl.live); consumer group "live"
    live:dead                      STREAM  messages that cannot be used: stream, id, error, message (JSON)
    wc:requests:<id>               STR     a request for pages at the HTTP API, as JSON, expiring
                                         (webcrawl.service.fetches)
    wc:quota:<token>               HASH  left (URLs that the token may have fetched now) and at (ms): see
                                         webcrawl.service.caller; expiring
    wc:callers                     HASH  what services have done for the tokens, by name of the token and figure
                                         (webcrawl.live.lane)
    wc:webhooks                    HASH  webhook that was added over HTTP -> its URL, filter and secret, as JSON
                                         (webcrawl.service.hooks)
    wc:webhooks:<webhook>          STREAM  events that wait for its receiver: id (in the stream of the crawl), event
                                         (JSON); expiring; consumer group "receiver"

A short queue is its hot list. A long one is its hot list, then its parts in the store, then its outbox. When a hot list
grows too long it is closed, and new entries go to the outbox, which workers write to the store
(webcrawl.frontier.tails). Depth-first, a queue is a stack: new entries go to the head of the hot list, its oldest
entries move to the outbox, and the outbox comes before the parts in the store.

A host with a few entries, all of one level from 0 to 7, has them in its record. A record begins with a byte whose
bits are the levels in whose `due` or `new` list the host is. The few entries follow, each after a byte with its length.
If the entries are in lists, there is instead a byte with the levels from 0 to 7 that have URLs, a byte with the levels
whose hot list is closed, and, if the host has URLs at other levels, their number in four bytes. The hot list of another
level is closed while the level has an outbox or parts in the store.

With TRAFFIC, the levels from 0 to 7 have a queue for each class of fetches but the first (webcrawl.policies.traffic):
the level of the queue of class 2 and level 3 is 3.2. URLs that were queued before TRAFFIC was set stay in their queue.

A name is a host without "https://"; a "www." after that is shortened to "/".

For entries, see webcrawl.frontier.entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import xxhash

from webcrawl.config.declared import DEFAULTS
from webcrawl.errors import ConfigurationError

T = TypeVar("T")

CRAWLS = "wc:crawls"
CLIENTS = "wc:clients"
NODES = "wc:clients:nodes"

WANTED, ASKED = "wc:wanted", "wc:asked"
"""The channel with the units whose turns a crawl wants that comes before all others (see `Keys.turn`), and
the channel with the numbers of URLs that were queued for the live lane."""

LIVE_CRAWL = "live"
"""The crawl of the live lane."""
LIVE_URLS, LIVE_DEAD = "live:urls", "live:dead"
"""The streams of the live lane: messages, and messages that cannot be used."""
REQUESTS = "wc:requests:"
"""The beginning of the keys of requests at the HTTP API."""
QUOTAS = "wc:quota:"
"""The beginning of the keys of quotas at the HTTP API."""
CALLERS = "wc:callers"
"""The key of what the services of an engine have done for each token."""
WEBHOOKS = "wc:webhooks"
"""The key of the webhooks that were added over HTTP."""
LIVE_GROUP = "live"
"""The consumer group of the workers of the live lane."""

FORMAT = 14
"""Version of the data in these keys; increased when this or an older version would misread the other's data."""
CONTINUED_FORMATS = frozenset({9, 10, 11, 12, 13, FORMAT})
"""The versions whose data this version reads. In version 9, entries had no class of their fetch; in version 10, classes
had no queues of their own; in version 11, no lease had let go of its host; in version 12, the whole seen set and
the whole index of duplicates were in the engine, and each worker computed its own share of the shards; in version 13,
all records of hosts were in the engine. Hosts may have no trust in data of any version: the hosts of seeds get it when
the crawl goes on."""

_CRAWL_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OF_A_JOB = re.compile(r"(.+)-\d{8}T\d{6}Z")
"""A CRAWL_ID that webcrawl.jobs.store.crawl_id made: the name of the job and the time at which the crawl was due."""
SUM_BUCKETS = 4096
"""The buckets of payloads, and those of texts, of each shard."""
URL_ID_BYTES = 6
"""The bytes of the id of a URL in the index of duplicates."""
_RECORDS = {"name": "name", "origin": "host"}
"""Unit -> the part of keys that marks politeness records."""
_HOST_NUMBERS = 2**16
_URL_BITS = 48


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one crawl's keys. `shards` and `unit` (POLITENESS_UNIT) never change during a crawl."""

    crawl: str
    shards: int
    unit: str = DEFAULTS["POLITENESS_UNIT"]

    def __post_init__(self) -> None:
        if not _CRAWL_ID.fullmatch(self.crawl):
            raise ConfigurationError(
                f"CRAWL_ID {self.crawl!r}: use 1 to 64 letters, digits, dots, dashes and underscores"
            )
        if not 1 <= self.shards <= _HOST_NUMBERS:
            raise ConfigurationError(f"FRONTIER_SHARDS {self.shards}: must be from 1 to {_HOST_NUMBERS}")

    def shard(self, host: str) -> int:
        """Returns the shard of a host, the same on every machine and in every run."""
        return _number(self.turn(host)) % self.shards

    def by_shard(self, items: Iterable[T], host: Callable[[T], str]) -> dict[int, list[T]]:
        """Returns items in groups by the shard of their host, in their order."""
        groups: dict[int, list[T]] = {}
        for item in items:
            groups.setdefault(self.shard(host(item)), []).append(item)
        return groups

    def turn(self, host: str) -> str:
        """Returns the unit that takes turns for a host: its name, or the host itself."""
        return name_of(host) if self.unit == "name" else host

    @property
    def layout(self) -> str:
        """The number of shards and the unit, as in `wc:crawls`; the same for all crawls of an engine."""
        return f"{self.shards} name" if self.unit == "name" else f"{self.shards}"

    def with_layout(self, layout: bytes | str) -> Keys:
        """Returns the keys of this crawl with another layout."""
        shards, *named = (layout.decode() if isinstance(layout, bytes) else layout).split()
        return replace(self, shards=int(shards), unit="name" if named else "origin")

    def mark(self, host: str, fingerprint: int) -> int:
        """Returns a URL's mark in the seen set, signed 64 bits: its host's number and 48 bits of its fingerprint.

        A mark gives its shard for any FRONTIER_SHARDS. About N**2 / 2**49 of a host's N URLs collide with another URL
        and are never crawled: one of 24 million, 1,800 of a billion.
        """
        mark = _number(self.turn(host)) << _URL_BITS | fingerprint & (1 << _URL_BITS) - 1
        return mark - (1 << 64) if mark >> 63 else mark

    def shard_of_mark(self, mark: int) -> int:
        """Returns the shard of a mark."""
        return (mark >> _URL_BITS) % _HOST_NUMBERS % self.shards

    def queue(self, shard: int) -> tuple[str, str]:
        """Returns the prefixes that frontier scripts take: of the crawl in this shard, and of host records."""
        return f"wc:{{s{shard}}}:c:{self.crawl}:", f"wc:{{s{shard}}}:{_RECORDS[self.unit]}:"

    def counters(self, shard: int) -> str:
        return f"wc:{{s{shard}}}:c:{self.crawl}:n"

    def clock(self, shard: int) -> str:
        return f"wc:{{s{shard}}}:clock"

    def dead(self, shard: int) -> str:
        return f"wc:{{s{shard}}}:c:{self.crawl}:dead"

    def cookies(self, site: str) -> str:
        return f"wc:{{s{self.shard(site)}}}:c:{self.crawl}:cookies"

    def robots(self, host: str) -> str:
        return f"wc:{{s{self.shard(host)}}}:robots:{host}"

    def address(self, address: str) -> str:
        """Returns the key of the turns of an IP address."""
        return f"wc:{{s{_number(address) % self.shards}}}:address:{address}"

    def host(self, host: str) -> str:
        """Returns the key of the politeness record of a host."""
        return f"wc:{{s{self.shard(host)}}}:{_RECORDS[self.unit]}:{self.turn(host)}"

    def checksum(self, digest: bytes) -> str:
        number = int.from_bytes(digest[-8:], "big")
        return f"wc:{{s{number % self.shards}}}:c:{self.crawl}:sum:{number // self.shards % SUM_BUCKETS:x}"

    def like(self, block: int) -> str:
        return f"wc:{{s{block % self.shards}}}:c:{self.crawl}:like:{block:x}"

    def text(self, url_id: bytes) -> str:
        number = int.from_bytes(url_id, "big")
        return f"wc:{{s{number % self.shards}}}:c:{self.crawl}:text:{number // self.shards % SUM_BUCKETS:x}"

    def own(self, name: str = "") -> str:
        """Returns a key of the crawl as a whole."""
        return f"wc:{{c:{self.crawl}}}:{name}"

    def patterns(self) -> list[str]:
        """Returns patterns of all keys of this crawl; records of hosts and robots.txt policies are shared."""
        return [f"wc:{{s{shard}}}:c:{self.crawl}:*" for shard in range(self.shards)] + [self.own("*")]


def webhook_events(webhook: str) -> str:
    """Returns the key of the events that wait for a webhook."""
    return f"{WEBHOOKS}:{webhook}"


def job_of(crawl: str) -> str:
    """Returns the name of the job of which this crawl is an iteration; "" if the crawl has no job."""
    match = _OF_A_JOB.fullmatch(crawl)
    return match[1] if match else ""


@lru_cache(maxsize=1 << 14)
def name_of(host: str) -> str:
    """Returns a host without scheme and port, a name unchanged. An IPv6 address keeps its brackets."""
    name = host.partition("://")[2] or host
    is_address = name.startswith("[") and "]" in name
    return name[: name.index("]") + 1] if is_address else name.partition(":")[0]


def host_of(name: bytes) -> bytes:
    """Returns the host with this name, which is explained in the module's docstring."""
    if b"://" in name:
        return name
    return b"https://www." + name[1:] if name.startswith(b"/") else b"https://" + name


def failures_field(keys: Keys, host: str) -> str:
    """Returns the field of a politeness record for one host's failures in a row."""
    if keys.unit != "name":
        return "failures"
    scheme, _, authority = host.partition("://")
    port = authority.rpartition("]")[2].partition(":")[2]
    return f"failures {scheme}:{port}" if port else f"failures {scheme}"


@lru_cache(maxsize=1 << 12)  # links of a page are of few hosts
def _number(host: str) -> int:
    return xxhash.xxh3_64_intdigest(host.encode()) >> _URL_BITS
