"""The HTTP server of the dashboard, in the event loop of its command."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from webcrawl.errors import ConfigurationError
from webcrawl.web.app import Dashboard

_LAST_SECONDS = 3
_BACKLOG = 128


def listening(address: str, port: int) -> socket.socket:
    """Returns a listening socket; raises ConfigurationError."""
    try:
        ((family, _, _, _, socket_address), *_) = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.create_server(socket_address[:2], family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"--bind {address} --port {port}: cannot listen ({error})") from error
    listener.setblocking(False)
    return listener


def _check(certificate: str, key: str | None) -> None:
    """Raises ConfigurationError unless the files contain a certificate and its private key."""
    for option, file in (("--certificate", certificate), ("--key", key)):
        try:
            if file:
                Path(file).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{option} {file}: {error.strerror}") from error

    def passphrase() -> str:
        # otherwise OpenSSL would ask for a passphrase at the terminal, also in a service
        raise ConfigurationError(
            f"--key {key or certificate}: the key has a passphrase, which nobody could type when the dashboard starts "
            "again. Write it without one: openssl pkey -in KEY -out FILE"
        )

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, passphrase)
    except ssl.SSLError as error:
        files = f"{certificate} --key {key}" if key else certificate
        raise ConfigurationError(
            f"--certificate {files}: no certificate with its private key as PEM ({error.reason or error})"
        ) from error


class Server(uvicorn.Server):
    """Serves a dashboard until `stop`."""

    def __init__(self, dashboard: Dashboard, certificate: str | None = None, key: str | None = None) -> None:
        """Raises ConfigurationError for files that cannot be used."""
        if certificate:
            _check(certificate, key)
        self._dashboard = dashboard
        config = uvicorn.Config(
            dashboard,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # accepts the header of a proxy on this machine that tells whether the browser used HTTPS
            proxy_headers=True,
            forwarded_allow_ips=["127.0.0.1", "::1"],
            timeout_graceful_shutdown=_LAST_SECONDS,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        super().__init__(config)

    def url(self, listener: socket.socket) -> str:
        """Returns the address for a browser."""
        host, port = listener.getsockname()[:2]
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        scheme = "https" if self.config.is_ssl else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"

    async def run(self, listener: socket.socket) -> None:  # type: ignore[override]
        """Serves until `stop`."""
        await self.serve([listener])

    def stop(self) -> None:
        """Ends `run` after the open requests have been answered; a second call does not wait for them."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._dashboard.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the handling of signals to the command."""
        yield
