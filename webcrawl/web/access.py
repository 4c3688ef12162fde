"""Access to the dashboard: tokens, roles, and signed cookies."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Self

from webcrawl.errors import ConfigurationError

_HOURS = 12
_FREE_TRIES, _TRY_SECONDS = 10, 6.0
_ALL_TRIES, _ALL_SECONDS = 100, 60.0
_FIRST_TRIES = 3
_MOST_ADDRESSES = 10_000
_SHORTEST = 16
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


class Role(StrEnum):
    """The rights of a visitor: a reader sees everything, an operator may also act."""

    READER = "reader"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request."""

    role: Role
    cookie: str
    form_token: str
    """The value in each form of this visitor, without which other sites cannot send the form (CSRF)."""

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR


@dataclass(frozen=True)
class Access:
    """The rules of access.

    `tokens`: roles by token; without tokens, every visitor has the role `role`. `names`: the allowed host names of the
    dashboard, besides IP addresses and localhost. Another site that points its own name at this machine (DNS
    rebinding) cannot read the dashboard, because its name is not allowed.
    """

    tokens: Mapping[str, Role] = field(default_factory=dict)
    role: Role = Role.OPERATOR
    names: frozenset[str] = frozenset()
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """The key that signs cookies. It is new for each process, so cookies become invalid with the process."""

    @classmethod
    def for_address(
        cls, address: str, tokens: Path | None, names: tuple[str, ...] = (), *, read_only: bool = False
    ) -> Self:
        """Returns the rules of a dashboard that listens at an address; raises ConfigurationError for missing tokens."""
        known = {} if tokens is None else read_tokens(tokens)
        if not (known or is_loopback(address)):
            raise ConfigurationError(
                f"--bind {address} is reachable from other machines, so it needs --tokens FILE: lines such as "
                '"operator TOKEN" or "reader TOKEN"'
            )
        if read_only:
            known = dict.fromkeys(known, Role.READER)
        own = () if is_loopback(address) else (socket.gethostname(),)
        allowed = frozenset(name.lower().rstrip(".") for name in ("localhost", *own, *names))
        return cls(known, Role.READER if read_only else Role.OPERATOR, allowed)

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self.tokens

    def allows_host(self, host: str) -> bool:
        """Returns whether the Host header is allowed."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].lower().rstrip(".")
        return name in self.names or _is_address(name.strip("[]"))

    def role_of(self, token: str) -> Role | None:
        """Returns the role of a token; None for a wrong token, in the same time for all wrong tokens."""
        given, role_given = _digest(token), None
        for known, role in self.tokens.items():
            if hmac.compare_digest(_digest(known), given):
                role_given = role
        return role_given

    def admit(self, role: Role, now: float | None = None) -> Visitor:
        """Returns a new visitor."""
        expires = int((time.time() if now is None else now) + _HOURS * 3600)
        body = f"{role}.{expires}.{secrets.token_urlsafe(12)}"
        return self._visitor(role, f"{body}.{self._sign('cookie', body)}")

    def visitor(self, cookie: str, now: float | None = None) -> Visitor | None:
        """Returns the visitor of a cookie; None if the cookie is wrong or has expired."""
        body, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._sign("cookie", body).encode(), signature.encode()):
            return None
        role, expires, _ = body.split(".", 2)
        if int(expires) <= (time.time() if now is None else now):
            return None
        return self._visitor(Role(role), cookie)

    def _visitor(self, role: Role, cookie: str) -> Visitor:
        return Visitor(role, cookie, self._sign("form", cookie))

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose} {text}".encode(), hashlib.sha256).hexdigest()


class WrongTokens:
    """Limits guesses: wrong tokens of an address, and of all.

    An address has 10 wrong tokens at once, and a further one every 6 seconds. After 100 of all addresses within a
    minute, each has 3, so that many who guess lock nobody out who has not guessed. IPv6 addresses count by /64.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        """Address -> the time at which it has all its tries again; those with the latest wrong token last."""
        self._recent: deque[float] = deque(maxlen=_ALL_TRIES)

    def may_try(self, address: str) -> bool:
        """Returns whether a token from an address is looked at."""
        now = self._clock()
        used = max(0.0, self._until.get(_network(address), 0.0) - now) / _TRY_SECONDS
        is_busy = len(self._recent) == _ALL_TRIES and now - self._recent[0] < _ALL_SECONDS
        return used <= (_FIRST_TRIES if is_busy else _FREE_TRIES) - 1

    def note(self, address: str) -> None:
        """Counts a wrong token."""
        now, network = self._clock(), _network(address)
        self._recent.append(now)
        self._until[network] = max(now, self._until.pop(network, 0.0)) + _TRY_SECONDS
        if len(self._until) > _MOST_ADDRESSES:
            del self._until[next(iter(self._until))]


def _network(address: str) -> str:
    try:
        given = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((given, 64), strict=False)) if given.version == 6 else address


def read_tokens(path: Path) -> dict[str, Role]:
    """Reads a file with a role and a token in each line; raises ConfigurationError."""
    try:
        text = path.read_text()
        private = not path.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--tokens {path}: cannot read it ({error})") from error
    if not private:
        raise ConfigurationError(f"--tokens {path}: other users may read it; run `chmod 600 {path}`")
    tokens: dict[str, Role] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or words[0] not in list(Role):
            raise ConfigurationError(
                f'--tokens {path}, line {number}: write "operator TOKEN" or "reader TOKEN"'
            )
        if len(words[1]) < _SHORTEST:
            raise ConfigurationError(
                f"--tokens {path}, line {number}: a token has at least {_SHORTEST} characters; "
                "`openssl rand -hex 24` makes one"
            )
        tokens[words[1]] = Role(words[0])
    if not tokens:
        raise ConfigurationError(f"--tokens {path}: there is no token in it")
    return tokens


def is_loopback(address: str) -> bool:
    """Returns whether a listening address is reachable only from this machine."""
    return address == "localhost" or (_is_address(address) and ip_address(address).is_loopback)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
