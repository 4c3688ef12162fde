"""`/v1/webhooks`: webhooks are listed, added and removed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from webcrawl.client.answers import WebhookEntries, WebhookEntry
from webcrawl.engine.keys import webhook_events
from webcrawl.errors import AddressRefused
from webcrawl.service.events import EventHost, EventPattern
from webcrawl.service.hooks.webhook import MOST, Webhook, new_secret, receiver_url, secret_bytes
from webcrawl.service.hooks.webhooks import Webhooks
from webcrawl.service.operation import ApiAnswer, ApiCall, Operation
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.read_pages import PageURL
from webcrawl.service.service import Service
from webcrawl.web.access import Role


class NewWebhook(Struct, forbid_unknown_fields=True):
    """A receiver, and the events that it wants: with `tag`, of `host`, and of URLs that match `pattern`."""

    url: PageURL
    tag: Annotated[str, Meta(max_length=64, description="Only events with this tag.")] = ""
    host: EventHost = ""
    pattern: EventPattern = ""
    secret: Annotated[
        str, Meta(max_length=128, description="whsec_ and 24 to 64 bytes in base64. By default a random one.")
    ] = ""


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operations on webhooks. Only an operator sees them: the URL of a receiver may hold a token."""
    webhooks = Webhooks(service)
    service.run(webhooks.run())
    endpoint = _WebhooksEndpoint(service, webhooks)
    yield Operation(
        name="listWebhooks",
        method="GET",
        path="/v1/webhooks",
        summary="List the webhooks, and what waits for them",
        tag="events",
        role=Role.OPERATOR,
        handle=endpoint.read_all,
        answers={200: WebhookEntries},
    )
    yield Operation(
        name="addWebhook",
        method="POST",
        path="/v1/webhooks",
        summary="Have finished pages of the live lane posted to a URL",
        description="A page is a POST whose `data` is a PageEvent, signed as the Standard Webhooks specification says. "
        "What is not answered with 2xx is posted again, for about a day.",
        tag="events",
        role=Role.OPERATOR,
        handle=endpoint.add,
        body=NewWebhook,
        answers={201: WebhookEntry},
        problems=(ProblemKind.CONFLICT,),
    )
    yield Operation(
        name="removeWebhook",
        method="DELETE",
        path="/v1/webhooks/{id}",
        summary="Remove a webhook, and the events that wait for it",
        tag="events",
        role=Role.OPERATOR,
        handle=endpoint.remove,
        parameters={"id": "The `id` of the webhook."},
        answers={204: None},
        problems=(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT),
    )


@dataclass(frozen=True)
class _WebhooksEndpoint:
    service: Service
    webhooks: Webhooks

    async def read_all(self, call: ApiCall) -> WebhookEntries:
        client, entries = self.service.opened.connection.engine.client, []
        for hook in (await self.webhooks.registry.all()).values():
            entry, state = _entry(hook), self.webhooks.state(hook)
            entry.waiting = await client.xlen(webhook_events(hook.id))
            entry.delivered, entry.given_up, entry.error = state.delivered, state.given_up, state.error
            entries.append(entry)
        return WebhookEntries(entries)

    async def add(self, call: ApiCall) -> ApiAnswer:
        wanted: NewWebhook = call.body
        url, secret = receiver_url(wanted.url), wanted.secret or new_secret()
        try:
            secret_bytes(secret)
            await self.webhooks.sender.check(url)
        except (ValueError, AddressRefused) as error:
            raise ApiProblem(ProblemKind.BAD_REQUEST, f"body: {error}") from error
        if len(await self.webhooks.registry.all()) >= MOST:
            raise ApiProblem(ProblemKind.CONFLICT, f"there are {MOST} webhooks already")
        hook = Webhook(secrets.token_hex(8), url, secret, wanted.tag, wanted.host, wanted.pattern)
        await self.webhooks.add(hook)
        entry = _entry(hook)
        entry.secret = secret
        return ApiAnswer(entry, HTTPStatus.CREATED)

    async def remove(self, call: ApiCall) -> Response:
        hook = (await self.webhooks.registry.all()).get(call.path("id"))
        if hook is None:
            raise ApiProblem(ProblemKind.NOT_FOUND, "there is no such webhook")
        if hook.is_named:
            raise ApiProblem(ProblemKind.CONFLICT, "it is in the settings (WEBHOOKS)")
        await self.webhooks.remove(hook)
        return Response(status_code=HTTPStatus.NO_CONTENT)


def _entry(hook: Webhook) -> WebhookEntry:
    return WebhookEntry(hook.id, hook.url, hook.tag, hook.host, hook.pattern, named=hook.is_named)
