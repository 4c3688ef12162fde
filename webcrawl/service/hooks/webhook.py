"""The webhooks of an engine: which events are posted where, and signed by Standard Webhooks 1.0.0.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from webcrawl.config.passwords import without_password
from webcrawl.config.records import setting_entries
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import WEBHOOKS, webhook_events
from webcrawl.engine.replication import Command
from webcrawl.errors import ConfigurationError, InvalidURL, brief
from webcrawl.urls.canonical import normalize

SECRET_PREFIX = "whsec_"
_LEAST_BYTES, _MOST_BYTES = 24, 64
"""The length of a secret, by the specification."""
_LONGEST_URL = 2_048
_LONGEST_TAG = 64
_ID_DIGITS = 12
_PLAIN = re.compile(r"[!-~]+")
MOST = 100
"""The most webhooks of an engine."""


class Webhook(Struct, frozen=True):
    """Events with this tag, of this host and of URLs that match the pattern are posted to `url`; "" wants all.

    `is_named`: the operator has named the receiver in the settings, so it may have an inner address.
    """

    id: str
    url: str
    secret: str
    tag: str = ""
    host: str = ""
    pattern: str = ""
    is_named: bool = False

    def headers(self, event_id: str, now: int, body: bytes) -> dict[str, str]:
        """Returns the headers that identify and sign a body at a Unix time."""
        key = secret_bytes(self.secret)
        digest = hmac.new(key, b"%s.%d.%s" % (event_id.encode(), now, body), hashlib.sha256).digest()
        signature = f"v1,{base64.b64encode(digest).decode()}"
        return {"webhook-id": event_id, "webhook-timestamp": str(now), "webhook-signature": signature}


def new_secret() -> str:
    """Returns a random secret of 32 bytes."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_bytes(secret: str) -> bytes:
    """Returns the key of signatures; raises ValueError for what is no secret."""
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"a secret begins with {SECRET_PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"a secret is base64 after {SECRET_PREFIX}") from None
    if not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"a secret has from {_LEAST_BYTES} to {_MOST_BYTES} bytes, not {len(key)}")
    return key


def receiver_url(url: str) -> str:
    """Returns the URL of a receiver, normalized; raises InvalidURL."""
    if len(url) > _LONGEST_URL:
        raise InvalidURL(f"the URL of a receiver has at most {_LONGEST_URL:,} characters")
    normalized = normalize(url)
    # normalization drops the name and the password of a user
    has_user = "@" in urlsplit(url.strip()).netloc
    if urlsplit(normalized).scheme not in ("http", "https") or has_user or not _PLAIN.fullmatch(normalized):
        shown = brief(repr(without_password(url)))
        raise InvalidURL(f"{shown} cannot be a receiver: it needs http or https, and no password")
    return normalized


def named_webhooks(words: Sequence[str]) -> Iterator[Webhook]:
    """Yields the webhooks of the setting WEBHOOKS; raises ConfigurationError, which quotes no secret."""
    for where, text in setting_entries("WEBHOOKS", words):
        url, secret, tag, *more = [*text.split(), "", "", ""][: max(3, len(text.split()))]
        try:
            if more or not secret:
                raise ValueError('it must be "URL SECRET" or "URL SECRET TAG"')
            if len(tag) > _LONGEST_TAG:
                raise ValueError(f"a tag has at most {_LONGEST_TAG} characters")
            secret_bytes(secret)
            url = receiver_url(url)
        except (ValueError, InvalidURL) as error:
            raise ConfigurationError(f"WEBHOOKS, {where}: {error}") from None
        digest = hashlib.sha256(f"{url} {tag}".encode()).hexdigest()[:_ID_DIGITS]
        yield Webhook(f"named-{digest}", url, secret, tag, is_named=True)


_decode = msgspec.json.Decoder(Webhook).decode


class WebhookRegistry:
    """`named`: those of the settings. Methods raise the errors of UNAVAILABLE."""

    def __init__(self, engine: Engine, named: Sequence[Webhook]) -> None:
        self._engine = engine
        self._named = {hook.id: hook for hook in named}

    async def all(self) -> dict[str, Webhook]:
        """Returns the webhooks by ID."""
        stored = await self._engine.client.hgetall(WEBHOOKS)
        hooks = {}
        for record in stored.values():
            with suppress(msgspec.MsgspecError):  # of another version
                hook = _decode(record)
                hooks[hook.id] = hook
        return hooks | self._named

    async def add(self, hook: Webhook) -> None:
        await self._change(("HSET", WEBHOOKS, hook.id, msgspec.json.encode(hook)))

    async def remove(self, hook: Webhook) -> None:
        """Removes a webhook that was added over HTTP, and the events that wait for it."""
        await self._change(("HDEL", WEBHOOKS, hook.id))
        key = webhook_events(hook.id)
        await self._engine.change_all([Command(key, ("DEL", key))])

    async def _change(self, words: Sequence[str | bytes]) -> None:
        await self._engine.change_all([Command(WEBHOOKS, words)])
