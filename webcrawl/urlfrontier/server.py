"""The gRPC server of the protocol, with the services for health and reflection."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import ConfigurationError
from webcrawl.urlfrontier.messages import POOL, SERVICE, add_descriptors, handlers
from webcrawl.urlfrontier.queues import ClientQueues
from webcrawl.urlfrontier.service import FrontierService

logger = logging.getLogger(__name__)

_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.so_reuseport", 0),
)
_GRACE_SECONDS = 5.0
_ANNOUNCE_SECONDS = 5.0

add_descriptors(health_pb2.DESCRIPTOR.serialized_pb)
add_descriptors(reflection_pb2.DESCRIPTOR.serialized_pb)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files for TLS. With `clients`, a client needs a certificate that this authority has signed."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Reads the files; raises ConfigurationError."""
        try:
            key, certificate = self.key.read_bytes(), self.certificate.read_bytes()
            clients = None if self.clients is None else self.clients.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"cannot read {error.filename}: {error.strerror}") from error
        return grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=clients, require_client_auth=clients is not None
        )


class FrontierServer:
    """Serves the queues of an engine at one address."""

    def __init__(self, queues: ClientQueues, address: str, certificates: Certificates | None = None) -> None:
        """`address`: host and port; port 0 takes a free one. Raises ConfigurationError if it cannot listen there."""
        self._queues = queues
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((handlers(FrontierService(queues)),))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server, pool=POOL)
        credentials = certificates and certificates.credentials()
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise ConfigurationError(f"cannot listen at {address}: {error}") from error
        self.address = f"{address.rpartition(':')[0]}:{port}"
        self._announcing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to serve."""
        await self._queues.announce(self.address, 3 * _ANNOUNCE_SECONDS)
        await self._server.start()
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._announcing = asyncio.create_task(self._announce())

    async def stop(self) -> None:
        """Lets calls end for some seconds, then ends them. What a client was not told, it sends again."""
        await self._health.enter_graceful_shutdown()
        if self._announcing is not None:
            self._announcing.cancel()
        with suppress(*UNAVAILABLE):
            await self._queues.retire(self.address)
        await self._server.stop(_GRACE_SECONDS)

    async def _announce(self) -> None:
        """Says again and again that this server runs, and whether the engine answers."""
        while True:
            await asyncio.sleep(_ANNOUNCE_SECONDS)
            status = health_pb2.HealthCheckResponse.SERVING
            try:
                await self._queues.announce(self.address, 3 * _ANNOUNCE_SECONDS)
            except UNAVAILABLE as error:
                logger.warning("The engine does not answer: %s", error)
                status = health_pb2.HealthCheckResponse.NOT_SERVING
            for name in ("", SERVICE):
                await self._health.set(name, status)
