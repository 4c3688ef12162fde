"""A real DNS server for tests: UDP on loopback, a zone in a dict, and scripted failures."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


class Record(NamedTuple):
    """One resource record: kind "A", "AAAA" or "CNAME", value, and TTL in seconds."""

    kind: str
    value: str
    ttl: int = 60


class Trouble(Enum):
    """A failure that a name can have instead of records."""

    NXDOMAIN = dns.rcode.NXDOMAIN
    SERVFAIL = dns.rcode.SERVFAIL
    SILENCE = "no answer at all"


Zone = Mapping[str, Sequence[Record] | Trouble]


class Nameserver:
    """Serves `zone` from a thread while entered as a context manager; other names are NXDOMAIN.

    "*.example.test" matches every name below example.test that has no entry of its own. A test may change the zone at
    any time. `queries` counts the queries by (name, kind). Between `hold` and `release`, queries are counted but not
    answered. Queries of the kinds in `silent_about` are never answered, as by old servers that do not know AAAA.
    """

    def __init__(self, zone: Zone, silent_about: Collection[str] = ()) -> None:
        self.zone = zone
        self._silent_about = silent_about
        self.queries: Counter[tuple[str, str]] = Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._released = threading.Event()
        self._released.set()
        self._held: list[tuple[bytes, tuple[str, int]]] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self) -> str:
        """The address in the format of DNS_SERVERS: "127.0.0.1:port"."""
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def count(self, name: str, kind: str = "A") -> int:
        """Number of queries for this name and kind."""
        return self.queries[name, kind]

    def hold(self) -> None:
        """Stop answering until `release`."""
        self._released.clear()

    def release(self) -> None:
        """Answer the waiting queries, and all later ones."""
        self._released.set()
        self._wake(b"\0")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wake(b"")
        self._thread.join()
        self._socket.close()

    def _wake(self, datagram: bytes) -> None:
        self._socket.sendto(datagram, self._socket.getsockname())

    def _serve(self) -> None:
        while True:
            wire, client = self._socket.recvfrom(4096)
            if not wire:
                return
            answer = self._answer(wire)
            if answer is not None:
                self._held.append((answer, client))
            if self._released.is_set():
                while self._held:
                    self._socket.sendto(*self._held.pop(0))

    def _answer(self, wire: bytes) -> bytes | None:
        try:
            query = dns.message.from_wire(wire)
        except dns.exception.DNSException:
            return None
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(question.rdtype)
        self.queries[name, kind] += 1
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA | dns.flags.AA
        trouble = Trouble.SILENCE if kind in self._silent_about else self._fill(response, name, kind)
        if trouble is Trouble.SILENCE:
            return None
        if trouble is not None:
            response.set_rcode(trouble.value)
        return response.to_wire()

    def _fill(self, response: dns.message.Message, name: str, kind: str) -> Trouble | None:
        """Add the records of a name and of its CNAME targets to the answer section."""
        found = self._look_up(name)
        if isinstance(found, Trouble):
            return found
        for record in found:
            if record.kind in (kind, "CNAME"):
                rrset = dns.rrset.from_text(f"{name}.", record.ttl, "IN", record.kind, record.value)
                response.answer.append(rrset)
            if record.kind == "CNAME":
                return self._fill(response, record.value.rstrip("."), kind)
        return None

    def _look_up(self, name: str) -> Sequence[Record] | Trouble:
        if name in self.zone:
            return self.zone[name]
        parents = name.split(".")
        wildcards = (".".join(["*", *parents[n:]]) for n in range(1, len(parents)))
        return next((self.zone[star] for star in wildcards if star in self.zone), Trouble.NXDOMAIN)
